# SPDX-License-Identifier: MIT
"""One process of a trace with its children, as a trace of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import TraceError
from .reader import Records, Trace
from .schema import Counter, MappingKind, ProcessEvent, RecordType

#: Records that belong to the trace, not to a process.
_SHARED = frozenset({RecordType.COUNTERS, RecordType.KERNEL_STACK})
_NEVER = np.iinfo(np.int64).max

Rows = Sequence[Mapping[str, Any]]


def only_process(trace: Trace, pid: int, exit_code: int | None) -> Trace:
    """``trace`` as if only ``pid`` and its descendants had been traced. Raises TraceError where it was not.

    ``exit_code`` is how the process ended (the shell's way). What concerns all processes, and the driver's
    messages, are kept for as long as these processes lived; all counts of losses are, for nobody knows whose
    records were lost.
    """
    process = trace.of(RecordType.PROCESS)
    pids = _descendants(process, pid)
    attached = trace.meta.get("attached_pid") in pids
    of_them = np.isin(process["head"]["tgid"], pids)
    times = process["head"]["enter_ns"][of_them | _is_fork_of(process, pids)]
    if not of_them.any() and not attached:
        why = ": records of processes were lost" if _processes_lost(trace) else ""
        raise TraceError(f"process {pid} is not in this trace{why}")
    start = int(trace.meta.get("started_monotonic_ns", 0)) if attached else int(times.min())
    ended = process["head"]["tgid"][of_them & (process["event"] == ProcessEvent.EXIT)]
    end = int(times.max()) if np.isin(pids, ended).all() else _last_seen(trace, pids)
    meta = {**trace.meta, "started_monotonic_ns": start}
    if not attached:
        meta["attached_pid"] = None
    facts: dict[str, Any] | None = None
    if trace.end is not None and exit_code is not None:
        facts = {**trace.end, "root_pid": pid, "exit_code": exit_code}
    records = {kind: _chosen(kind, rows, pids, start, end) for kind, rows in trace.records.items()}
    side = _side(trace, set(pids.tolist()), start, end)
    return replace(trace, meta=meta, records=records, end=facts, side=side)


def _processes_lost(trace: Trace) -> bool:
    counters = trace.of(RecordType.COUNTERS)
    return bool(len(counters) and counters["values"][-1][Counter.LOST_PROCESS])


def _last_seen(trace: Trace, pids: np.ndarray) -> int:
    """Until when processes lived whose ends were not recorded: for ever, or where records of processes were
    lost, as far as they were seen. What a later process did to the device is not theirs."""
    if not _processes_lost(trace):
        return int(_NEVER)
    times = [
        int(rows["head"]["enter_ns"][np.isin(rows["head"]["tgid"], pids)].max(initial=0))
        for rows in trace.records.values()
    ]
    return max(times, default=0)


def _is_fork_of(process: Records, pids: np.ndarray) -> np.ndarray:
    return np.asarray((process["event"] == ProcessEvent.FORK) & np.isin(process["child"], pids))


def _descendants(process: Records, pid: int) -> np.ndarray:
    forks = process[process["event"] == ProcessEvent.FORK]
    found = {pid}
    for parent, child in zip(forks["head"]["tgid"], forks["child"], strict=True):  # in the order of time
        if int(parent) in found:
            found.add(int(child))
    return np.array(sorted(found))


def _chosen(kind: RecordType, rows: Records, pids: np.ndarray, start: int, end: int) -> Records:
    if kind in _SHARED:
        return rows
    when = rows["head"]["enter_ns"]
    living = (when >= start) & (when <= end)
    own = np.isin(rows["head"]["tgid"], pids)
    if kind is RecordType.MESSAGE:
        own = living
    elif kind is RecordType.DRIVER:
        own = np.isin(rows["owner"], pids) | ((rows["owner"] == 0) & living)
    elif kind is RecordType.PROCESS:
        own |= (rows["event"] == ProcessEvent.OOM_KILL) & np.isin(rows["child"], pids)
    chosen: Records = rows[own]
    return chosen


def _side(trace: Trace, pids: set[int], start: int, end: int) -> dict[str, Rows]:
    """The side tables of ``pids``; one that is not known here is everybody's."""
    modules = _modules(trace, pids)
    chosen: Mapping[str, Callable[[Rows], Rows]] = {
        "libraries": lambda rows: [_library(row, modules, pids, start) for row in rows],
        "modules": lambda _: modules,
        "state": lambda rows: [row if row["pid"] in pids else _of_the_machine(row) for row in rows],
        # A frame in a file is everybody's, one at an address is of a process.
        "symbols": lambda rows: [row for row in rows if row.get("pid") is None or row["pid"] in pids],
        "taskstats": lambda rows: [row for row in rows if row["pid"] in pids],
        "uevents": lambda rows: [row for row in rows if start <= row["time_ns"] <= end],
    }
    return {name: chosen[name](rows) if name in chosen else rows for name, rows in trace.side.items()}


def _modules(trace: Trace, pids: set[int]) -> Rows:
    """The modules of ``pids``, and by the name that other processes gave them those of whom nobody saw."""
    rows = trace.side.get("modules", ())
    found = [row for row in rows if row["pid"] in pids]
    read = {(row["pid"], row["device"], row["inode"]) for row in found}
    named = {(row["device"], row["inode"]): row for row in rows}
    for record in trace.of(RecordType.MAPPING):
        owner, file = int(record["head"]["tgid"]), (int(record["device"]), int(record["inode"]))
        mapped = record["kind"] == MappingKind.LIBRARY and not -4096 < record["ret"] < 0
        if owner in pids and mapped and file in named and (owner, *file) not in read:
            span = {"start": int(record["ret"]), "end": int(record["ret"]) + int(record["length"])}
            seen = {"pid": owner, "seen_ns": int(record["exit_ns"]), "offset": int(record["offset"])}
            found.append({**named[file], **seen, **span})
    return found


def _library(row: Mapping[str, Any], modules: Rows, pids: set[int], start: int) -> Mapping[str, Any]:
    """When a library was probed, as seen from ``pids``: for them it may have been in time."""
    if row["pid"] is None or row["pid"] in pids:
        return row
    mapped = [module for module in modules if module["path"] == row["path"]]
    early = row["attached_ns"] > start and [m for m in mapped if m["seen_ns"] < row["attached_ns"]]
    first = early[0] if early else {}
    return {**row, "pid": first.get("pid"), "mapped_ns": first.get("seen_ns")}


#: What a snapshot says of the machine, whatever process it was taken of.
_OF_THE_MACHINE = ("time_ns", "why", "max_map_count", "memory")


def _of_the_machine(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: row.get(name) for name in _OF_THE_MACHINE}
