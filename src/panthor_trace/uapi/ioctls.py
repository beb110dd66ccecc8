# SPDX-License-Identifier: MIT
"""DRM ioctls as data: panthor's own and the core ones that own buffers or synchronise.

Source: include/uapi/drm/panthor_drm.h (Linux 6.12 and 7.3) and include/uapi/drm/drm.h. A struct only ever
grows at its end and ``_IOC_SIZE`` tells how much of it the caller knows, so a field is present when it lies
within that size. ``since`` is the uAPI version (DRM driver version) in which an ioctl or field appeared.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from types import MappingProxyType

#: First number of a driver's own ioctls (DRM_COMMAND_BASE).
COMMAND_BASE = 0x40

#: ``struct drm_panthor_obj_array`` flattened: prefix + stride, count, array.
_ARRAY = (("stride", 0, "u4"), ("count", 4, "u4"), ("array", 8, "u8"))


@dataclass(frozen=True)
class Field:
    """One member of an argument struct: offset in bytes, NumPy type, uAPI version it came with."""

    name: str
    offset: int
    type: str
    since: str = "1.0"

    @property
    def end(self) -> int:
        """Offset of the first byte behind the member."""
        return self.offset + int(self.type[1:])


@dataclass(frozen=True)
class Ioctl:
    """One ioctl. ``array`` and ``string`` are the offsets of what the argument points to, if anything.

    ``points`` is where the argument of a wait has its pointers to handles and points of sync objects, their
    number and more, as struct drm_syncobj_timeline_wait does.

    ``ordinary`` holds the errnos that are part of normal operation (polling, probing), not failures.
    """

    number: int
    name: str
    fields: tuple[Field, ...]
    array: int | None = None
    string: int | None = None
    points: int | None = None
    ordinary: frozenset[int] = frozenset()
    since: str = "1.0"


def _fields(*members: tuple[str, int, str]) -> tuple[Field, ...]:
    return tuple(Field(*member) for member in members)


def _array(prefix: str, offset: int) -> tuple[tuple[str, int, str], ...]:
    return tuple((f"{prefix}_{name}", offset + at, kind) for name, at, kind in _ARRAY)


PANTHOR: tuple[Ioctl, ...] = (
    # Mesa asks for query types the kernel may not know yet and goes on without: EINVAL is an answer.
    Ioctl(
        0x40,
        "DEV_QUERY",
        _fields(("type", 0, "u4"), ("size", 4, "u4"), ("pointer", 8, "u8")),
        ordinary=frozenset({errno.EINVAL}),
    ),
    Ioctl(0x41, "VM_CREATE", _fields(("flags", 0, "u4"), ("id", 4, "u4"), ("user_va_range", 8, "u8"))),
    Ioctl(0x42, "VM_DESTROY", _fields(("id", 0, "u4"))),
    Ioctl(0x43, "VM_BIND", _fields(("vm_id", 0, "u4"), ("flags", 4, "u4"), *_array("ops", 8)), array=8),
    Ioctl(0x44, "VM_GET_STATE", _fields(("vm_id", 0, "u4"), ("state", 4, "u4"))),
    Ioctl(
        0x45,
        "BO_CREATE",
        _fields(("size", 0, "u8"), ("flags", 8, "u4"), ("exclusive_vm_id", 12, "u4"), ("handle", 16, "u4")),
    ),
    Ioctl(0x46, "BO_MMAP_OFFSET", _fields(("handle", 0, "u4"), ("offset", 8, "u8"))),
    Ioctl(
        0x47,
        "GROUP_CREATE",
        _fields(
            *_array("queues", 0),
            ("max_compute_cores", 16, "u1"),
            ("max_fragment_cores", 17, "u1"),
            ("max_tiler_cores", 18, "u1"),
            ("priority", 19, "u1"),
            ("compute_core_mask", 24, "u8"),
            ("fragment_core_mask", 32, "u8"),
            ("tiler_core_mask", 40, "u8"),
            ("vm_id", 48, "u4"),
            ("group_handle", 52, "u4"),
        ),
        array=0,
    ),
    Ioctl(0x48, "GROUP_DESTROY", _fields(("group_handle", 0, "u4"))),
    Ioctl(0x49, "GROUP_SUBMIT", _fields(("group_handle", 0, "u4"), *_array("queue_submits", 8)), array=8),
    Ioctl(
        0x4A,
        "GROUP_GET_STATE",
        _fields(("group_handle", 0, "u4"), ("state", 4, "u4"), ("fatal_queues", 8, "u4")),
    ),
    Ioctl(
        0x4B,
        "TILER_HEAP_CREATE",
        _fields(
            ("vm_id", 0, "u4"),
            ("initial_chunk_count", 4, "u4"),
            ("chunk_size", 8, "u4"),
            ("max_chunks", 12, "u4"),
            ("target_in_flight", 16, "u4"),
            ("handle", 20, "u4"),
            ("tiler_heap_ctx_gpu_va", 24, "u8"),
            ("first_heap_chunk_gpu_va", 32, "u8"),
        ),
    ),
    Ioctl(0x4C, "TILER_HEAP_DESTROY", _fields(("handle", 0, "u4"))),
    Ioctl(0x4D, "BO_SET_LABEL", _fields(("handle", 0, "u4"), ("label", 8, "u8")), string=8, since="1.4"),
    Ioctl(0x4E, "SET_USER_MMIO_OFFSET", _fields(("offset", 0, "u8")), since="1.5"),
    Ioctl(0x4F, "BO_SYNC", _fields(*_array("ops", 0)), array=0, since="1.7"),
    Ioctl(
        0x50,
        "BO_QUERY_INFO",
        _fields(("handle", 0, "u4"), ("extra_flags", 4, "u4"), ("create_flags", 8, "u4")),
        since="1.7",
    ),
)

#: Waiting with a time-out already past is how Mesa polls a sync object (vk_drm_syncobj.c).
_POLLING = frozenset({errno.ETIME})

CORE: tuple[Ioctl, ...] = (
    Ioctl(0x00, "VERSION", ()),
    Ioctl(0x09, "GEM_CLOSE", _fields(("handle", 0, "u4"))),
    Ioctl(0x0C, "GET_CAP", _fields(("capability", 0, "u8"), ("value", 8, "u8")), ordinary=frozenset({22})),
    Ioctl(0x2D, "PRIME_HANDLE_TO_FD", _fields(("handle", 0, "u4"), ("flags", 4, "u4"), ("fd", 8, "i4"))),
    Ioctl(0x2E, "PRIME_FD_TO_HANDLE", _fields(("handle", 0, "u4"), ("flags", 4, "u4"), ("fd", 8, "i4"))),
    Ioctl(0xBF, "SYNCOBJ_CREATE", _fields(("handle", 0, "u4"), ("flags", 4, "u4"))),
    Ioctl(0xC0, "SYNCOBJ_DESTROY", _fields(("handle", 0, "u4"))),
    Ioctl(0xC1, "SYNCOBJ_HANDLE_TO_FD", _fields(("handle", 0, "u4"), ("flags", 4, "u4"), ("fd", 8, "i4"))),
    Ioctl(0xC2, "SYNCOBJ_FD_TO_HANDLE", _fields(("handle", 0, "u4"), ("flags", 4, "u4"), ("fd", 8, "i4"))),
    Ioctl(
        0xC3,
        "SYNCOBJ_WAIT",
        _fields(("handles", 0, "u8"), ("timeout_nsec", 8, "i8"), ("count_handles", 16, "u4")),
        ordinary=_POLLING,
    ),
    Ioctl(0xC4, "SYNCOBJ_RESET", _fields(("handles", 0, "u8"), ("count_handles", 8, "u4"))),
    Ioctl(0xC5, "SYNCOBJ_SIGNAL", _fields(("handles", 0, "u8"), ("count_handles", 8, "u4"))),
    Ioctl(
        0xCA,
        "SYNCOBJ_TIMELINE_WAIT",
        _fields(
            ("handles", 0, "u8"),
            ("points", 8, "u8"),
            ("timeout_nsec", 16, "i8"),
            ("count_handles", 24, "u4"),
            ("flags", 28, "u4"),
            ("first_signaled", 32, "u4"),
        ),
        points=0,
        ordinary=_POLLING,
    ),
    Ioctl(0xCB, "SYNCOBJ_QUERY", ()),
    Ioctl(
        0xCC,
        "SYNCOBJ_TRANSFER",
        _fields(
            ("src_handle", 0, "u4"),
            ("dst_handle", 4, "u4"),
            ("src_point", 8, "u8"),
            ("dst_point", 16, "u8"),
            ("flags", 24, "u4"),
        ),
    ),
    Ioctl(0xCD, "SYNCOBJ_TIMELINE_SIGNAL", ()),
    Ioctl(0xCF, "SYNCOBJ_EVENTFD", ()),
)

#: DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL and _WAIT_AVAILABLE: for all of the points; only until they have a fence.
SYNCOBJ_WAIT_ALL = 1 << 0
SYNCOBJ_WAIT_AVAILABLE = 1 << 2

#: Every known ioctl by number.
BY_NUMBER = MappingProxyType({ioctl.number: ioctl for ioctl in PANTHOR + CORE})
#: The same by name.
BY_NAME = MappingProxyType({ioctl.name: ioctl for ioctl in PANTHOR + CORE})

#: A signal interrupted the wait, or the caller is to repeat the call: libdrm's drmIoctl() does.
#: The kernel's own ERESTART… codes become one or the other on the way out.
RESTARTED = frozenset({errno.EINTR, errno.EAGAIN, 512, 513, 514, 516})

#: ``struct drm_panthor_vm_bind_op``.
VM_BIND_OP = Ioctl(
    0x43,
    "VM_BIND operation",
    _fields(
        ("flags", 0, "u4"),
        ("bo_handle", 4, "u4"),
        ("bo_offset", 8, "u8"),
        ("va", 16, "u8"),
        ("size", 24, "u8"),
        *_array("syncs", 32),
    ),
)
#: ``enum drm_panthor_vm_bind_op_flags``: the operation is in the top four bits.
VM_BIND_OP_SHIFT = 28
VM_BIND_OPS = MappingProxyType({0: "map", 1: "unmap", 2: "sync_only"})
#: DRM_PANTHOR_VM_BIND_OP_MAP_*, as columns.
VM_BIND_MAP_FLAGS = MappingProxyType({1: "read_only", 2: "no_exec", 4: "uncached"})
#: ``struct drm_panthor_queue_submit``.
QUEUE_SUBMIT = Ioctl(
    0x49,
    "GROUP_SUBMIT queue submit",
    _fields(
        ("queue_index", 0, "u4"),
        ("stream_size", 4, "u4"),
        ("stream_addr", 8, "u8"),
        ("latest_flush", 16, "u4"),
        *_array("syncs", 24),
    ),
)
#: DRM_PANTHOR_VM_BIND_ASYNC.
VM_BIND_ASYNC = 1 << 0


def name_of(number: int) -> str:
    """Name of an ioctl by number; unknown ones by their number (a newer kernel's, or another driver's)."""
    known = BY_NUMBER.get(number)
    return known.name if known else f"0x{number:02x}"


def is_ordinary(number: int, code: int) -> bool:
    """Whether ``code`` (a positive errno) is part of this ioctl's normal operation."""
    known = BY_NUMBER.get(number)
    return code in RESTARTED or (known is not None and code in known.ordinary)
