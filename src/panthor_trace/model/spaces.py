# SPDX-License-Identifier: MIT
"""Tables of GPU address spaces (VMs) and of tiler heaps with their growth."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..trace.reader import Records
from .requests import arguments

_FROM_IOCTL = ["ioctl_id", "pid", "tid", "file", "exit_ns", "ret", "errno"]


def _created(calls: pd.DataFrame, records: Records, name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of the ioctls ``name``, with their arguments as they were after the call."""
    after = arguments(calls, records, name, "after")
    frame = calls.loc[after.index, _FROM_IOCTL].rename(columns={"exit_ns": "created_ns"})
    return frame, after


def _destroyed(
    made: pd.DataFrame, calls: pd.DataFrame, records: Records, ioctl: str, argument: str, key: str
) -> pd.Series:
    """When each object was destroyed by its id: the first time before the id is given out again."""
    result = pd.Series(pd.NA, index=made.index, dtype="Int64")
    before = arguments(calls, records, ioctl, "before")
    done = calls.loc[before.index, "ret"].eq(0).fillna(False).astype(bool)
    ends = calls.loc[before.index[done], ["file", "exit_ns"]].rename(columns={"exit_ns": "destroyed_ns"})
    ends[key] = before.loc[done, argument].astype("int64")
    made = made.loc[made[key].notna()].sort_values("created_ns")
    if made.empty or ends.empty:
        return result
    reused = made.groupby(["file", key])["created_ns"].shift(-1)
    matched = pd.merge_asof(
        made[["created_ns", "file", key]].astype({key: "int64"}),
        ends[["destroyed_ns", "file", key]].sort_values("destroyed_ns"),
        left_on="created_ns",
        right_on="destroyed_ns",
        by=["file", key],
        direction="forward",
    )["destroyed_ns"].set_axis(made.index)
    valid = matched.notna() & (reused.isna() | (matched < reused))
    result[made.index[valid]] = matched[valid].astype("int64").to_numpy()
    return result


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
    made = frame["ret"].eq(0).fillna(False).astype(bool)
    frame["flags"] = before["flags"]
    frame["requested"] = before["user_va_range"]
    frame["vm_id"] = pd.Series(after["id"], dtype="Int64").where(made)
    frame["user_va_range"] = pd.Series(after["user_va_range"], dtype="UInt64").where(made)
    pointer = _of_ioctl(kernel, "panthor_vm_create", "ret", frame["ioctl_id"])
    frame["vm"] = _address(pointer).where(made)
    frame["kernel_va_size"] = _of_ioctl(kernel, "panthor_vm_create", "kernel_va_size", frame["ioctl_id"])
    frame["destroyed_ns"] = _destroyed(frame, calls, records, "VM_DESTROY", "id", "vm_id")
    return frame.reset_index(drop=True)


def _address(values: pd.Series) -> pd.Series:
    """A pointer that was recorded as a signed number."""
    known = values.notna()
    result = pd.Series(pd.NA, index=values.index, dtype="UInt64")
    result[known] = values[known].astype("int64").to_numpy().view(np.uint64)
    return result


def heaps(calls: pd.DataFrame, records: Records, vm_table: pd.DataFrame) -> pd.DataFrame:
    """One row a TILER_HEAP_CREATE, refused ones included; ``heap_growth`` adds what became of it."""
    frame, after = _created(calls, records, "TILER_HEAP_CREATE")
    before = arguments(calls, records, "TILER_HEAP_CREATE", "before")
    made = frame["ret"].eq(0).fillna(False).astype(bool)
    for name in ("vm_id", "initial_chunk_count", "chunk_size", "max_chunks", "target_in_flight"):
        frame[name] = before[name]
    frame["handle"] = pd.Series(after["handle"], dtype="Int64").where(made)
    frame["heap_va"] = pd.Series(after["tiler_heap_ctx_gpu_va"], dtype="UInt64").where(made)
    frame["destroyed_ns"] = _destroyed(frame, calls, records, "TILER_HEAP_DESTROY", "handle", "handle")
    frame["vm"] = _vm_objects(frame, vm_table)
    frame.insert(0, "heap_id", np.arange(len(frame), dtype=np.int64))
    return frame.reset_index(drop=True)


