# SPDX-License-Identifier: MIT
"""What a refused kernel request means, as a table: (ioctl, mmap or open, errno) -> cause.

Looked up from the top; ``*`` is any ioctl. Sources: the limits of limits.py, and which errno panthor's
functions return (6.12.117, 7.3.4).
"""

from __future__ import annotations

from ..limits import limit_reached
from .verdict import Cause

_TABLE: tuple[tuple[str, str, Cause], ...] = (
    # More mappings than vm.max_map_count, or more than RLIMIT_AS (mm/mmap.c, may_expand_vm).
    ("mmap", "ENOMEM", Cause.PROCESS_LIMIT),
    ("munmap", "ENOMEM", Cause.PROCESS_LIMIT),
    # BO pages, page pinning, page tables, heap chunks.
    ("*", "ENOMEM", Cause.KERNEL_MEMORY),
    # A BO larger than the address space of shmem; the kernel's own half of a VM used up.
    ("*", "ENOSPC", Cause.KERNEL_MEMORY),
    # Descriptors: opening the node, PRIME export, syncobj export.
    ("*", "EMFILE", Cause.PROCESS_LIMIT),
    ("*", "ENFILE", Cause.PROCESS_LIMIT),
    # The device was unplugged, declared unusable, or is being reset (panthor_device.c).
    ("*", "ENODEV", Cause.GPU_FAULT),
    ("*", "ECANCELED", Cause.GPU_FAULT),
    ("*", "EIO", Cause.GPU_FAULT),
)


def cause_of(ioctl: str, errno: str) -> Cause:
    """The cause a refusal stands for; what no row explains was malformed or not permitted."""
    if limit_reached(ioctl, errno):
        return Cause.KERNEL_CAP
    for name, code, cause in _TABLE:
        if name in ("*", ioctl) and code == errno:
            return cause
    return Cause.KERNEL_REJECTED
