# SPDX-License-Identifier: MIT
"""panthor's fixed limits, each with its source. A limit is a cap of the driver, not a lack of memory."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True)
class Limit:
    """One cap: what it counts, per what, its value, and which refusal means that it was reached."""

    name: str
    counts: str
    per: str
    value: int
    #: The ioctl that is refused and the errno it is refused with.
    ioctl: str
    errno: str
    source: str


#: The driver's caps on how many there may be.
LIMITS: tuple[Limit, ...] = (
    Limit(
        "vms",
        "VMs",
        "open file",
        32,
        "VM_CREATE",
        "EBUSY",
        "PANTHOR_MAX_VMS_PER_FILE, panthor_mmu.c (6.12, 7.3); measured: the 33rd is refused",
    ),
    Limit(
        "groups",
        "scheduling groups",
        "open file",
        128,
        "GROUP_CREATE",
        "EBUSY",
        "MAX_GROUPS_PER_POOL, panthor_sched.c (6.12, 7.3); measured: the 129th is refused",
    ),
    Limit(
        "heaps",
        "tiler heaps",
        "VM",
        128,
        "TILER_HEAP_CREATE",
        "EBUSY",
        "MAX_HEAPS_PER_POOL, panthor_heap.c (6.12, 7.3); measured: the 129th is refused",
    ),
)


@dataclass(frozen=True)
class Bound:
    """A limit whose value the machine or the request sets; it is no cap of the driver."""

    name: str
    counts: str
    per: str
    unit: str
    source: str


#: In the order of the report, after LIMITS.
BOUNDS: tuple[Bound, ...] = (
    Bound("heap-chunks", "chunks of a tiler heap", "heap", "", "max_chunks of TILER_HEAP_CREATE"),
    Bound("va", "GPU addresses mapped", "VM", "bytes", "user_va_range VM_CREATE answered with"),
    Bound(
        "panvk-va",
        "panvk's own addresses",
        "VM",
        "bytes",
        "from PANVK_VA_RESERVE_BOTTOM to 4 GiB, panvk_vX_device.c; model/addresses.py",
    ),
    Bound("mappings", "memory mappings", "process", "", "vm.max_map_count; lines of /proc/PID/maps"),
    Bound("memory-cgroup", "memory cgroup", "group", "bytes", "memory.max, memory.current, memory.peak"),
    Bound("memory", "memory of the machine", "machine", "bytes", "MemTotal, MemAvailable of /proc/meminfo"),
)

#: A VM leaves the kernel at least this much (PANTHOR_VM_MIN_KERNEL_VA_SIZE, panthor_mmu.c).
MIN_KERNEL_VA_BYTES = 256 * MIB


def mmap_offset_bytes(page_size: int) -> int:
    """Bytes of mmap offsets a DRM device has for all its BOs, whoever made them: nearly 1 TiB.

    DRM_FILE_PAGE_OFFSET_SIZE, include/drm/drm_vma_manager.h, of 64-bit kernels.
    """
    return 0xFFFF_FFFF // page_size * 256 * page_size


#: TILER_HEAP_CREATE refuses other chunk sizes with EINVAL (panthor_heap_create, panthor_heap.c).
HEAP_CHUNK_BYTES = (128 * KIB, 8 * MIB)


def limit_reached(ioctl: str, errno: str) -> Limit | None:
    """The cap that this refusal of this ioctl means, if it means one."""
    for limit in LIMITS:
        if (limit.ioctl, limit.errno) == (ioctl, errno):
            return limit
    return None
