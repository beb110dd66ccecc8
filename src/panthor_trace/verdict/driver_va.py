# SPDX-License-Identifier: MIT
"""The verdict where panvk found no GPU address for a buffer: which buffer, and what fills its addresses."""

from __future__ import annotations

import pandas as pd

from ..model.addresses import OwnAddresses, own_addresses
from ..model.pools import APPLICATION, UNKNOWN
from . import wording
from .case import Case
from .facts import buffer_of
from .verdict import Cause, Confidence, FailingCall, KernelCap, Verdict

#: Pools named in the evidence; the smaller ones are summed up.
_NAMED = 4


def driver_va(case: Case, failing: FailingCall, buffer: pd.Series, ruled_out: tuple[str, ...]) -> Verdict:
    """``buffer`` (a row of ``bos``) was made and closed inside the failing call, with no bind in between."""
    size, pool = int(buffer["size"]), str(buffer["pool"])
    known = pool not in (APPLICATION, UNKNOWN)
    named = f"{pool}: {buffer['pool_ground']}" if pool != UNKNOWN else "its pool is not known"
    evidence = [
        wording.call(failing),
        f"a buffer of {wording.size(size)} ({named}) was made and closed there without being bound",
    ]
    confidence = Confidence.MEDIUM
    missing: tuple[str, ...] = ()
    where = "its own GPU address space had no room"
    own = addresses_of(case, buffer)
    if own is not None and known:
        evidence.append(_filled(own))
        if own.has_room(size):
            confidence = Confidence.LOW
            missing = (
                f"why panvk found no address: a gap of {wording.size(own.largest_gap)} was there for "
                f"{wording.size(size)}",
            )
        else:
            confidence = Confidence.HIGH
            where = (
                f"its own GPU addresses below {wording.size(own.high)} had no room for {wording.size(size)}"
            )
            evidence.append(
                f"the largest gap there, {wording.size(own.largest_gap)}, does not hold the buffer"
            )
    return Verdict(
        cause=Cause.DRIVER_VA,
        kernel_cap=KernelCap.NO,
        refused_by="panvk",
        headline=f"panvk refused, {where}: {wording.call(failing)}",
        confidence=confidence,
        failing_call=failing,
        buffer=buffer_of(buffer),
        evidence=tuple(evidence),
        ruled_out=ruled_out,
        missing=missing,
        losses=case.losses,
    )


def addresses_of(case: Case, buffer: pd.Series) -> OwnAddresses | None:
    """panvk's own addresses in the VM the buffer was for, when it was made."""
    table = case.tables.vms
    made = table["created_ns"].le(buffer["created_ns"]) & table["file"].eq(buffer["file"])
    vms = table[made & table["vm_id"].notna()]
    exclusive = buffer["exclusive_vm_id"]
    if not pd.isna(exclusive) and int(exclusive):
        vms = vms[vms["vm_id"].eq(exclusive)]
    if vms.empty:
        return None
    return own_addresses(case.tables.bos, vms.iloc[-1], int(buffer["created_ns"]))


def _filled(own: OwnAddresses) -> str:
    """What is in panvk's own addresses."""
    pools = list(own.pools.items())
    parts = [f"{name} {wording.size(size)} in {count}" for name, (count, size) in pools[:_NAMED]]
    rest = [both for _, both in pools[_NAMED:]]
    if rest:
        parts.append(f"others {wording.size(sum(size for _, size in rest))} in {sum(n for n, _ in rest)}")
    buffers = wording.counted(sum(count for count, _ in own.pools.values()), "buffer")
    return (
        f"panvk's own addresses, {wording.size(own.low)} to {wording.size(own.high)}: "
        f"{wording.size(own.used)} used by {buffers} ({', '.join(parts)})"
    )
