# SPDX-License-Identifier: MIT
"""Tables of GPU address spaces (VMs) and of tiler heaps with their growth."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..trace.reader import Records
from .lifetimes import destroyed, latest
from .lookup import answered, look_up
from .requests import arguments

_FROM_IOCTL = ["ioctl_id", "pid", "tid", "file", "fd", "exit_ns", "ret", "errno"]


def _created(calls: pd.DataFrame, records: Records, name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of the ioctls ``name``, with their arguments as they were after the call."""
    after = arguments(calls, records, name, "after")
    frame = calls.loc[after.index, _FROM_IOCTL].rename(columns={"exit_ns": "created_ns"})
    return frame, after


def _of_ioctl(kernel: pd.DataFrame, function: str, column: str, ioctls: pd.Series) -> pd.Series:
    """A value of the call of ``function`` inside each ioctl, <NA> where there is none."""
    if column not in kernel:
        return pd.Series(pd.NA, index=ioctls.index, dtype="UInt64")
    calls = kernel[(kernel["function"] == function) & kernel["ioctl_id"].notna()]
    values = calls.drop_duplicates("ioctl_id", keep="last").set_index("ioctl_id")[column]
    return pd.Series(values.reindex(ioctls).to_numpy(), index=ioctls.index)


def vms(calls: pd.DataFrame, records: Records, kernel: pd.DataFrame) -> pd.DataFrame:
    """One row a VM_CREATE, refused ones included; see docs/tables.md.

    ``user_va_range`` is what the kernel granted, ``requested`` what was asked for; ``vm`` is the kernel's
    object, by which events that no ioctl shows are told apart.
    """
    frame, after = _created(calls, records, "VM_CREATE")
    before = arguments(calls, records, "VM_CREATE", "before")
    made = answered(frame["ret"])
    frame["flags"] = before["flags"]
    frame["requested"] = before["user_va_range"]
    frame["vm_id"] = pd.Series(after["id"], dtype="Int64").where(made)
    frame["user_va_range"] = pd.Series(after["user_va_range"], dtype="UInt64").where(made)
    pointer = _of_ioctl(kernel, "panthor_vm_create", "ret", frame["ioctl_id"])
    frame["vm"] = _address(pointer).where(made)
    frame["kernel_va_size"] = _of_ioctl(kernel, "panthor_vm_create", "kernel_va_size", frame["ioctl_id"])
    frame["destroyed_ns"] = destroyed(frame, "vm_id", calls, records, "VM_DESTROY", "id")
    return frame.reset_index(drop=True)


def _address(values: pd.Series) -> pd.Series:
    """A pointer that was recorded as a signed number."""
    known = values.notna()
    result = pd.Series(pd.NA, index=values.index, dtype="UInt64")
    result[known] = values[known].astype("int64").to_numpy().view(np.uint64)
    return result


def heaps(calls: pd.DataFrame, records: Records, vm_table: pd.DataFrame) -> pd.DataFrame:
    """One row a TILER_HEAP_CREATE, refused ones included; ``heap_growth`` adds what became of it.

    The end of a VM is that of its heaps (panthor_vm_destroy, panthor_mmu.c, 6.12 and 7.3).
    """
    frame, after = _created(calls, records, "TILER_HEAP_CREATE")
    before = arguments(calls, records, "TILER_HEAP_CREATE", "before")
    made = answered(frame["ret"])
    for name in ("vm_id", "initial_chunk_count", "chunk_size", "max_chunks", "target_in_flight"):
        frame[name] = before[name]
    frame["handle"] = pd.Series(after["handle"], dtype="Int64").where(made)
    frame["heap_va"] = pd.Series(after["tiler_heap_ctx_gpu_va"], dtype="UInt64").where(made)
    vm = latest(vm_table[vm_table["vm_id"].notna()], frame, ["file", "vm_id"], "created_ns")
    frame["vm"] = look_up(vm, vm_table["vm"])
    own = destroyed(frame, "handle", calls, records, "TILER_HEAP_DESTROY", "handle")
    ends = pd.concat([own, look_up(vm, vm_table["destroyed_ns"])], axis=1)
    frame["destroyed_ns"] = ends.min(axis=1).astype("Int64")
    frame.insert(0, "heap_id", np.arange(len(frame), dtype=np.int64))
    return frame.reset_index(drop=True)


