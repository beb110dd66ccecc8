# SPDX-License-Identifier: MIT
"""Snapshots of the machine's limits while the command runs: state.jsonl of the trace.

A failing program is often gone a moment after its failure. So each snapshot notes what could still be read, a
cgroup is remembered by its directory from earlier snapshots, and what is not known is null, never 0.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..trace.schema import Hold, MappingKind, ProcessEvent, RecordType
from ..uapi import ioctls, vulkan
from .holder import OUTCOMES, Holder
from .memory_cgroup import Hierarchy, find_hierarchy, read_level
from .proc import read_lines
from .process_state import process_state

#: Time between two periodic snapshots, longer where one takes long: they may cost a hundredth of a processor.
PERIOD_SECONDS = 1.0
_SHARE = 100
#: Snapshots of failures in one recording. A program may poll with a request that is refused for ever.
_MOST_FAILURES = 64
#: Snapshots of processes that executed a file or met the GPU; a build would make thousands.
_MOST_PROCESSES = 256

_TGID = struct.Struct("<I")
_PROCESS_EVENT = struct.Struct("<I")
_FAILURE = struct.Struct("<BBHIIIQQQqII")
_TGID_OFFSET = 4
_EVENT_OFFSET = 24


def _pid(record: bytes) -> int:
    return int(_TGID.unpack_from(record, _TGID_OFFSET)[0])


_MAPPINGS = {
    int(MappingKind.NODE_UNMAP): "munmap",
    int(MappingKind.OPEN): "open",
    int(MappingKind.FILE): "open",
}


@dataclass(frozen=True)
class Failure:
    """A failure_record: the first failure of its kind in a process."""

    pid: int
    what: str
    call_ns: int
    when_ns: int
    hold: Hold

    @classmethod
    def of(cls, record: bytes) -> Failure:
        """Decode it."""
        _, _, _, pid, _, _, call_ns, when_ns, number, _, kind, hold = _FAILURE.unpack(record)
        if kind == RecordType.IOCTL:
            what = f"ioctl {ioctls.name_of(number & 0xFF)}"
        elif kind == RecordType.VULKAN:
            what = vulkan.FUNCTIONS[number].name
        else:
            what = _MAPPINGS.get(number, "mmap")
        return cls(pid, what, call_ns, when_ns, Hold(hold))


def memory_info(path: Path = Path("/proc/meminfo")) -> dict[str, int | None]:
    """The machine's memory in bytes."""
    try:
        rows = dict(line.split(":", 1) for line in read_lines(path))
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

    def __init__(
        self,
        root_pid: int,
        write: Callable[[Mapping[str, Any]], None],
        holder: Holder | None = None,
        devices: Collection[int] = (),
        look_at: Callable[[int], None] = lambda _: None,
    ) -> None:
        """``devices`` are panthor's nodes (os.makedev); ``look_at`` is done with a process at its failure."""
        self._pid = root_pid
        self._write = write
        self._holder = holder
        self._devices = devices
        self._look_at = look_at
        self._hierarchy: Hierarchy | None = None
        with contextlib.suppress(OSError, ValueError):  # then the cgroup is unknown, and snapshots say so
            self._hierarchy = find_hierarchy()
        self._mount = self._hierarchy.mount if self._hierarchy else None
        self._groups: dict[int, Path] = {}
        self._known: set[int] = set()
        self._failures = 0
        self._processes = 0
        self._next = 0.0

    def sample(self, why: str, pid: int | None = None) -> None:
        """Take one snapshot, of ``pid`` or of the process that last asked the GPU for something."""
        started = time.monotonic()
        self._write(self._snapshot(why, pid if pid is not None else self._pid))
        self._next = started + max(PERIOD_SECONDS, _SHARE * (time.monotonic() - started))

    def _snapshot(self, why: str, pid: int) -> dict[str, Any]:
        maps = mapping_count(pid)
        directory = self._group(pid, alive=maps is not None)
        return {
            "time_ns": time.monotonic_ns(),
            "why": why,
            "what": None,
            "pid": pid,
            "maps": maps,
            "max_map_count": _sysctl("/proc/sys/vm/max_map_count"),
            "memory": memory_info(),
            "cgroup": str(directory) if directory else None,
            "cgroups": self._levels(directory),
        }

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
        requests = fresh(RecordType.IOCTL)
        if requests:
            self._meet(_pid(requests[-1]))

    def failures(self, records: list[bytes]) -> None:
        """Look at processes that have failed. To be done first of all: they may be held until it is."""
        for record in records:
            self._fail(Failure.of(record))

    def _meet(self, pid: int) -> None:
        """A process executed a file or asked the GPU for something: that is the one to watch."""
        self._pid = pid
        if pid not in self._known and self._processes < _MOST_PROCESSES:
            self._known.add(pid)
            self._processes += 1
            self.sample("process", pid)

    def _fail(self, failure: Failure) -> None:
        snapshot: dict[str, Any] | None = None
        hold: dict[str, Any] = {}
        try:
            if self._failures < _MOST_FAILURES:
                self._failures += 1
                snapshot = self._snapshot("failure", failure.pid)
                call = {"call_ns": failure.call_ns, "failed_ns": failure.when_ns}
                snapshot |= {"what": failure.what, **call}
                snapshot |= process_state(failure.pid, self._devices)
                self._look_at(failure.pid)
        finally:
            if failure.hold == Hold.HELD and self._holder is not None:
                hold = self._holder.release(failure.pid, failure.when_ns)
        # Written when the process goes on: a disk may take its time.
        if snapshot is not None:
            self._write({**snapshot, "hold": OUTCOMES[failure.hold], **hold})
