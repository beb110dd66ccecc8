# SPDX-License-Identifier: MIT
"""The wire format of bpf/record.h as NumPy dtypes (that file is the definition; a test compares them)."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from .schema import (
    ARGUMENT_BYTES,
    ARRAY_BYTES,
    BUILD_ID_BYTES,
    COUNTER_COUNT,
    DRIVER_VALUES,
    MESSAGE_BYTES,
    PATH_BYTES,
    POINTEE_BYTES,
    STACK_FRAMES,
    STACK_TEXT_BYTES,
    TYPE_NAME_BYTES,
    VULKAN_ARGS,
    RecordType,
)

HEAD = np.dtype(
    [
        ("type", "u1"),
        ("flags", "u1"),
        ("reserved", "u2"),
        ("tgid", "u4"),
        ("tid", "u4"),
        ("reserved2", "u4"),
        ("enter_ns", "u8"),
    ]
)

IOCTL = np.dtype(
    [
        ("head", HEAD),
        ("exit_ns", "u8"),
        ("ret", "i8"),
        ("arg", "u8"),
        ("cmd", "u4"),
        ("fd", "u4"),
        ("rdev", "u4"),
        ("array_bytes", "u4"),
        ("before", "u1", (ARGUMENT_BYTES,)),
        ("after", "u1", (ARGUMENT_BYTES,)),
        ("file", "u8"),
    ]
)

ARRAY = np.dtype([("head", HEAD), ("offset", "u4"), ("length", "u4"), ("bytes", "u1", (ARRAY_BYTES,))])

VULKAN = np.dtype(
    [
        ("head", HEAD),
        ("exit_ns", "u8"),
        ("result", "i4"),
        ("function", "u4"),
        ("args", "u8", (VULKAN_ARGS,)),
        ("pointee", "u1", (POINTEE_BYTES,)),
    ]
)

EXCEPTION = np.dtype([("head", HEAD), ("type_name", f"S{TYPE_NAME_BYTES}")])

PROCESS = np.dtype([("head", HEAD), ("event", "u4"), ("child", "u4"), ("path", f"S{PATH_BYTES}")])

COUNTERS = np.dtype([("head", HEAD), ("values", "u8", (COUNTER_COUNT,))])

DRIVER = np.dtype(
    [
        ("head", HEAD),
        ("exit_ns", "u8"),
        ("ioctl_ns", "u8"),
        ("ret", "i8"),
        ("sp", "u8"),
        ("function", "u4"),
        ("owner", "u4"),
        ("stack", "u8"),
        ("values", "u8", (DRIVER_VALUES,)),
    ]
)

KERNEL_STACK = np.dtype(
    [("head", HEAD), ("stack", "u8"), ("frames", "u4"), ("reserved", "u4"), ("text", f"S{STACK_TEXT_BYTES}")]
)

MESSAGE = np.dtype([("head", HEAD), ("text", f"S{MESSAGE_BYTES}")])

FRAME = np.dtype([("status", "i4"), ("build_id", "u1", (BUILD_ID_BYTES,)), ("offset", "u8")])

STACK = np.dtype([("head", HEAD), ("of", "u4"), ("frames", "u4"), ("frame", FRAME, (STACK_FRAMES,))])

MAPPING = np.dtype(
    [
        ("head", HEAD),
        ("exit_ns", "u8"),
        ("ret", "i8"),
        ("address", "u8"),
        ("length", "u8"),
        ("offset", "u8"),
        ("kind", "u4"),
        ("protection", "u4"),
        ("mmap_flags", "u4"),
        ("fd", "u4"),
        ("device", "u4"),
        ("maps", "u4"),
        ("inode", "u8"),
        ("address_space", "u8"),
        ("address_space_limit", "u8"),
    ]
)

FAILURE = np.dtype(
    [("head", HEAD), ("when_ns", "u8"), ("what", "u8"), ("error", "i8"), ("of", "u4"), ("hold", "u4")]
)

#: Layout by record type.
DTYPES = MappingProxyType(
    {
        RecordType.IOCTL: IOCTL,
        RecordType.ARRAY: ARRAY,
        RecordType.VULKAN: VULKAN,
        RecordType.EXCEPTION: EXCEPTION,
        RecordType.PROCESS: PROCESS,
        RecordType.COUNTERS: COUNTERS,
        RecordType.DRIVER: DRIVER,
        RecordType.KERNEL_STACK: KERNEL_STACK,
        RecordType.MESSAGE: MESSAGE,
        RecordType.STACK: STACK,
        RecordType.MAPPING: MAPPING,
        RecordType.FAILURE: FAILURE,
    }
)

#: In front of every block of events.bin: records of one type follow, ``count`` of ``size`` bytes each.
BLOCK = np.dtype([("magic", "S4"), ("type", "u4"), ("size", "u4"), ("count", "u4")])
