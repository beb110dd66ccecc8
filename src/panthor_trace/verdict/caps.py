# SPDX-License-Identifier: MIT
"""Every limit with its use at one moment: counted from the trace, or as the nearest snapshot has it."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from ..limits import BOUNDS, LIMITS, Bound
from ..model.addresses import own_addresses
from ..model.lifetimes import living
from . import wording
from .case import Case
from .verdict import CapUse

_BOUNDS = {bound.name: bound for bound in BOUNDS}
#: A snapshot older than this is not "at that moment" any more, and says so.
_FRESH_NS = 100_000_000


def caps_at(case: Case, at_ns: int, pid: int | None) -> tuple[CapUse, ...]:
    """All limits at ``at_ns``; those of a process are ``pid``'s, or of whichever was nearest to them."""
    return tuple(_driver(case, at_ns, pid)) + tuple(_machine(case, at_ns, pid))


def _driver(case: Case, at_ns: int, pid: int | None) -> Iterator[CapUse]:
    if not case.used_panthor and not case.meta.get("nodes"):
        return
    for limit in LIMITS:
        there = _there(case, limit.name, at_ns, pid)
        keys = ["file", "vm_id"] if limit.per == "VM" else "file"
        fullest = max((rows for _, rows in there.groupby(keys)), key=len, default=there)
        scope = _scope(fullest.iloc[-1], limit.per == "VM") if len(fullest) else ""
        known = case.attached is None and (case.used_panthor or not case.blind_to)
        note = "" if case.attached is None else "those made before the recording are not known"
        used = len(fullest) if known else None
        yield CapUse(limit.name, limit.counts, scope, "", used, limit.value, note=note)
    yield from _chunks(case, at_ns, pid)
    yield from _addresses(case, at_ns, pid)


def _there(case: Case, table: str, at_ns: int, pid: int | None) -> pd.DataFrame:
    """The VMs, heaps or groups there were in the files ``pid`` had made one in; in all files if it had not.

    A file may be shared: its limits count everybody's objects.
    """
    objects: pd.DataFrame = getattr(case.tables, table)
    files = objects.loc[objects["pid"] == pid, "file"] if pid is not None else objects["file"].iloc[:0]
    return living(objects[objects["file"].isin(files)] if len(files) else objects, at_ns)


def _scope(row: pd.Series, vm: bool) -> str:
    named = f"VM {row['vm_id']}, " if vm else ""
    return f"{named}file {row['fd']} of process {row['pid']}"


def _chunks(case: Case, at_ns: int, pid: int | None) -> Iterator[CapUse]:
    """The heap with the fewest chunks left. No ioctl shows growth: without the driver layer it is unknown."""
    bound = _BOUNDS["heap-chunks"]
    heaps = _there(case, "heaps", at_ns, pid)
    if heaps.empty:
        return
    known = bool(case.meta.get("layers", {}).get("driver", {}).get("live"))
    found = [
        (int(heap["max_chunks"]), _chunks_of(case, heap, at_ns) if known else None, heap)
        for _, heap in heaps.iterrows()
    ]
    limit, used, heap = min(found, key=lambda one: one[0] - (one[1] or 0))
    scope = f"heap {int(heap['handle']):#x} of process {heap['pid']}"
    note = "" if known else "growth not recorded"
    yield CapUse(bound.name, bound.counts, scope, bound.unit, used, limit, note=note)


def _chunks_of(case: Case, heap: pd.Series, at_ns: int) -> int:
    growth = case.tables.heap_growth
    own = growth["heap_id"].eq(heap["heap_id"]) & growth["time_ns"].le(at_ns)
    return int(heap["initial_chunk_count"]) + int(growth.loc[own.fillna(False).astype(bool), "added"].sum())


def _addresses(case: Case, at_ns: int, pid: int | None) -> Iterator[CapUse]:
    bound = _BOUNDS["va"]
    ranges = case.tables.ranges
    mapped = ranges["start_ns"].le(at_ns) & ranges["end_ns"].gt(at_ns).fillna(True).astype(bool)
    used = ranges[mapped].groupby(["file", "vm_id"])["size"].sum()
    for _, vm in _there(case, "vms", at_ns, pid).tail(4).iterrows():
        limit = None if pd.isna(vm["user_va_range"]) else int(vm["user_va_range"])
        value = int(used.get((vm["file"], vm["vm_id"]), 0))
        yield CapUse(bound.name, bound.counts, _scope(vm, True), bound.unit, value, limit)
        yield from _own_addresses(case, vm, _scope(vm, True), at_ns)


def _own_addresses(case: Case, vm: pd.Series, scope: str, at_ns: int) -> Iterator[CapUse]:
    """The range of a VM (a row of ``vms``) that panvk gives its own buffers addresses from."""
    bound = _BOUNDS["panvk-va"]
    own = own_addresses(case.tables.bos, vm, at_ns)
    if own is not None:
        note = f"largest gap {wording.size(own.largest_gap)}"
        yield CapUse(bound.name, bound.counts, scope, bound.unit, own.used, own.high - own.low, note=note)


def nearest(states: pd.DataFrame, at_ns: int, column: str, pid: int | None = None) -> pd.Series | None:
    """The snapshot as of nearest to ``at_ns`` that knows ``column``, of ``pid`` where one is given."""
    known = states[states[column].notna()]
    if pid is not None:
        known = known[known["pid"].eq(pid).fillna(False).astype(bool)]
    if known.empty:
        return None
    return known.iloc[int((known["as_of_ns"] - at_ns).abs().argmin())]


def _machine(case: Case, at_ns: int, pid: int | None) -> Iterator[CapUse]:
    states = case.tables.states
    maps = nearest(_mapping_counts(case), at_ns, "maps", pid)
    yield _bound(_BOUNDS["mappings"], maps, at_ns, "maps", "max_map_count")
    yield _group(states, at_ns, pid)
    machine = nearest(states, at_ns, "memory_available")
    bound = _BOUNDS["memory"]
    if machine is None or pd.isna(machine["memory_total"]):
        yield CapUse(bound.name, bound.counts, "", bound.unit, None, None, note="not recorded")
        return
    total = int(machine["memory_total"])
    used = total - int(machine["memory_available"])
    yield CapUse(bound.name, bound.counts, "", bound.unit, used, total, note=_age(machine, at_ns))


def _mapping_counts(case: Case) -> pd.DataFrame:
    """How many mappings a process had: from snapshots, and as each mmap or munmap of a node left them."""
    columns = ["as_of_ns", "pid", "maps", "max_map_count"]
    most = case.meta.get("machine", {}).get("max_map_count")
    mapped = case.tables.mappings.rename(columns={"exit_ns": "as_of_ns"})
    parts = [part.reindex(columns=columns).astype("Int64") for part in (case.tables.states, mapped)]
    frame = pd.concat(parts).sort_values("as_of_ns", kind="stable", ignore_index=True)
    # A sysctl of the machine: what one snapshot knows holds until the next.
    limit = frame["max_map_count"].ffill().bfill()
    frame["max_map_count"] = limit if most is None else limit.fillna(int(most))
    return frame


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
    late = int(row["as_of_ns"]) - at_ns
    if abs(late) < _FRESH_NS:
        return ""
    return f"{abs(late) / 1e9:.1f} s {'later' if late > 0 else 'before'}"
