# SPDX-License-Identifier: MIT
"""Every limit with its use at one moment: counted from the trace, or read from the nearest snapshot."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from ..limits import BOUNDS, LIMITS, Bound
from ..model.uses import live, mapped_bytes
from .case import Case
from .verdict import CapUse

_BOUNDS = {bound.name: bound for bound in BOUNDS}
#: A snapshot older than this is not "at that moment" any more, and says so.
_FRESH_NS = 100_000_000


def caps_at(case: Case, at_ns: int, pid: int | None) -> tuple[CapUse, ...]:
    """All limits at ``at_ns``; those of a process are ``pid``'s, or of whichever was nearest to them."""
    return tuple(_driver(case, at_ns, pid)) + tuple(_machine(case, at_ns, pid))


def _driver(case: Case, at_ns: int, pid: int | None) -> Iterator[CapUse]:
    ours = case.tables.objects
    if pid is not None and (ours["pid"] == pid).any():
        ours = ours[ours["pid"] == pid]
    there = live(ours, at_ns)
    for limit in LIMITS:
        kind = there[there["kind"] == limit.name]
        keys = ["pid", "fd", "vm_id"] if limit.per == "VM" else ["pid", "fd"]
        sizes = kind.groupby(keys).size().sort_values()
        scope, used = (_scope(keys, sizes.index[-1]), int(sizes.iloc[-1])) if len(sizes) else ("", 0)
        known = case.used_panthor or not case.blind_to
        yield CapUse(limit.name, limit.counts, scope, "", used if known else None, limit.value)
    yield from _chunks(case, at_ns, pid)
    yield from _addresses(case, there, at_ns)


def _scope(keys: list[str], values: tuple[object, ...]) -> str:
    named = dict(zip(keys, values, strict=True))
    vm = f"VM {named['vm_id']}, " if "vm_id" in named else ""
    return f"{vm}file {named['fd']} of process {named['pid']}"


def _chunks(case: Case, at_ns: int, pid: int | None) -> Iterator[CapUse]:
    """The heap with the fewest chunks left. No ioctl shows growth: without the driver layer it is unknown."""
    bound = _BOUNDS["heap-chunks"]
    heaps = case.tables.heaps
    there = heaps["ret"].eq(0).fillna(False).astype(bool) & (heaps["created_ns"] <= at_ns)
    there &= heaps["destroyed_ns"].gt(at_ns).fillna(True).astype(bool)
    if pid is not None and (heaps["pid"] == pid).any():
        there &= heaps["pid"] == pid
    if not there.any():
        return
    known = bool(case.meta.get("layers", {}).get("driver", {}).get("live"))
    found = [
        (int(heap["max_chunks"]), _chunks_of(case, heap, at_ns) if known else None, heap)
        for _, heap in heaps[there].iterrows()
    ]
    limit, used, heap = min(found, key=lambda one: one[0] - (one[1] or 0))
    scope = f"heap {int(heap['handle']):#x} of process {heap['pid']}"
    note = "" if known else "growth not recorded"
    yield CapUse(bound.name, bound.counts, scope, bound.unit, used, limit, note=note)


def _chunks_of(case: Case, heap: pd.Series, at_ns: int) -> int:
    growth = case.tables.heap_growth
    own = growth["heap_id"].eq(heap["heap_id"]) & growth["time_ns"].le(at_ns) & growth["chunks"].notna()
    rows = growth[own.fillna(False).astype(bool)]
    if rows.empty:
        return int(heap["initial_chunk_count"])
    return int(rows["chunks"].iloc[-1]) + (0 if rows["errno"].iloc[-1] else 1)


def _addresses(case: Case, there: pd.DataFrame, at_ns: int) -> Iterator[CapUse]:
    bound = _BOUNDS["va"]
    used = mapped_bytes(case.tables.binds, at_ns)
    for _, vm in there[there["kind"] == "vms"].tail(4).iterrows():
        key = (int(vm["pid"]), int(vm["fd"]), int(vm["vm_id"]))
        scope = _scope(["pid", "fd", "vm_id"], key)
        limit = None if pd.isna(vm["limit"]) else int(vm["limit"])
        yield CapUse(bound.name, bound.counts, scope, bound.unit, used.get(key, 0), limit)


def nearest(states: pd.DataFrame, at_ns: int, column: str, pid: int | None = None) -> pd.Series | None:
    """The snapshot nearest to ``at_ns`` that knows ``column``, of ``pid`` where one is given."""
    known = states[states[column].notna()]
    if pid is not None:
        known = known[known["pid"].eq(pid).fillna(False).astype(bool)]
    if known.empty:
        return None
    return known.iloc[int((known["time_ns"] - at_ns).abs().argmin())]


def _machine(case: Case, at_ns: int, pid: int | None) -> Iterator[CapUse]:
    states = case.tables.states
    yield _bound(_BOUNDS["mappings"], nearest(states, at_ns, "maps", pid), at_ns, "maps", "max_map_count")
    yield _group(states, at_ns, pid)
    machine = nearest(states, at_ns, "memory_available")
    bound = _BOUNDS["memory"]
    if machine is None or pd.isna(machine["memory_total"]):
        yield CapUse(bound.name, bound.counts, "", bound.unit, None, None, note="not recorded")
        return
    total = int(machine["memory_total"])
    used = total - int(machine["memory_available"])
    yield CapUse(bound.name, bound.counts, "", bound.unit, used, total, note=_age(machine, at_ns))


def _group(states: pd.DataFrame, at_ns: int, pid: int | None) -> CapUse:
    bound = _BOUNDS["memory-cgroup"]
    row = nearest(states, at_ns, "cgroup", pid)
    if row is not None and pd.isna(row["cgroup_current"]):
        # v2's root group has no memory.current, nor a limit.
        note = "the root group: no limit" if pd.isna(row["cgroup_max"]) else "its files could not be read"
        return CapUse(bound.name, bound.counts, str(row["cgroup"]), bound.unit, None, None, note=note)
    return _bound(bound, row, at_ns, "cgroup_current", "cgroup_max")


def _bound(bound: Bound, row: pd.Series | None, at_ns: int, used: str, limit: str) -> CapUse:
    if row is None:
        note = "not recorded, or the process had ended"
        return CapUse(bound.name, bound.counts, "", bound.unit, None, None, note=note)
    of_group = bound.name == "memory-cgroup"
    value = None if pd.isna(row[limit]) else int(row[limit])
    peak = int(row["cgroup_peak"]) if of_group and not pd.isna(row["cgroup_peak"]) else None
    scope = str(row["cgroup"]) if of_group else f"process {row['pid']}"
    note = "; ".join(filter(None, ["no limit" if value is None else "", _age(row, at_ns)]))
    return CapUse(bound.name, bound.counts, scope, bound.unit, int(row[used]), value, peak, note)


def _age(row: pd.Series, at_ns: int) -> str:
    """When the snapshot was taken, where that is not nearly the same moment."""
    late = int(row["time_ns"]) - at_ns
    if abs(late) < _FRESH_NS:
        return ""
    return f"{abs(late) / 1e9:.1f} s {'later' if late > 0 else 'before'}"
