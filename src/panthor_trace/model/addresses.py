# SPDX-License-Identifier: MIT
"""The part of a GPU address space that panvk keeps for its own buffers, and what is in it at one moment.

From Mali v10 on panvk gives addresses out itself. Where a VM reaches beyond 4 GiB it has two ranges: one
from 32 MiB to 4 GiB for its own buffers (``as.priv_heap``), all above for the application's (``as.heap``);
else one range serves both (panvk_vX_device.c, PANVK_VA_RESERVE_BOTTOM; measured with 26.1.6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .pools import APPLICATION

#: PANVK_VA_RESERVE_BOTTOM, and where the driver's own range ends.
LOWEST, HIGHEST = 32 << 20, 1 << 32
#: Buffers of this size and more begin at a multiple of it (pan_choose_gpu_va_alignment, pan_kmod.h).
ALIGNMENT = 2 << 20


@dataclass(frozen=True)
class OwnAddresses:
    """panvk's own range of one VM at one moment, in bytes; ``pools`` is (buffers, bytes) by pool."""

    low: int
    high: int
    used: int
    largest_gap: int
    pools: Mapping[str, tuple[int, int]]

    def has_room(self, size: int) -> bool:
        """Whether a gap holds ``size`` bytes wherever they may begin in it."""
        return self.largest_gap >= size + (ALIGNMENT if size >= ALIGNMENT else 0)


def own_addresses(bos: pd.DataFrame, vm: pd.Series, at_ns: int) -> OwnAddresses | None:
    """What panvk has in its own range of ``vm`` (a row of ``vms``) at ``at_ns``.

    None where its way of giving out addresses is not known: where buffers of either kind lie in the other's
    range, where none of its own was seen, or no Vulkan call made any buffer (pools are told by those).
    """
    limit = vm["user_va_range"]
    bound = bos[bos["file"].eq(vm["file"]) & bos["vm_id"].eq(vm["vm_id"]).fillna(False) & bos["va"].notna()]
    if pd.isna(limit) or bound["function"].isna().all():
        return None
    high = min(int(limit), HIGHEST)
    ends = bound["va"].astype("uint64") + bound["size"].astype("uint64")
    applications = bound["pool"] == APPLICATION
    if int(limit) > HIGHEST:
        strayed = applications != (ends > HIGHEST)
        if strayed.any() or applications.all():
            return None
    there = bound["bound_ns"].le(at_ns) & bound["unbound_ns"].gt(at_ns).fillna(True)
    ours = bound[there.fillna(False).astype(bool) & (ends <= high)]
    sizes = ours["size"].astype("int64")
    by_pool = sizes.groupby(ours["pool"]).agg(["size", "sum"]).sort_values("sum", ascending=False)
    pools = {str(pool): (int(row["size"]), int(row["sum"])) for pool, row in by_pool.iterrows()}
    return OwnAddresses(LOWEST, high, int(sizes.sum()), _largest_gap(ours, high), pools)


def _largest_gap(ours: pd.DataFrame, high: int) -> int:
    """The largest part without a buffer between ``LOWEST`` and ``high``."""
    starts = np.sort(ours["va"].to_numpy(np.int64))
    ends = np.sort((ours["va"].astype("int64") + ours["size"].astype("int64")).to_numpy(np.int64))
    gaps = np.append(starts, high) - np.maximum.accumulate(np.insert(ends, 0, LOWEST))
    return max(int(gaps.max()), 0)
