# SPDX-License-Identifier: MIT
"""Which fixed limit of the driver a refusal ran into, from the request itself.

EBUSY names its limit by itself; EINVAL does so only together with what was asked for. Sources: the checks in
panthor_vm_create_check_args, panthor_vm_bind_prepare_op_ctx (panthor_mmu.c) and panthor_heap_create
(panthor_heap.c), Linux 6.12.117 and 7.3.4.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from ..limits import HEAP_CHUNK_BYTES, MIN_KERNEL_VA_BYTES, limit_reached
from .case import Case
from .verdict import LimitHit


def limit_hit(case: Case, row: pd.Series) -> LimitHit | None:
    """The cap that the refused request ``row`` (of ``ioctls``) ran into, if it is one."""
    known = limit_reached(str(row["name"]), str(row["errno"]))
    if known:
        return LimitHit(known.name, known.value, f"{known.counts} per {known.per}")
    rule = _RULES.get((str(row["name"]), str(row["errno"])))
    return rule(case, row) if rule else None


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


def _kernel_range(case: Case, row: pd.Series) -> LimitHit | None:
    """The kernel's part of a VM is full: panthor_vm_alloc_va finds no room."""
    chain = row.get("origin_chain")
    if isinstance(chain, str) and "panthor_vm_alloc_va" not in chain:
        return None
    sizes = case.tables.vms["kernel_va_size"].dropna()
    return LimitHit(
        "kernel_va_range", int(sizes.iloc[-1]) if len(sizes) else None, "bytes of address space of the kernel"
    )


_RULES: dict[tuple[str, str], Callable[[Case, pd.Series], LimitHit | None]] = {
    ("VM_CREATE", "EINVAL"): _vm_range,
    ("VM_BIND", "EINVAL"): _user_range,
    ("TILER_HEAP_CREATE", "EINVAL"): _chunk_size,
    ("TILER_HEAP_CREATE", "ENOSPC"): _kernel_range,
    ("GROUP_CREATE", "ENOSPC"): _kernel_range,
}
