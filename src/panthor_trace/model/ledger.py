# SPDX-License-Identifier: MIT
"""How much memory and address space each process had at every moment, from what was made and ended."""

from __future__ import annotations

import pandas as pd

from .lookup import look_up

_COLUMNS = ["live_bos", "live_bo_bytes", "bound_bytes", "va_bytes", "heap_bytes"]


def memory(
    bos: pd.DataFrame,
    binds: pd.DataFrame,
    ranges: pd.DataFrame,
    heaps: pd.DataFrame,
    heap_growth: pd.DataFrame,
    processes: pd.DataFrame,
) -> pd.DataFrame:
    """One row a moment at which something changed; see docs/tables.md. All in bytes.

    The end of a process ends what it had left open.
    """
    exits = processes.set_index("pid")["exit_ns"]
    made = bos[bos["handle"].notna()]
    heap = heaps[heaps["handle"].notna()]
    initial = heap["chunk_size"].astype("Int64") * heap["initial_chunk_count"].astype("Int64")
    grown = heap_growth[heap_growth["heap_id"].notna() & heap_growth["added"].ne(0)]
    grown_pid, grown_end = (
        look_up(grown["heap_id"], heaps.set_index("heap_id")[name]) for name in ("pid", "destroyed_ns")
    )
    added = grown["chunk_size"] * grown["added"]
    whose = look_up(ranges["bind_id"], binds.set_index("bind_id")["bo_id"])
    changes = [
        _steps(made["pid"], made["created_ns"], made["closed_ns"], exits, live_bos=1),
        _steps(made["pid"], made["created_ns"], made["closed_ns"], exits, live_bo_bytes=made["size"]),
        _steps(ranges["pid"], ranges["start_ns"], ranges["end_ns"], exits, va_bytes=ranges["size"]),
        _steps(heap["pid"], heap["created_ns"], heap["destroyed_ns"], exits, heap_bytes=initial),
        _steps(grown_pid, grown["time_ns"], grown_end, exits, heap_bytes=added),
        _bound(ranges, whose, bos, exits),
    ]
    frame = pd.concat(changes, ignore_index=True).reindex(columns=["pid", "time_ns", *_COLUMNS])
    frame = frame.astype({"pid": "int64", "time_ns": "int64"})
    frame = frame.fillna(dict.fromkeys(_COLUMNS, 0)).astype(dict.fromkeys(_COLUMNS, "int64"))
    frame = frame.groupby(["pid", "time_ns"], as_index=False).sum().sort_values(["pid", "time_ns"])
    frame[_COLUMNS] = frame.groupby("pid")[_COLUMNS].cumsum()
    return frame.sort_values(["time_ns", "pid"], kind="stable").reset_index(drop=True)


def _steps(
    pid: pd.Series, start: pd.Series, end: pd.Series, exits: pd.Series, **amount: pd.Series | int
) -> pd.DataFrame:
    """A step up where something starts, one down where it ends."""
    ((name, value),) = amount.items()
    end = end.astype("Int64").fillna(pid.map(exits).astype("Int64"))
    size = pd.Series(value, index=pid.index, dtype="Int64")
    up = pd.DataFrame({"pid": pid, "time_ns": start, name: size})
    down = pd.DataFrame({"pid": pid, "time_ns": end, name: -size})[end.notna()]
    return pd.concat([up, down], ignore_index=True)


def _bound(ranges: pd.DataFrame, whose: pd.Series, bos: pd.DataFrame, exits: pd.Series) -> pd.DataFrame:
    """A buffer counts once from its first live range to its last, however many there are in between."""
    owned = whose.notna()
    steps = _steps(ranges["pid"][owned], ranges["start_ns"][owned], ranges["end_ns"][owned], exits, count=1)
    bo_id = whose[owned].astype("int64").to_numpy()
    ends = ranges["end_ns"][owned].astype("Int64").fillna(ranges["pid"][owned].map(exits).astype("Int64"))
    steps["bo_id"] = [*bo_id, *bo_id[ends.notna().to_numpy(bool)]]
    steps = steps.astype({"count": "int64"})
    steps = steps.groupby(["bo_id", "pid", "time_ns"]).agg({"count": "sum"}).reset_index()
    live = steps.groupby("bo_id")["count"].cumsum() > 0
    was = live.groupby(steps["bo_id"]).shift(1, fill_value=False)
    sizes = look_up(steps["bo_id"], bos.set_index("bo_id")["size"]).astype("int64")
    change = (live.astype("int64") - was.astype("int64")) * sizes
    return steps[["pid", "time_ns"]].assign(bound_bytes=change)
