# SPDX-License-Identifier: MIT
"""Names and numbers of the trace format; no NumPy here, for the recorder does without it.

The definition of all of them is bpf/record.h; tests/unit/test_records.py compares.
"""

from __future__ import annotations

import enum

#: Goes up with every change of a record's layout or of the trace's files; see docs/trace-format.md.
SCHEMA_VERSION = 3

ARGUMENT_BYTES = 64
ARRAY_BYTES = 192
VULKAN_ARGS = 7
POINTEE_BYTES = 64
TYPE_NAME_BYTES = 128
PATH_BYTES = 128
DRIVER_VALUES = 8
STACK_TEXT_BYTES = 1536
MESSAGE_BYTES = 224
NO_DESCRIPTOR = 0xFFFFFFFF
COUNTER_COUNT = 32
COUNTER_COUNT = 32
BUILD_ID_BYTES = 20
STACK_FRAMES = 48


class RecordType(enum.IntEnum):
    """First byte of a record (``enum record_type``)."""

    IOCTL = 1
    ARRAY = 2
    VULKAN = 3
    EXCEPTION = 4
    PROCESS = 5
    COUNTERS = 6
    DRIVER = 7
    KERNEL_STACK = 8
    MESSAGE = 9
    STACK = 10
    MAPPING = 11
    FAILURE = 12


class Flag(enum.IntFlag):
    """``enum record_flag``."""

    UNFINISHED = 1
    FAULT_BEFORE = 2
    FAULT_AFTER = 4
    ARGUMENT_CUT = 8
    ARRAY_CUT = 16


class ProcessEvent(enum.IntEnum):
    """``enum process_event``."""

    FORK = 1
    EXEC = 2
    EXIT = 3
    OOM_KILL = 4


class MappingKind(enum.IntEnum):
    """``enum mapping_kind``."""

    NODE = 1
    NODE_UNMAP = 2
    LIBRARY = 3
    OTHER = 4
    OPEN = 5
    FILE = 6


class Hold(enum.IntEnum):
    """``enum hold``: whether a process was stopped at its failure, or why not."""

    HELD = 0
    OFF = 1
    TRACED = 2
    STOPPING = 3
    CATCHES = 4
    PARENT = 5
    OFTEN = 6
    ALREADY = 7
    REFUSED = 8


class FrameStatus(enum.IntEnum):
    """``enum frame_status``: what a stack frame holds."""

    EMPTY = 0
    BUILD_ID = 1
    ADDRESS = 2


class Counter(enum.IntEnum):
    """``enum counter``: what could not be recorded."""

    LOST_IOCTL = 0
    LOST_ARRAY = 1
    LOST_VULKAN = 2
    LOST_EXCEPTION = 3
    LOST_PROCESS = 4
    MISSED_IOCTL = 5
    MISSED_VULKAN = 6
    UNMATCHED_VULKAN = 7
    MISSED_PROCESS = 8
    FAULTED = 9
    LOST_DRIVER = 16
    LOST_MESSAGE = 17
    MISSED_DRIVER = 18
    MISSED_RETURN = 19
    LOST_KERNEL_STACK = 20
    LOST_STACK = 10
    SKIPPED_STACK = 11
    LOST_MAPPING = 12
    MISSED_MAPPING = 13
    LOST_FAILURE = 14


#: First bytes of a block of events.bin.
BLOCK_MAGIC = b"ptr1"
