# SPDX-License-Identifier: MIT
"""struct taskstats as data (include/uapi/linux/taskstats.h): what of it we keep, and since which version.

A struct only grew at its end, but for version 15, which put members into the middle; version 16 moved them to
the end again, so that all versions but 15 share their offsets. Of a version 15 only the front is read. A
member a kernel does not have, or does not fill, is absent: unknown, not 0.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

#: Members of version 15 keep their place up to here (cpu_delay_max was put behind cpu_delay_total).
_SHIFTED_IN = 15
_SHIFTED_FROM = 32


@dataclass(frozen=True)
class Member:
    """One member: the column it becomes, its offset and struct code, and a factor to bytes or nanoseconds."""

    column: str
    offset: int
    code: str
    since: int = 1
    factor: int = 1
    #: Filled only while kernel.task_delayacct is 1.
    delay: bool = False


MEMBERS: tuple[Member, ...] = (
    Member("wait_status", 4, "I"),
    Member("cpu_delay_ns", 24, "Q", delay=True),
    Member("block_io_delay_ns", 40, "Q", delay=True),
    Member("swap_in_delay_ns", 56, "Q", delay=True),
    Member("user_time_ns", 152, "Q", factor=1000),
    Member("system_time_ns", 160, "Q", factor=1000),
    Member("minor_faults", 168, "Q"),
    Member("major_faults", 176, "Q"),
    # In KiB (bacct_add_tsk and xacct_add_tsk, kernel/tsacct.c).
    Member("peak_rss_bytes", 200, "Q", factor=1024),
    Member("peak_virtual_bytes", 208, "Q", factor=1024),
    Member("reclaim_delay_ns", 320, "Q", since=7, delay=True),
    Member("thrashing_delay_ns", 336, "Q", since=9, delay=True),
    Member("compaction_delay_ns", 360, "Q", since=11, delay=True),
    Member("process", 368, "I", since=12),
    Member("copy_on_write_delay_ns", 408, "Q", since=13, delay=True),
)
#: Columns that every thread reports of the whole process; the others are summed over threads.
OF_PROCESS = frozenset({"wait_status", "peak_rss_bytes", "peak_virtual_bytes", "process"})


def decode(raw: bytes, delays: bool | None) -> dict[str, int]:
    """What a struct taskstats says, by column. ``delays`` is whether the kernel measured them."""
    version = struct.unpack_from("<H", raw)[0] if len(raw) >= 2 else 0
    values = {}
    for member in MEMBERS:
        if version < member.since or member.offset + struct.calcsize(member.code) > len(raw):
            continue
        if version == _SHIFTED_IN and member.offset >= _SHIFTED_FROM:
            continue
        if member.delay and not delays:
            continue
        values[member.column] = struct.unpack_from("<" + member.code, raw, member.offset)[0] * member.factor
    return values
