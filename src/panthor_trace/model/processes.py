# SPDX-License-Identifier: MIT
"""Tables of processes, of what they map executable, and of what the kernel said of devices."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..trace.reader import Trace
from ..trace.schema import Flag, MappingKind, ProcessEvent, RecordType
from ..uapi.taskstats import MEMBERS, OF_PROCESS

_ACCOUNTING = tuple(member.column for member in MEMBERS if member.column not in ("process", "wait_status"))


def processes(trace: Trace, cgroup_kills: Mapping[int, tuple[bool, int | None]]) -> pd.DataFrame:
    """One row a traced process: parent, last executed file, first and last time seen, its accounting.

    ``cgroup_kills`` says of those the out-of-memory killer chose whether it acted for a memory cgroup,
    and of how many bytes its limit was.
    """
    records = trace.of(RecordType.PROCESS)
    rows: dict[int, dict[str, object]] = {}
    attached = trace.meta.get("attached_pid")
    if attached is not None:
        command = trace.meta.get("command") or [""]
        start = trace.meta.get("started_monotonic_ns", 0)
        rows[attached] = {"pid": attached, "start_ns": start, "path": command[0]}
    order = np.argsort(records["head"]["enter_ns"], kind="stable")
    for record in records[order]:  # a handful of rows a trace
        pid, time_ns = int(record["head"]["tgid"]), int(record["head"]["enter_ns"])
        event = int(record["event"])
        row = rows.setdefault(pid, {"pid": pid, "start_ns": time_ns})
        if event == ProcessEvent.FORK:
            child = int(record["child"])
            # A number given out again: that who had it before was killed for memory stays known.
            before = rows.get(child, {})
            killed = {name: before[name] for name in ("oom_killed_ns",) if name in before}
            rows[child] = {"pid": child, "parent": pid, "start_ns": time_ns, "path": row.get("path", "")}
            rows[child] |= killed
        elif event == ProcessEvent.EXEC:
            row["path"] = record["path"].decode(errors="replace")
        elif event == ProcessEvent.EXIT:
            row["exit_ns"] = time_ns
            if not record["head"]["flags"] & Flag.FAULT_AFTER:
                code = os.waitstatus_to_exitcode(int(record["child"]))
                row["exit_status"] = 128 - code if code < 0 else code
        elif event == ProcessEvent.OOM_KILL:
            victim = int(record["child"])
            rows.setdefault(victim, {"pid": victim, "start_ns": time_ns})["oom_killed_ns"] = time_ns
    for pid, values in _accounting(trace).items():
        if pid in rows:
            rows[pid].update(values)
    whole = ["parent", "exit_ns", "exit_status", "oom_killed_ns", *_ACCOUNTING]
    columns = ["pid", "parent", "path", "start_ns", *whole[1:]]
    frame = pd.DataFrame(list(rows.values()), columns=columns).astype(dict.fromkeys(whole, "Int64"))
    kills = [cgroup_kills.get(int(pid), (pd.NA, pd.NA)) for pid in frame["pid"]]
    frame["oom_in_cgroup"] = pd.Series([of for of, _ in kills], index=frame.index, dtype="boolean")
    frame["oom_limit"] = pd.Series([limit for _, limit in kills], index=frame.index, dtype="Int64")
    return frame


def _accounting(trace: Trace) -> dict[int, dict[str, int]]:
    """taskstats by process. Delays of a whole group are the kernel's own sum where it sent one."""
    totals: dict[int, dict[str, int]] = {}
    groups: dict[int, dict[str, int]] = {}
    for row in trace.side.get("taskstats", ()):
        of_group = bool(row["group"])
        into = (groups if of_group else totals).setdefault(row["pid"], {})
        for column in _ACCOUNTING:
            if column not in row:
                continue
            if column in OF_PROCESS:
                if not of_group:  # not filled in for a group (fill_stats_for_tgid, kernel/taskstats.c)
                    into[column] = max(into.get(column, 0), row[column])
            elif not of_group:
                into[column] = into.get(column, 0) + row[column]
            elif column.endswith("_delay_ns"):
                into[column] = row[column]
    return {pid: {**values, **groups.get(pid, {})} for pid, values in totals.items()}


def _frame(trace: Trace, name: str, columns: Mapping[str, str]) -> pd.DataFrame:
    rows = [{column: row.get(column) for column in columns} for row in trace.side.get(name, ())]
    return pd.DataFrame(rows, columns=list(columns)).astype(dict(columns))


def libraries(trace: Trace) -> pd.DataFrame:
    """One row a library that the user-space probes were put on, and how late that was."""
    frame = _frame(
        trace,
        "libraries",
        {"layer": "object", "path": "object", "build_id": "object", "pid": "Int64", "mapped_ns": "Int64",
         "attached_ns": "Int64", "probes": "Int64"},
    )  # fmt: skip
    frame["late_ns"] = frame["attached_ns"] - frame["mapped_ns"]
    return frame


_MODULE_COLUMNS = {
    "pid": "int64",
    "seen_ns": "int64",
    "start": "uint64",
    "end": "uint64",
    "offset": "uint64",
    "device": "int64",
    "inode": "int64",
    "path": "object",
    "soname": "object",
    "build_id": "object",
}


def modules(trace: Trace) -> pd.DataFrame:
    """One row an executable mapping of a file by a traced process.

    As /proc/PID/maps had it; one of a process that had ended by then as the mmap() was seen, and without a
    path where no other process mapped the same file.
    """
    frame = _frame(trace, "modules", _MODULE_COLUMNS)
    records = trace.of(RecordType.MAPPING)
    records = records[
        (records["kind"] == MappingKind.LIBRARY) & ((records["ret"] > 0) | (records["ret"] < -4095))
    ]
    file = ["pid", "device", "inode"]
    seen = pd.DataFrame(
        {
            "pid": records["head"]["tgid"].astype(np.int64),
            "seen_ns": records["exit_ns"].astype(np.int64),
            "start": records["ret"].astype(np.uint64),
            "end": records["ret"].astype(np.uint64) + records["length"],
            "offset": records["offset"],
            "device": records["device"].astype(np.int64),
            "inode": records["inode"].astype(np.int64),
        }
    )
    read = pd.MultiIndex.from_frame(frame[file])
    unread = seen[~pd.MultiIndex.from_frame(seen[file]).isin(read)]
    if unread.empty:
        return frame
    known = frame.drop_duplicates(file[1:])[[*file[1:], "path", "soname", "build_id"]]
    rest = unread.merge(known, on=file[1:], how="left")
    return pd.concat([frame, rest], ignore_index=True) if len(frame) else rest


def uevents(trace: Trace) -> pd.DataFrame:
    """One row an event of a DRM device or of a device core dump."""

    def row(line: Mapping[str, Any]) -> dict[str, object]:
        variables = line.get("variables", {})
        named = {name.lower(): variables.get(name, "") for name in ("ACTION", "SUBSYSTEM", "DEVPATH")}
        return {"time_ns": line["time_ns"], **named, "variables": json.dumps(variables, sort_keys=True)}

    rows = [row(line) for line in trace.side.get("uevents", ())]
    return pd.DataFrame(rows, columns=["time_ns", "action", "subsystem", "devpath", "variables"])
