# SPDX-License-Identifier: MIT
"""Snapshots of the machine's limits while the command runs: state.jsonl of the trace.

A failing program is often gone a moment after its failure. So each snapshot notes what could still be read, a
cgroup is remembered by its directory from earlier snapshots, and what is not known is null, never 0.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..trace.schema import MappingKind, ProcessEvent, RecordType
from ..uapi import ioctls, vulkan
from .memory_cgroup import Hierarchy, find_hierarchy, read_level

#: Time between two periodic snapshots, longer where one takes long: they may cost a hundredth of a processor.
PERIOD_SECONDS = 1.0
_SHARE = 100
#: Snapshots of failures in one recording. A program may poll with a request that is refused for ever.
_MOST_FAILURES = 64
#: Snapshots of processes that executed a file or met the GPU; a build would make thousands.
_MOST_PROCESSES = 256

_TGID = struct.Struct("<I")
_IOCTL_ANSWER = struct.Struct("<qQI")  # ret, arg, cmd
_VULKAN_ANSWER = struct.Struct("<iI")  # result, function
_PROCESS_EVENT = struct.Struct("<I")
_MAPPING_RET = struct.Struct("<q")
_MAPPING_KIND = struct.Struct("<I")
_ANSWER_OFFSET = 32
_TGID_OFFSET = 4
_EVENT_OFFSET = 24


def _pid(record: bytes) -> int:
    return int(_TGID.unpack_from(record, _TGID_OFFSET)[0])


def ioctl_failures(records: Iterable[bytes]) -> list[tuple[int, str]]:
    """(pid, what) of each refused ioctl, ordinary errnos apart."""
    found = []
    for record in records:
        if record[_ANSWER_OFFSET + 7] < 0x80:  # the sign of ret: nearly all records stop here
            continue
        ret, _, cmd = _IOCTL_ANSWER.unpack_from(record, _ANSWER_OFFSET)
        if not ioctls.is_ordinary(cmd & 0xFF, -ret):
            found.append((_pid(record), f"ioctl {ioctls.name_of(cmd & 0xFF)}"))
    return found


_HAS_RESULT = tuple(function.has_result for function in vulkan.FUNCTIONS)


def vulkan_failures(records: Iterable[bytes]) -> list[tuple[int, str]]:
    """(pid, what) of each Vulkan call that answered with an error."""
    found = []
    for record in records:
        if record[_ANSWER_OFFSET + 3] < 0x80:
            continue
        _, function = _VULKAN_ANSWER.unpack_from(record, _ANSWER_OFFSET)
        if _HAS_RESULT[function]:
            found.append((_pid(record), vulkan.FUNCTIONS[function].name))
    return found


def mapping_failures(records: Iterable[bytes]) -> list[tuple[int, str]]:
    """(pid, what) of each refused mapping of a node."""
    found = []
    for record in records:
        (ret,), (kind,) = _MAPPING_RET.unpack_from(record, 32), _MAPPING_KIND.unpack_from(record, 64)
        if -4096 < ret < 0 and kind != MappingKind.LIBRARY:
            found.append((_pid(record), "mmap" if kind == MappingKind.NODE else "munmap"))
    return found


#: What to look for among fresh records of a type; other layers' failures are added here.
FAILURES: Mapping[RecordType, Callable[[Iterable[bytes]], list[tuple[int, str]]]] = {
    RecordType.IOCTL: ioctl_failures,
    RecordType.VULKAN: vulkan_failures,
    RecordType.MAPPING: mapping_failures,
}


def memory_info(path: Path = Path("/proc/meminfo")) -> dict[str, int | None]:
    """The machine's memory in bytes."""
    try:
        rows = dict(line.split(":", 1) for line in path.read_text().splitlines())
    except (OSError, ValueError):
        rows = {}
    wanted = {"total": "MemTotal", "available": "MemAvailable", "free": "MemFree", "swap_free": "SwapFree"}
    return {name: int(rows[key].split()[0]) * 1024 if key in rows else None for name, key in wanted.items()}


