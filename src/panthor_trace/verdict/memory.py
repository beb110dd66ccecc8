# SPDX-License-Identifier: MIT
"""Which memory ran out: a memory cgroup's, the whole machine's, or it is not known."""

from __future__ import annotations

import pandas as pd

from . import wording
from .caps import nearest
from .case import Case
from .verdict import Memory

#: A peak this near to the limit means that the limit was met: charges are made in batches of 64 pages
#: (MEMCG_CHARGE_BATCH, mm/memcontrol.c), so a failing charge may leave that much room.
_NEAR = 0.99
#: Less than this share of the machine's memory available: the machine is out of memory.
_SCARCE = 0.03


def memory_of(case: Case, at_ns: int, pid: int | None, size: int | None) -> Memory:
    """Judge by the snapshots around ``at_ns``; ``size`` is what was asked for, in bytes, where known."""
    states = case.tables.states
    by_cgroup = _cgroup(case, states, at_ns, pid, size)
    if by_cgroup is not None:
        return by_cgroup
    if case.oom_killed and all(case.oom_in_cgroup(victim) for victim in case.oom_killed):
        limit = case.oom_limit
        of = "whose limit is not known" if limit is None else f"of which the limit was {wording.size(limit)}"
        ground = f"the out-of-memory killer acted for a memory cgroup {of}; its directory no snapshot tells"
        return Memory("cgroup", ground, limit=limit, killed=case.oom_killed)
    by_machine = _machine(case, states, at_ns, size)
    if by_machine is not None:
        return by_machine
    row = nearest(states, at_ns, "memory_available")
    if row is None:
        return Memory("unknown", "the trace has no snapshot of memory", killed=case.oom_killed)
    ground = f"{wording.size(int(row['memory_available']))} were available in the machine"
    if any(case.oom_in_cgroup(victim) is None for victim in case.oom_killed):
        ground = f"for which memory the out-of-memory killer acted was not seen; {ground}"
    if pd.isna(row["cgroup"]):
        ground += ", the process's memory cgroup could not be read"
    elif states["cgroup_max"].isna().all():
        ground += ", no memory cgroup of the process had a limit"
    else:
        limited = nearest(states, at_ns, "cgroup_max")
        ground += f", and {row['cgroup'] if limited is None else limited['cgroup']} had not met its limit"
    return Memory("unknown", ground, killed=case.oom_killed)


def _killed_for_the_machine(case: Case) -> bool:
    """Whether the out-of-memory killer acted for no memory cgroup: as seen, or none had a limit."""
    states = case.tables.states
    for victim in case.oom_killed:
        own = states[states["pid"].eq(victim).fillna(False).astype(bool)]
        unlimited = len(own) and own["cgroup"].notna().any() and own["cgroup_max"].isna().all()
        seen = case.oom_in_cgroup(victim)
        if seen is False or (seen is None and unlimited):
            return True
    return False


def _cgroup(case: Case, states: pd.DataFrame, at_ns: int, pid: int | None, size: int | None) -> Memory | None:
    row = nearest(states, at_ns, "cgroup_max", pid)
    if row is None:
        return None
    same = states[states["cgroup"] == row["cgroup"]]
    limit = int(row["cgroup_max"])
    peak = same["cgroup_peak"].max()
    peak = int(same["cgroup_current"].max()) if pd.isna(peak) else int(peak)
    met = _rise(same, "cgroup_limit_met")
    kills = _rise(same, "cgroup_oom_kills")
    too_large = size is not None and size > limit
    if not (met or kills or too_large or peak >= limit * _NEAR):
        return None
    reasons = [f"limit {wording.size(limit)}, peak {wording.size(peak)}"]
    if met:
        reasons.append(f"the limit was met {wording.counted(met, 'time')}")
    if kills:
        reasons.append(f"its out-of-memory killer ended {wording.counted(kills, 'process', 'processes')}")
    if too_large:
        reasons.append(f"the request alone, {wording.size(size or 0)}, is larger")
    directory = str(row["cgroup"])
    ground = f"memory cgroup {directory}: {'; '.join(reasons)}"
    return Memory("cgroup", ground, directory, limit, peak, case.oom_killed)


def _rise(rows: pd.DataFrame, column: str) -> int:
    """By how much a counter went up; its whole value where its beginning was not seen."""
    values = rows[column].dropna()
    if values.empty:
        return 0
    rise = int(values.iloc[-1] - values.iloc[0])
    return rise if len(values) > 1 else int(values.iloc[-1])


def _machine(case: Case, states: pd.DataFrame, at_ns: int, size: int | None) -> Memory | None:
    known = states[states["memory_available"].notna() & states["memory_total"].notna()]
    row = nearest(known, at_ns, "memory_available")
    if row is None:
        if not _killed_for_the_machine(case):
            return None
        return Memory("machine", "the machine's out-of-memory killer was at work", killed=case.oom_killed)
    before = known[known["time_ns"] <= at_ns]
    total = int(row["memory_total"])
    available = int(row["memory_available"])
    swap = 0 if pd.isna(row["swap_free"]) else int(row["swap_free"])
    # What the failed request had taken was given back before the snapshot: 6.12's BO_CREATE does.
    earlier = int(before["memory_available"].iloc[-1]) if len(before) else available
    room = max(available, earlier) + swap
    if size is not None and size > room:
        ground = (
            f"{wording.size(size)} asked for, {wording.size(room)} of {wording.size(total)} were available"
        )
    elif available < total * _SCARCE:
        ground = f"{wording.size(available)} of {wording.size(total)} were available"
    elif _killed_for_the_machine(case):
        ground = "the machine's out-of-memory killer was at work"
    else:
        return None
    return Memory("machine", f"memory of the whole machine: {ground}", killed=case.oom_killed)