def _vm_objects(frame: pd.DataFrame, vm_table: pd.DataFrame) -> pd.Series:
    """The kernel's VM object of each row's ``vm_id``: the latest one created under that id before."""
    result = pd.Series(pd.NA, index=frame.index, dtype="UInt64")
    known = vm_table[vm_table["vm_id"].notna() & vm_table["vm"].notna()]
    if frame.empty or known.empty:
        return result
    rows = frame.sort_values("created_ns")
    matched = pd.merge_asof(
        rows[["created_ns", "file", "vm_id"]].astype({"vm_id": "int64"}),
        known[["created_ns", "file", "vm_id", "vm"]].astype({"vm_id": "int64"}).sort_values("created_ns"),
        on="created_ns",
        by=["file", "vm_id"],
    )
    result[rows.index] = matched["vm"].astype("UInt64").to_numpy()
    return result


_GROWTH = (
    *("heap_id", "pid", "time_ns", "ret", "errno", "renderpasses_in_flight", "pending_frag_count"),
    *("chunks", "max_chunks", "target_in_flight", "chunk_size", "limit"),
)


def heap_growth(kernel: pd.DataFrame, heap_table: pd.DataFrame) -> pd.DataFrame:
    """One row a request of the firmware for another chunk of a heap, by time; see docs/tables.md.

    ``chunks`` is how many the heap had, ``limit`` what a refusal ran into: the heap's own ``max_chunks`` or
    ``target_in_flight`` (panthor_heap_grow, panthor_heap.c, 6.12 and 7.3: both ENOMEM), else memory.
    """
    columns = ["growth_id", *_GROWTH]
    asked = kernel[kernel["function"].isin(["panthor_heap_grow", "panthor_heap_return_chunk"])]
    rows: list[dict[str, object]] = []
    counts: dict[int, int] = {}
    made = heap_table[heap_table["heap_va"].notna()]
    for _, event in asked.iterrows():  # a handful of rows a trace
        heap = _heap_of(event, made)
        number = int(heap["heap_id"]) if heap is not None else None
        if heap is not None and number is not None:
            counts.setdefault(number, int(heap["initial_chunk_count"]))
        if event["function"] == "panthor_heap_return_chunk":
            if number is not None and event["errno"] == "":
                counts[number] -= 1
            continue
        row: dict[str, object] = {
            "heap_id": number,
            "pid": event["pid"],
            "time_ns": event["exit_ns"],
            "ret": event["ret"],
            "errno": event["errno"],
            "renderpasses_in_flight": event["renderpasses_in_flight"],
            "pending_frag_count": event["pending_frag_count"],
        }
        if heap is not None and number is not None:
            row |= {name: heap[name] for name in ("max_chunks", "target_in_flight", "chunk_size")}
            row["chunks"] = counts[number]
        row["limit"] = _limit_of(row) if event["errno"] else ""
        if number is not None and event["errno"] == "":
            counts[number] += 1
        rows.append(row)
    frame = pd.DataFrame(rows, columns=columns[1:])
    whole = [name for name in columns[1:] if name not in ("errno", "limit")]
    frame = frame.astype(dict.fromkeys(whole, "Int64"))
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
    if row["errno"] != "ENOMEM" or "chunks" not in row:
        return ""
    passes, target = row["renderpasses_in_flight"], row["target_in_flight"]
    if int(str(passes)) > int(str(target)):
        return "heap_target_in_flight"
    if int(str(row["chunks"])) >= int(str(row["max_chunks"])):
        return "heap_max_chunks"
    return "memory"
