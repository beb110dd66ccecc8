# SPDX-License-Identifier: MIT
"""The machine's limits over time: one row a snapshot of state.jsonl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ..trace.reader import Trace

_NUMBERS = (
    "pid",
    "maps",
    "max_map_count",
    "memory_total",
    "memory_available",
    "swap_free",
    "cgroup_current",
    "cgroup_max",
    "cgroup_peak",
    "cgroup_limit_met",
    "cgroup_oom_kills",
    "resident",
    "descriptors",
    "descriptors_max",
    "failed_ns",
    "held_ns",
    "as_of_ns",
)
COLUMNS = ("time_ns", "why", "what", *_NUMBERS[:6], "cgroup", *_NUMBERS[6:], "hold")


def states(trace: Trace) -> pd.DataFrame:
    """One row a snapshot; see docs/tables.md. What could not be read is <NA>.

    ``cgroup`` is the group whose limit is nearest: the process's own or one above it. Where none of them
    has a limit it is the process's own.
    """
    frame = pd.DataFrame([_row(snapshot) for snapshot in trace.side.get("state", ())], columns=list(COLUMNS))
    return frame.astype({"time_ns": "int64", **dict.fromkeys(_NUMBERS, "Int64")})


def _row(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    memory = snapshot.get("memory") or {}
    level = nearest_limit(snapshot.get("cgroups") or [])
    events = level.get("events") or {}
    frozen = snapshot.get("continued_by") == "tracer"
    return {
        "time_ns": snapshot["time_ns"],
        "why": snapshot.get("why"),
        "what": snapshot.get("what"),
        "pid": snapshot.get("pid"),
        "maps": snapshot.get("maps"),
        "max_map_count": snapshot.get("max_map_count"),
        "memory_total": memory.get("total"),
        "memory_available": memory.get("available"),
        "swap_free": memory.get("swap_free"),
        "cgroup": level.get("directory") or snapshot.get("cgroup"),
        "cgroup_current": level.get("current"),
        "cgroup_max": level.get("max"),
        "cgroup_peak": level.get("peak"),
        "cgroup_limit_met": events.get("max"),
        "cgroup_oom_kills": events.get("oom_kill"),
        "resident": (snapshot.get("rollup") or {}).get("Rss"),
        "descriptors": snapshot.get("descriptors"),
        "descriptors_max": (snapshot.get("limits") or {}).get("descriptors"),
        "failed_ns": snapshot.get("failed_ns"),
        "held_ns": snapshot.get("held_ns"),
        # A process that was stopped when its call failed, and still was when it had been read.
        "as_of_ns": snapshot["failed_ns"] if frozen else snapshot["time_ns"],
        "hold": snapshot.get("hold"),
    }


def nearest_limit(levels: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The level that leaves the least room; the first (the process's own) where none is limited."""
    limited = [level for level in levels if level.get("max") is not None]
    if not limited:
        return levels[0] if levels else {}
    return min(limited, key=lambda level: level["max"] - (level.get("peak") or level.get("current") or 0))
