# SPDX-License-Identifier: MIT
"""How the allocations grow that ran out: which pool of panvk's, how much a dispatch or a command buffer."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from ..model.pools import WLS
from .case import Case
from .verdict import Cause, Verdict
from .wording import counted, size

#: Only where more of the same would have ended the same way.
_CAUSES = frozenset({Cause.KERNEL_MEMORY, Cause.DRIVER_VA})
#: The one pool whose buffers have room for each workgroup. TLS has it for the stacks of the hungriest shader,
#: however many workgroups there are (docs/case-ubatch-64.md).
_BY_WORKGROUPS = WLS
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
        taken = _by_dispatch(case, pool)
        yield from _shares(taken["bytes"], "dispatch", "dispatches")
        if refused["pool"] == _BY_WORKGROUPS:
            yield from _growth(taken)
    elif pool["recording_id"].notna().any():
        taken = pool.groupby(pool["recording_id"].dropna().astype("int64"))["bytes"].sum()
        yield from _shares(taken, "command buffer", "command buffers")


def _by_dispatch(case: Case, pool: pd.DataFrame) -> pd.DataFrame:
    """``bytes`` and ``workgroups`` of each dispatch that took any."""
    taken = pool.groupby(pool["dispatch_id"].dropna().astype("int64"))["bytes"].sum()
    dispatches = case.tables.dispatches.set_index("dispatch_id")
    return pd.DataFrame({"bytes": taken, "workgroups": _workgroups(dispatches).reindex(taken.index)})


def _workgroups(dispatches: pd.DataFrame) -> pd.Series:
    """Workgroups of each dispatch; <NA> for an indirect one."""
    counts: pd.Series = dispatches[_AXES].astype("Float64").prod(axis=1, skipna=False)
    return counts


def _shares(taken: pd.Series, what: str, plural: str) -> Iterator[str]:
    least, most = int(taken.min()), int(taken.max())
    share = size(least) if least == most else f"{size(least)} to {size(most)}"
    yield f"{counted(len(taken), what, plural)} took from it, {share} each"


def _growth(taken: pd.DataFrame) -> Iterator[str]:
    """From the fewest workgroups to the most; nothing where there is nothing to compare."""
    known = taken[taken["workgroups"].notna()].sort_values(["workgroups", "bytes"])
    if len(known) < 2 or known["workgroups"].iloc[0] == known["workgroups"].iloc[-1]:
        return
    first, last = known.iloc[0], known.iloc[-1]
    points = (
        f"{size(int(first['bytes']))} at {int(first['workgroups'])} workgroups, "
        f"{size(int(last['bytes']))} at {int(last['workgroups'])}"
    )
    grows = int(last["bytes"]) > int(first["bytes"])
    yield f"with more workgroups it {'grew' if grows else 'did not grow'}: {points}"
