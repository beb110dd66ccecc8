# SPDX-License-Identifier: MIT
"""Which fixed limit of the driver a refusal ran into, from the request itself.

EBUSY names its limit by itself; EINVAL does so only together with what was asked for. Sources: the checks in
panthor_vm_create_check_args, panthor_vm_bind_prepare_op_ctx (panthor_mmu.c) and panthor_heap_create
(panthor_heap.c), Linux 6.12.117 and 7.3.4.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from ..limits import HEAP_CHUNK_BYTES, MIN_KERNEL_VA_BYTES, limit_reached, mmap_offset_bytes
from .case import Case
from .verdict import LimitHit


def limit_hit(case: Case, row: pd.Series) -> LimitHit | None:
    """The cap that the refused request ``row`` (of ``ioctls``) ran into, if it is one."""
    known = limit_reached(str(row["name"]), str(row["errno"]))
    if known:
        return LimitHit(known.name, known.value, f"{known.counts} per {known.per}")
    rule = _RULES.get((str(row["name"]), str(row["errno"])))
    return rule(case, row) if rule else None


def undecided(case: Case, row: pd.Series) -> tuple[str, ...]:
    """Why it cannot be told that ``row``, a refused request that met no cap as far as known, met none.

    Of VM_BIND, EINVAL names the end of the VM's addresses only together with the operation and the VM;
    ENOSPC names nothing without the function it came from.
    """
    if row["errno"] == "ENOSPC" and not isinstance(row.get("origin_chain"), str):
        return ("what had no room is not known: the function that answered ENOSPC was not seen",)
    if (row["name"], row["errno"]) != ("VM_BIND", "EINVAL"):
        return ()
    ops = case.tables.binds[case.tables.binds["ioctl_id"] == row["ioctl_id"]]
    decisive = ops[ops["refused"]]
    if decisive.empty:
        if ops.empty or len(ops) < int(ops["operations"].iloc[0]):
            return ("the operation of the VM_BIND that was refused was not recorded: was it within the VM?",)
        decisive = ops
    unseen = case.unseen_requests
    vms = case.tables.vms
    known = vms[vms["file"].eq(row["file"]) & vms["user_va_range"].notna()]
    if unseen and not decisive["vm_id"].isin(known["vm_id"]).all():
        return ("how many addresses the VM has for user space is not known: it was not seen made", *unseen)
    return ()


def _vm_range(case: Case, row: pd.Series) -> LimitHit | None:
    vm = case.tables.vms[case.tables.vms["ioctl_id"] == row["ioctl_id"]]
    if vm.empty or int(vm["flags"].iloc[0]) or not int(vm["requested"].iloc[0]):
        return None
    return LimitHit("min_kernel_va", MIN_KERNEL_VA_BYTES, "bytes of address space a VM leaves the kernel")


def _user_range(case: Case, row: pd.Series) -> LimitHit | None:
    ops = case.tables.binds[case.tables.binds["ioctl_id"] == row["ioctl_id"]]
    if ops["refused"].any():
        ops = ops[ops["refused"]]
    table = case.tables.vms
    for _, op in ops.iterrows():
        vm = table[table["file"].eq(op["file"]) & table["vm_id"].eq(op["vm_id"]).fillna(False)]
        vm = vm[vm["created_ns"] <= row["enter_ns"]]
        if len(vm):
            limit = int(vm["user_va_range"].iloc[-1])
            if int(op["va"]) + int(op["size"]) > limit:
                return LimitHit("user_va_range", limit, "bytes of address space the VM has for user space")
    return None


def _chunk_size(case: Case, row: pd.Series) -> LimitHit | None:
    heap = case.tables.heaps[case.tables.heaps["ioctl_id"] == row["ioctl_id"]]
    if heap.empty:
        return None
    low, high = HEAP_CHUNK_BYTES
    size = int(heap["chunk_size"].iloc[0])
    if low <= size <= high:
        return None
    return LimitHit("heap_chunk_size", high if size > high else low, "bytes of a heap's chunk")


#: Functions that answer ENOSPC for want of addresses: of the kernel's part of a VM, of mmap offsets.
_VM_ADDRESSES, _OFFSETS = "panthor_vm_alloc_va", "drm_gem_create_mmap_offset"


def _no_addresses(case: Case, row: pd.Series) -> LimitHit | None:
    """Where the driver layer does not say what had no room, what was asked for does."""
    chain = row.get("origin_chain")
    if isinstance(chain, str) and _OFFSETS in chain:
        return _mmap_offsets(case)
    if isinstance(chain, str) and _VM_ADDRESSES in chain:
        return _kernel_range(case)
    if isinstance(chain, str) and not _may_be_short(case):
        return None
    if row["name"] in ("TILER_HEAP_CREATE", "GROUP_CREATE"):
        return _kernel_range(case)
    bos = case.tables.bos
    asked = bos.loc[bos["ioctl_id"] == row["ioctl_id"], "requested"]
    hit = _mmap_offsets(case)
    return hit if len(asked) and int(asked.iloc[0]) > int(hit.value or 0) else None


def _may_be_short(case: Case) -> bool:
    """Whether the function a refusal came from may be missing in its chain."""
    missing = case.meta.get("layers", {}).get("driver", {}).get("missing", ())
    return bool(case.blind("driver")) or _VM_ADDRESSES in missing or _OFFSETS in missing


def _mmap_offsets(case: Case) -> LimitHit:
    page = int(case.meta.get("machine", {}).get("page_size", 4096))
    return LimitHit(
        "mmap_offsets", mmap_offset_bytes(page), "bytes of mmap offsets all of a device's BOs have"
    )


def _kernel_range(case: Case) -> LimitHit:
    sizes = case.tables.vms["kernel_va_size"].dropna()
    return LimitHit(
        "kernel_va_range", int(sizes.iloc[-1]) if len(sizes) else None, "bytes of address space of the kernel"
    )


_RULES: dict[tuple[str, str], Callable[[Case, pd.Series], LimitHit | None]] = {
    ("VM_CREATE", "EINVAL"): _vm_range,
    ("VM_BIND", "EINVAL"): _user_range,
    ("TILER_HEAP_CREATE", "EINVAL"): _chunk_size,
    ("TILER_HEAP_CREATE", "ENOSPC"): _no_addresses,
    ("GROUP_CREATE", "ENOSPC"): _no_addresses,
    ("BO_CREATE", "ENOSPC"): _no_addresses,
    ("BO_MMAP_OFFSET", "ENOSPC"): _no_addresses,
}