def mapping_count(pid: int, proc: Path = Path("/proc")) -> int | None:
    """How many mappings ``pid`` has; None once it has ended."""
    try:
        count = (proc / str(pid) / "maps").read_bytes().count(b"\n")
    except OSError:
        return None
    return count or None  # a process that is ending has an empty file


def _sysctl(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None


class StateWatch:
    """Takes snapshots and hands them to ``write`` as they are taken."""

    def __init__(self, root_pid: int, write: Callable[[Mapping[str, Any]], None]) -> None:
        self._pid = root_pid
        self._write = write
        self._hierarchy: Hierarchy | None = None
        with contextlib.suppress(OSError, ValueError):  # then the cgroup is unknown, and snapshots say so
            self._hierarchy = find_hierarchy()
        self._mount = self._hierarchy.mount if self._hierarchy else None
        self._groups: dict[int, Path] = {}
        self._known: set[int] = set()
        self._failed: set[tuple[int, str]] = set()
        self._processes = 0
        self._next = 0.0

    def sample(self, why: str, pid: int | None = None, what: str | None = None) -> None:
        """Take one snapshot, of ``pid`` or of the process that last asked the GPU for something."""
        pid = pid if pid is not None else self._pid
        started = time.monotonic()
        maps = mapping_count(pid)
        directory = self._group(pid, alive=maps is not None)
        snapshot = {
            "time_ns": time.monotonic_ns(),
            "why": why,
            "what": what,
            "pid": pid,
            "maps": maps,
            "max_map_count": _sysctl("/proc/sys/vm/max_map_count"),
            "memory": memory_info(),
            "cgroup": str(directory) if directory else None,
            "cgroups": self._levels(directory),
        }
        self._write(snapshot)
        self._next = started + max(PERIOD_SECONDS, _SHARE * (time.monotonic() - started))

    def _group(self, pid: int, *, alive: bool) -> Path | None:
        """The process's memory cgroup. Read anew each time: a process may move."""
        directory = self._hierarchy.directory(pid) if self._hierarchy else None
        # A process that has ended is moved to the root group in v1 (cgroup_exit), and is gone in v2.
        of_the_dead = not alive and (pid in self._groups or directory == self._mount)
        if directory is not None and not of_the_dead:
            self._groups[pid] = directory
        return self._groups.get(pid)

    def _levels(self, directory: Path | None) -> list[dict[str, Any]]:
        """That group and those above it; v2's root group has no files of its own."""
        if self._hierarchy is None or directory is None:
            return []
        return [read_level(self._hierarchy, level) for level in self._hierarchy.levels(directory)]

    def periodic(self, now: float) -> None:
        """A snapshot, where one is due."""
        if now >= self._next:
            self.sample("periodic")

    def look(self, fresh: Callable[[RecordType], list[bytes]]) -> None:
        """Look through what came from the ring since last time."""
        executed = [
            _pid(record)
            for record in fresh(RecordType.PROCESS)
            if _PROCESS_EVENT.unpack_from(record, _EVENT_OFFSET)[0] == ProcessEvent.EXEC
        ]
        if executed:
            # Again where it is known: who moves into a cgroup and then executes the program has moved now.
            self._known.discard(executed[-1])
            self._meet(executed[-1])
        for kind, failures in FAILURES.items():
            records = fresh(kind)
            if not records:
                continue
            if kind == RecordType.IOCTL:
                self._meet(_pid(records[-1]))
            for pid, what in failures(records):
                self._fail(pid, what)

    def _meet(self, pid: int) -> None:
        """A process executed a file or asked the GPU for something: that is the one to watch."""
        self._pid = pid
        if pid not in self._known and self._processes < _MOST_PROCESSES:
            self._known.add(pid)
            self._processes += 1
            self.sample("process", pid)

    def _fail(self, pid: int, what: str) -> None:
        if (pid, what) not in self._failed and len(self._failed) < _MOST_FAILURES:
            self._failed.add((pid, what))
            self.sample("failure", pid, what)
