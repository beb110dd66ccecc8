# SPDX-License-Identifier: MIT
"""What user space does about records as they arrive: look at the processes they are of, while these live."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from ..trace.schema import MappingKind, ProcessEvent, RecordType
from .modules import FileKey, Modules
from .netlink import Netlink
from .stacks import Stacks
from .uprobes import LibraryProbes

_PROCESS_HEAD = struct.Struct("<BBHIIIQII")
_MAPPING = struct.Struct("<BBHIIIQQqQQQIIIIIIQQQ")
_UNKNOWN_STATUS = 4  # Flag.FAULT_AFTER
_MAX_MAP_COUNT = Path("/proc/sys/vm/max_map_count")


class Sink(Protocol):
    """What the observer needs of the recorder's sink."""

    def append(self, name: str, row: Mapping[str, Any]) -> None:
        """Write a line of a side table."""


def max_map_count() -> int | None:
    """vm.max_map_count, or None where it cannot be read."""
    try:
        return int(_MAX_MAP_COUNT.read_text())
    except (OSError, ValueError):
        return None


class Observer:
    """Follows the traced processes: their modules, the libraries to probe, their stacks and ends."""

    def __init__(self, sink: Sink, probes: LibraryProbes, netlink: Netlink) -> None:
        self._sink = sink
        self._probes = probes
        self._netlink = netlink
        self.modules = Modules(sink.append)
        self._stacks = Stacks(self.modules, sink.append)
        #: Traced processes, ended ones included: their exit reports come later.
        self._pids: set[int] = set()
        #: Wait statuses of those that have ended, where known.
        self.statuses: dict[int, int] = {}
        self._mapped: dict[tuple[int, FileKey], int] = {}
        probes.report_to(sink.append)
        netlink.report_to(sink.append)

    def follow(self, pid: int, *, running: bool = False) -> None:
        """A process traced from now on. ``running``: it has mapped its libraries already; probe those."""
        self._pids.add(pid)
        if running:
            self.look_at(pid)

    def observe(self, fresh: Callable[[RecordType], list[bytes]]) -> None:
        """Look at what has arrived (``fresh``, by type). Called after every drain."""
        changed: dict[int, None] = {}
        for record in fresh(RecordType.PROCESS):
            self._process(record, changed)
        for record in fresh(RecordType.MAPPING):
            self._mapping(record, changed)
        for pid in changed:
            self.look_at(pid)
        for record in fresh(RecordType.STACK):
            self._stacks.take(record, time.monotonic_ns())
        self._netlink.poll(self._pids.__contains__)

    def _process(self, record: bytes, changed: dict[int, None]) -> None:
        _, flags, _, pid, _, _, _, event, child = _PROCESS_HEAD.unpack_from(record)
        if event == ProcessEvent.FORK:
            self._pids.add(child)
        elif event == ProcessEvent.EXEC:
            self._pids.add(pid)
            changed[pid] = None
        elif event == ProcessEvent.EXIT and not flags & _UNKNOWN_STATUS:
            self.statuses[pid] = child

    def _mapping(self, record: bytes, changed: dict[int, None]) -> None:
        fields = _MAPPING.unpack(record)
        pid, enter_ns, ret, kind = fields[3], fields[6], fields[8], fields[12]
        refused = -4096 < ret < 0
        if kind == MappingKind.LIBRARY and not refused:
            self._mapped.setdefault((pid, (fields[16], fields[18])), enter_ns)
            changed[pid] = None

    def look_at(self, pid: int) -> None:
        """What has it mapped since the last time? Libraries to probe are probed."""
        for region, module in self.modules.read(pid, time.monotonic_ns()):
            self._probes.attach_mapped(region, module, self._mapped.get((pid, region.file)))
