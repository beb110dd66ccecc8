# SPDX-License-Identifier: MIT
"""One process of a trace with its children, as a trace of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import TraceError
from .reader import Records, Trace
from .schema import ProcessEvent, RecordType

#: Records that belong to the trace, not to a process.
_SHARED = frozenset({RecordType.COUNTERS, RecordType.KERNEL_STACK})


def only_process(trace: Trace, pid: int, exit_code: int | None) -> Trace:
    """``trace`` as if only ``pid`` and its descendants had been traced. Raises TraceError where it was not.

    ``exit_code`` is how the process ended (the shell's way). What concerns all processes, and the driver's
    messages, are kept for as long as these processes lived.
    """
    process = trace.of(RecordType.PROCESS)
    pids = _descendants(process, pid)
    of_them = np.isin(process["head"]["tgid"], pids)
    if not of_them.any():
        raise TraceError(f"process {pid} is not in this trace")
    times = process["head"]["enter_ns"][of_them | _is_fork_of(process, pids)]
    start, end = int(times.min()), int(times.max())
    records = {kind: _chosen(kind, rows, pids, start, end) for kind, rows in trace.records.items()}
    meta = {**trace.meta, "started_monotonic_ns": start}
    facts: dict[str, Any] | None = None
    if trace.end is not None and exit_code is not None:
        facts = {**trace.end, "root_pid": pid, "exit_code": exit_code}
    return replace(trace, meta=meta, records=records, end=facts)


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
