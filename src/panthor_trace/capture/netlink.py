# SPDX-License-Identifier: MIT
"""What the kernel tells by netlink: accounting of processes at their end, and events of GPU devices.

pyroute2 opens, binds and registers the sockets; what arrives is read without blocking, between two drains,
and taken apart here: pyroute2 up to 0.9 reads taskstats later than version 15 by an older layout, and its
interfaces for reading differ from release to release.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..uapi import taskstats
from .layers import Layer

#: genetlink's TASKSTATS_TYPE_* (include/uapi/linux/taskstats.h).
_PID, _TGID, _STATS, _AGGREGATE_PID, _AGGREGATE_TGID = 1, 2, 3, 4, 5
_NETLINK_HEADER = struct.Struct("<IHHII")
_GENERIC_HEADER = 4
_ATTRIBUTE = struct.Struct("<HH")
_ATTRIBUTE_TYPE = 0x3FFF
_FIRST_FAMILY = 0x10

_SUBSYSTEMS = frozenset({"drm", "devcoredump"})
_DELAYACCT = Path("/proc/sys/kernel/task_delayacct")
_CPUS = Path("/sys/devices/system/cpu/possible")
_BUFFER_BYTES = 1 << 16
#: SO_RCVBUFFORCE's; a command may end a thousand processes between two drains.
_QUEUE_BYTES = 4 << 20

Append = Callable[[str, Mapping[str, Any]], None]


def delays_measured() -> bool | None:
    """Whether the kernel measures delays (swap, thrashing…) now; None where it does not say."""
    try:
        return _DELAYACCT.read_text().strip() == "1"
    except OSError:
        return None


def _attributes(raw: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position + _ATTRIBUTE.size <= len(raw):
        length, kind = _ATTRIBUTE.unpack_from(raw, position)
        if length < _ATTRIBUTE.size:
            return
        yield kind & _ATTRIBUTE_TYPE, raw[position + _ATTRIBUTE.size : position + length]
        position += length + 3 & ~3


def exit_reports(datagram: bytes) -> Iterator[tuple[bool, int, bytes]]:
    """(whether of a whole thread group, thread or process, struct taskstats) of each report in a datagram."""
    position = 0
    while position + _NETLINK_HEADER.size <= len(datagram):
        length, family, *_ = _NETLINK_HEADER.unpack_from(datagram, position)
        if length < _NETLINK_HEADER.size:
            return
        body = datagram[position + _NETLINK_HEADER.size + _GENERIC_HEADER : position + length]
        if family >= _FIRST_FAMILY:
            for kind, content in _attributes(body):
                parts = dict(_attributes(content)) if kind in (_AGGREGATE_PID, _AGGREGATE_TGID) else {}
                number = parts.get(_PID) or parts.get(_TGID)
                if number and _STATS in parts:
                    yield kind == _AGGREGATE_TGID, int.from_bytes(number[:4], "little"), parts[_STATS]
        position += length + 3 & ~3


def uevent(datagram: bytes) -> dict[str, str] | None:
    """A kernel uevent of DRM or of a device core dump as its variables, else None."""
    first, *lines = datagram.split(b"\0")
    if b"@" not in first:
        return None  # udev's own messages start with "libudev"
    pairs = (line.decode(errors="replace").split("=", 1) for line in lines if b"=" in line)
    variables = {pair[0]: pair[1] for pair in pairs}
    return variables if variables.get("SUBSYSTEM") in _SUBSYSTEMS else None


class _Socket:
    """A netlink socket that pyroute2 made, read here. Closes both."""

    def __init__(self, made: Any) -> None:
        self._made = made
        self._socket = socket.socket(fileno=os.dup(made.fileno()))
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_RCVBUFFORCE", 33), _QUEUE_BYTES)

    def read(self) -> Iterator[bytes]:
        """All datagrams that are there. Raises OSError (ENOBUFS: some were dropped)."""
        while True:
            try:
                yield self._socket.recv(_BUFFER_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._socket.close()
            self._made.close()


def taskstats_socket() -> Any:
    """Bound to the kernel's family of that name, which takes no right. Raises whatever pyroute2 does."""
    from pyroute2.netlink.taskstats import TaskStats

    stats = TaskStats()
    try:
        stats.bind()
    except BaseException:
        stats.close()
        raise
    return stats


class Netlink:
    """Both sockets, as layers; each works without the other, and the recording without either."""

    def __init__(self, layers: dict[str, Layer]) -> None:
        self._append: Append = lambda _name, _row: None
        self.delays = delays_measured()
        #: Datagrams the kernel dropped because we did not read fast enough.
        self.dropped = 0
        stats = layers["taskstats"] = Layer()
        events = layers["uevent"] = Layer()
        self._stats = self._open(stats, self._taskstats)
        self._events = self._open(events, self._uevents)
        if stats.live and not self.delays:
            stats.missing.append("delay times (sysctl kernel.task_delayacct is not 1)")

    @staticmethod
    def _open(layer: Layer, make: Callable[[], Any]) -> _Socket | None:
        try:
            made = _Socket(make())
        except ImportError as error:
            layer.why = f"pyroute2 is missing (install python3-pyroute2): {error.name}"
        except Exception as error:  # pyroute2's own and the kernel's: it costs a layer, no more
            layer.why = str(error) or type(error).__name__
        else:
            layer.live = True
            return made
        return None

    @staticmethod
    def _taskstats() -> Any:
        stats = taskstats_socket()
        stats.register_mask(_CPUS.read_text().strip())
        return stats

    @staticmethod
    def _uevents() -> Any:
        from pyroute2.netlink.uevent import UeventSocket

        events = UeventSocket()
        events.bind()  # to all groups, which is each version's own default
        return events

    def report_to(self, append: Append) -> None:
        """Where taskstats.jsonl and uevents.jsonl go."""
        self._append = append

    def poll(self, is_traced: Callable[[int], bool]) -> None:
        """Take what has arrived; of exits only those ``is_traced`` knows, by process or thread."""
        for datagram in self._read(self._stats):
            for whole, number, raw in exit_reports(datagram):
                values = taskstats.decode(raw, self.delays)
                process = number if whole else values.get("process", number)
                if is_traced(process):
                    values.pop("process", None)
                    who = {"pid": process, "group": whole, "tid": None if whole else number}
                    self._append("taskstats.jsonl", {**who, "time_ns": time.monotonic_ns(), **values})
        for datagram in self._read(self._events):
            variables = uevent(datagram)
            if variables is not None:
                self._append("uevents.jsonl", {"time_ns": time.monotonic_ns(), "variables": variables})

    def _read(self, source: _Socket | None) -> Iterator[bytes]:
        while source is not None:
            try:
                yield from source.read()
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    return
                self.dropped += 1

    def close(self) -> None:
        """Close the sockets."""
        for source in (self._stats, self._events):
            if source is not None:
                source.close()
