# SPDX-License-Identifier: MIT
"""What happened inside the driver: its calls, where each errno came from, and faults of the GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ..trace.reader import Trace
from ..trace.schema import RecordType
from ..uapi.errnos import errno_name
from .lookup import place_of

_LOWEST_ERRNO = -4095


def driver_calls(trace: Trace, ioctls: pd.DataFrame) -> pd.DataFrame:
    """One row a recorded call of a driver function, by the time it ended; see docs/tables.md.

    ``pid`` is the process it was done for, <NA> where that is not known or all of them are concerned. Values
    that only some functions have are <NA> in the rows of others.
    """
    records = trace.of(RecordType.DRIVER)
    records = records[np.argsort(records["exit_ns"], kind="stable")]
    functions: Sequence[Mapping[str, object]] = trace.meta.get("driver_functions", [])
    names = np.array([*(str(row["name"]) for row in functions), "?"], dtype=object)
    number = np.minimum(records["function"], len(functions))
    ret = records["ret"].astype(np.int64)
    failed = (ret < 0) & (ret >= _LOWEST_ERRNO)
    owner = pd.Series(records["owner"], dtype="Int64")
    frame = pd.DataFrame(
        {
            "kernel_id": np.arange(len(records), dtype=np.int64),
            "function": names[number],
            "pid": owner.mask(owner == 0),
            "tid": records["head"]["tid"].astype(np.int64),
            "enter_ns": records["head"]["enter_ns"].astype(np.int64),
            "exit_ns": records["exit_ns"].astype(np.int64),
            "ret": ret,
            "errno": pd.Series(np.where(failed, -ret, 0)).map(errno_name).astype(object),
            "ioctl_id": _ioctl_ids(records, ioctls),
            "sp": records["sp"],
            "stack_id": _stack_ids(trace, records["stack"]),
        }
    )
    columns: dict[str, pd.Series] = {}
    for index, row in enumerate(functions):
        values = row["values"]
        assert isinstance(values, list)
        rows = number == index
        unknown = _unknown_values(trace, str(row["name"]))
        for place, name in enumerate(values):
            if name not in columns:
                columns[name] = pd.Series(pd.NA, index=frame.index, dtype="UInt64")
            if name in unknown:
                continue  # 0 in the records
            columns[name][rows] = records["values"][rows, place]
    return pd.concat([frame, pd.DataFrame(columns, index=frame.index)], axis=1)


def _unknown_values(trace: Trace, function: str) -> frozenset[str]:
    """Values this kernel's types do not lead to: "NAME without VALUE, VALUE" of the layer's probes.

    NAME is the symbol, which may have a compiler's suffix.
    """
    for probe in trace.meta.get("layers", {}).get("driver", {}).get("probes", ()):
        name, _, unknown = str(probe).partition(" without ")
        if unknown and name.split(".", 1)[0] == function:
            return frozenset(unknown.split(", "))
    return frozenset()


def _ioctl_ids(records: np.ndarray, ioctls: pd.DataFrame) -> pd.Series:
    wanted = [records["head"]["tid"].astype(np.int64), records["ioctl_ns"].astype(np.int64)]
    place = place_of([ioctls["tid"], ioctls["enter_ns"]], wanted)
    ids = np.append(ioctls["ioctl_id"].to_numpy(np.int64), -1)[place]
    return pd.Series(ids, dtype="Int64").mask(place < 0)


def kernel_stacks(trace: Trace) -> pd.DataFrame:
    """One row a kernel stack: ``stack_id``, and ``frames`` by name, innermost first, joined by `` < ``."""
    records = trace.of(RecordType.KERNEL_STACK)
    texts = [text.decode(errors="replace").replace("\n", " < ") for text in records["text"]]
    return pd.DataFrame({"stack_id": np.arange(len(records), dtype=np.int64), "frames": texts})


def _stack_ids(trace: Trace, keys: np.ndarray) -> pd.Series:
    """Row numbers in ``kernel_stacks`` of what the records call by key."""
    rows = {int(key): row for row, key in enumerate(trace.of(RecordType.KERNEL_STACK)["stack"])}
    return pd.Series(keys).map(rows).astype("Int64")


def origins(kernel: pd.DataFrame, ioctls: pd.DataFrame) -> pd.DataFrame:
    """Where the errno of each refused ioctl came from, one row an ioctl (index as in ``ioctls``).

    ``origin`` is the innermost function that returned the ioctl's errno, ``origin_chain`` all of them up to
    the ioctl, innermost first, ``origin_stack_id`` the kernel stack at the origin. <NA> where no probed
    function returned it: then it came from DRM's own checks, or from a function the compiler inlined.
    """
    frame = pd.DataFrame(
        {
            "origin": pd.Series(pd.NA, index=ioctls.index, dtype=object),
            "origin_chain": pd.Series(pd.NA, index=ioctls.index, dtype=object),
            "origin_stack_id": pd.Series(pd.NA, index=ioctls.index, dtype="Int64"),
        }
    )
    refused = ioctls.index[ioctls["errno"] != ""]
    failures = kernel[(kernel["errno"] != "") & kernel["ioctl_id"].notna()]
    by_ioctl = failures.groupby("ioctl_id").indices
    numbers = ioctls["ioctl_id"].to_numpy(np.int64)
    for row in refused:  # a handful a trace; ids are row numbers
        places = by_ioctl.get(int(numbers[row]))
        if places is None:
            continue
        chain = _chain(failures.iloc[np.sort(places)])
        errno = ioctls.at[row, "errno"]
        if chain.empty or chain["errno"].iloc[-1] != errno:
            continue
        origin = chain[chain["errno"] == errno].iloc[0]
        frame.at[row, "origin"] = origin["function"]
        frame.at[row, "origin_chain"] = " < ".join(
            name if code == errno else f"{name} ({code})"
            for name, code in zip(chain["function"], chain["errno"], strict=True)
        )
        frame.at[row, "origin_stack_id"] = origin["stack_id"]
    return frame


def _chain(failures: pd.DataFrame) -> pd.DataFrame:
    """The failures that led to the last one, innermost first.

    ``failures`` are those of one ioctl in the order of their returns. A function returns before the one that
    called it, and its stack pointer is lower. So going back from the last, each next one has to lie deeper;
    the first that does not belongs to something the driver had got over.
    """
    pointers = failures["sp"].to_numpy(np.uint64)
    first = len(pointers) - 1
    while first > 0 and pointers[first - 1] < pointers[first]:
        first -= 1
    return failures.iloc[max(first, 0) :]


#: What the driver writes into the kernel log when the GPU fails (panthor_{sched,mmu,gpu,device}.c, both).
_MESSAGES: tuple[tuple[str, str], ...] = (
    ("CS_FATAL", "command-stream fatal"),
    ("CS_FAULT", "command-stream fault"),
    ("Unhandled Page fault", "page fault"),
    ("progress timeout", "progress time-out"),
    ("CSG_PROGRESS_TIMER", "progress time-out"),
    ("job timeout", "job time-out"),
    ("update request timedout", "firmware time-out"),
    ("GPU Fault", "GPU fault"),
    ("making device unusable", "device lost"),
)

#: Functions whose call alone says that something went wrong.
_EVENTS = {
    "panthor_sched_report_mmu_fault": "page fault",
    "queue_timedout_job": "job time-out",
    "panthor_vm_declare_unusable": "VM unusable",
    "panthor_device_reset_work": "reset",
    "panthor_device_unplug": "device lost",
}


def gpu_faults(trace: Trace, kernel: pd.DataFrame) -> pd.DataFrame:
    """One row a fault of the GPU or a loss of one of its contexts, by time; see docs/tables.md.

    ``pid`` is <NA> for what concerns the device as a whole, or whose victim the driver does not tell.
    """
    parts = [_fault_calls(kernel), _lost_groups(kernel), _fault_messages(trace)]
    parts = [part for part in parts if len(part)]
    columns = ["time_ns", "pid", "fault", "detail"]
    if not parts:
        return pd.DataFrame(columns=["fault_id", *columns]).astype({"time_ns": "int64", "pid": "Int64"})
    frame = pd.concat(parts, ignore_index=True).sort_values("time_ns", kind="stable").reset_index(drop=True)
    frame = frame.astype({"time_ns": "int64", "pid": "Int64"})
    frame.insert(0, "fault_id", np.arange(len(frame), dtype=np.int64))
    return frame


def _fault_calls(kernel: pd.DataFrame) -> pd.DataFrame:
    calls = kernel[kernel["function"].isin(_EVENTS)]
    unusable = kernel.iloc[:0]
    if "unusable" in kernel:
        unusable = kernel[(kernel["function"] == "panthor_vm_exec_op") & kernel["unusable"].fillna(0).gt(0)]
    return pd.DataFrame(
        {
            "time_ns": [*calls["enter_ns"], *unusable["exit_ns"]],
            "pid": [*calls["pid"], *unusable["pid"]],
            "fault": [*calls["function"].map(_EVENTS), *["VM unusable"] * len(unusable)],
            "detail": [*calls["function"], *(f"panthor_vm_exec_op {code}" for code in unusable["errno"])],
        }
    )


def _lost_groups(kernel: pd.DataFrame) -> pd.DataFrame:
    """Groups that ended otherwise than by being destroyed."""
    ended = kernel[kernel["function"] == "group_term_work"]
    rows = []
    for _, row in ended.iterrows():
        marks = [
            text
            for name, text in (
                ("vm_fault", "its VM had a page fault"),
                ("vm_unusable", "its VM is unusable"),
                ("timed_out", "timed out"),
                ("fatal_queues", "fatal fault in its queues"),
            )
            if name in row.index and not pd.isna(row[name]) and int(row[name])
        ]
        if marks:
            rows.append((row["enter_ns"], row["pid"], "group lost", ", ".join(marks)))
    return pd.DataFrame(rows, columns=["time_ns", "pid", "fault", "detail"])


def _fault_messages(trace: Trace) -> pd.DataFrame:
    rows = []
    for record in trace.of(RecordType.MESSAGE):  # a handful a trace
        text = record["text"].decode(errors="replace").strip()
        kind = next((kind for needle, kind in _MESSAGES if needle in text), None)
        if kind:
            named = re.search(r"pid=(\d+)", text)  # since 7.x
            pid = int(named[1]) if named else pd.NA
            detail = " ".join(text.split(": ", 1)[-1].split())
            rows.append((int(record["head"]["enter_ns"]), pid, kind, detail))
    return pd.DataFrame(rows, columns=["time_ns", "pid", "fault", "detail"])