_GROWTH = (
    *("heap_id", "pid", "time_ns", "operation", "ret", "errno"),
    *("renderpasses_in_flight", "pending_frag_count", "chunks", "added"),
    *("max_chunks", "target_in_flight", "chunk_size", "limit"),
)
#: The functions that change a heap: what they do, and what their success adds to its chunks.
_CHUNKS = {"panthor_heap_grow": ("grow", 1), "panthor_heap_return_chunk": ("return", -1)}


def heap_growth(kernel: pd.DataFrame, heap_table: pd.DataFrame) -> pd.DataFrame:
    """One row a request of the firmware for a chunk of a heap, or a chunk taken back; see docs/tables.md.

    ``chunks`` is how many the heap had, ``added`` what that changed, ``limit`` what a refusal ran into: the
    heap's own ``max_chunks`` or ``target_in_flight`` (panthor_heap_grow, panthor_heap.c, 6.12 and 7.3: both
    ENOMEM), else memory.
    """
    rows: list[dict[str, object]] = []
    counts: dict[int, int] = {}
    made = heap_table[heap_table["heap_va"].notna()]
    for _, event in kernel[kernel["function"].isin(_CHUNKS)].iterrows():  # a handful of rows a trace
        heap = _heap_of(event, made)
        operation, added = _CHUNKS[event["function"]]
        row: dict[str, object] = {
            **{name: event[name] for name in ("pid", "ret", "errno")},
            **{name: event.get(name) for name in ("renderpasses_in_flight", "pending_frag_count")},
            "time_ns": event["exit_ns"],
            "operation": operation,
            "added": 0 if event["errno"] else added,
        }
        if heap is not None:
            row |= {name: heap[name] for name in ("heap_id", "max_chunks", "target_in_flight", "chunk_size")}
            row["chunks"] = counts.setdefault(int(heap["heap_id"]), int(heap["initial_chunk_count"]))
            counts[int(heap["heap_id"])] += int(str(row["added"]))
        row["limit"] = _limit_of(row) if operation == "grow" and event["errno"] else ""
        rows.append(row)
    frame = pd.DataFrame(rows, columns=list(_GROWTH))
    frame = frame.astype({name: "Int64" for name in _GROWTH if name not in ("operation", "errno", "limit")})
    frame.insert(0, "growth_id", np.arange(len(frame), dtype=np.int64))
    return frame


def _heap_of(event: pd.Series, made: pd.DataFrame) -> pd.Series | None:
    """The heap an event is about: by its context's address, in the VM the event names."""
    if pd.isna(event["heap_va"]):
        return None
    found = made[
        made["heap_va"].eq(event["heap_va"])
        & (made["vm"].isna() | made["vm"].eq(event["vm"])).fillna(True)
        & (made["created_ns"] <= event["enter_ns"])
        & (made["pid"].eq(event["pid"]).fillna(False) if not pd.isna(event["pid"]) else True)
    ]
    return found.iloc[-1] if len(found) else None


def _limit_of(row: dict[str, object]) -> str:
    passes, target = row["renderpasses_in_flight"], row.get("target_in_flight")
    if row["errno"] != "ENOMEM" or "chunks" not in row or pd.isna(passes):  # type: ignore[call-overload]
        return ""
    if int(str(passes)) > int(str(target)):
        return "heap_target_in_flight"
    if int(str(row["chunks"])) >= int(str(row["max_chunks"])):
        return "heap_max_chunks"
    return "memory"
