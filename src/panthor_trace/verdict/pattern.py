# SPDX-License-Identifier: MIT
"""How the allocations grow that ran out: which pool of panvk's, how much a dispatch or a command buffer."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from .case import Case
from .verdict import Cause, Verdict
from .wording import counted, size

#: Only where more of the same would have ended the same way.
_CAUSES = frozenset({Cause.KERNEL_MEMORY, Cause.DRIVER_VA})
_AXES = ["groups_x", "groups_y", "groups_z"]


def allocation_pattern(case: Case, verdict: Verdict) -> Iterator[str]:
    """Sentences on the pool of the verdict's buffer; none where it was made outside every Vulkan call."""
    if verdict.cause not in _CAUSES or verdict.buffer is None or verdict.buffer.pool is None:
        return
    bos = case.tables.bos
    refused = bos[bos["bo_id"] == verdict.buffer.bo_id].iloc[-1]
    if pd.isna(refused["vulkan_id"]):
        return
    before = bos[(bos["pid"] == refused["pid"]) & (bos["created_ns"] <= refused["created_ns"])]
    bytes_ = before["size"].fillna(before["requested"]).astype("int64")
    own = before["pool"] == refused["pool"]
    yield (
        f"panvk's pool {refused['pool']} (inferred: {refused['pool_ground']}): "
        f"{counted(int(own.sum()), 'buffer')}, {size(int(bytes_[own].sum()))} of the "
        f"{size(int(bytes_.sum()))} asked for until then"
    )
    pool = before[own].assign(bytes=bytes_[own])
    if pool["dispatch_id"].notna().any():
        yield from _growth(_by_dispatch(case, pool), "dispatch")
    elif pool["recording_id"].notna().any():
        yield from _growth(_by_recording(case, pool), "command buffer")


def _by_dispatch(case: Case, pool: pd.DataFrame) -> pd.DataFrame:
    """``bytes`` and ``workgroups`` of each dispatch that took any."""
    taken = pool.groupby(pool["dispatch_id"].dropna().astype("int64"))["bytes"].sum()
    dispatches = case.tables.dispatches.set_index("dispatch_id")
    return pd.DataFrame({"bytes": taken, "workgroups": _workgroups(dispatches).reindex(taken.index)})


def _by_recording(case: Case, pool: pd.DataFrame) -> pd.DataFrame:
    """``bytes`` of each recording that took any, and the ``workgroups`` of the largest dispatch in it."""
    taken = pool.groupby(pool["recording_id"].dropna().astype("int64"))["bytes"].sum()
    dispatches = case.tables.dispatches
    most = _workgroups(dispatches).groupby(dispatches["recording_id"]).max()
    return pd.DataFrame({"bytes": taken, "workgroups": most.reindex(taken.index)})


def _workgroups(dispatches: pd.DataFrame) -> pd.Series:
    """Workgroups of each dispatch; <NA> for an indirect one."""
    counts: pd.Series = dispatches[_AXES].astype("Float64").prod(axis=1, skipna=False)
    return counts


def _growth(taken: pd.DataFrame, what: str) -> Iterator[str]:
    if taken.empty:
        return
    least, most = int(taken["bytes"].min()), int(taken["bytes"].max())
    share = size(least) if least == most else f"{size(least)} to {size(most)}"
    plural = "dispatches" if what == "dispatch" else f"{what}s"
    yield f"{counted(len(taken), what, plural)} took from it, {share} each"
    known = taken[taken["workgroups"].notna()].sort_values(["workgroups", "bytes"])
    if len(known) < 2 or known["workgroups"].iloc[0] == known["workgroups"].iloc[-1]:
        return
    first, last = known.iloc[0], known.iloc[-1]
    of = "workgroups" if what == "dispatch" else "workgroups in its largest dispatch"
    points = (
        f"{size(int(first['bytes']))} at {int(first['workgroups'])} {of}, "
        f"{size(int(last['bytes']))} at {int(last['workgroups'])}"
    )
    grows = int(last["bytes"]) > int(first["bytes"])
    yield f"with more workgroups it {'grew' if grows else 'did not grow'}: {points}"
