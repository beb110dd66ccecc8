# SPDX-License-Identifier: MIT
"""Builds traces that never happened, call by call, to test what is made of them.

Nothing here is clever: a clock that moves by a microsecond a step, and one method a thing that can happen.
Records are laid out by the same dtypes a recorded trace has.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from panthor_trace.capture import driver
from panthor_trace.trace.reader import Trace
from panthor_trace.trace.records import DTYPES
from panthor_trace.trace.schema import (
    ARRAY_BYTES,
    COUNTER_COUNT,
    SCHEMA_VERSION,
    Counter,
    MappingKind,
    ProcessEvent,
    RecordType,
)
from panthor_trace.trace.writer import TraceWriter
from panthor_trace.uapi import ioctls, vulkan
from panthor_trace.uapi.ioc import IOC_READ, IOC_WRITE, ioc

NODE = {"name": "renderD128", "rdev": 226 << 20 | 128, "driver": "panthor"}
#: Argument sizes of the uAPI of 7.3.
SIZES = {
    "BO_CREATE": 24,
    "VM_BIND": 24,
    "VM_CREATE": 16,
    "VM_DESTROY": 8,
    "GEM_CLOSE": 8,
    "GROUP_CREATE": 56,
    "GROUP_SUBMIT": 24,
    "TILER_HEAP_CREATE": 40,
    "SYNCOBJ_WAIT": 40,
    "SYNCOBJ_TRANSFER": 32,
    "SYNCOBJ_TIMELINE_WAIT": 48,
}
OP_BYTES = 48


class SyntheticTrace:
    """A run of one process (``pid``), built in the order of time."""

    def __init__(self, pid: int = 100) -> None:
        self.pid = self.tid = pid
        self.now = 1_000_000
        self.records: dict[RecordType, list[np.void]] = {kind: [] for kind in RecordType}
        self.layers: dict[str, dict[str, Any]] = {
            name: {"live": True, "why": "", "missing": []}
            for name in ("process", "ioctl", "mmap", "driver", "vulkan", "exception")
        }
        self.states: list[dict[str, Any]] = []
        #: The opening of the node that requests are made on, and a descriptor of it.
        self.file, self.fd = 0xFFFF_0000_0000_1000, 5
        self._handle = 0

    def tick(self) -> int:
        """The next moment."""
        self.now += 1000
        return self.now

    def new(self, kind: RecordType) -> np.void:
        """A record of ``kind`` that begins now, to be filled in."""
        return self._new(kind, self.tick())

    def _new(self, kind: RecordType, enter_ns: int) -> np.void:
        record: np.void = np.zeros(1, DTYPES[kind])[0]
        record["head"]["type"] = kind
        record["head"]["tgid"] = self.pid
        record["head"]["tid"] = self.tid
        record["head"]["enter_ns"] = enter_ns
        self.records[kind].append(record)
        return record

    def ioctl(
        self,
        name: str,
        before: Mapping[str, int] | None = None,
        after: Mapping[str, int] | None = None,
        *,
        ret: int = 0,
        size: int | None = None,
        array: bytes = b"",
        inside: Sequence[tuple[str, int, int]] = (),
    ) -> None:
        """One ioctl; ``ret`` is negative for an errno. ``after`` holds what differs from ``before``.

        ``inside`` are calls of driver functions that it led to, in the order of their returns: name, what it
        returned, stack pointer.
        """
        enter = self.tick()
        for function, answer, sp in inside:
            self.driver(function, answer, sp=sp, ioctl_ns=enter)
        self._array(enter, array)
        record = self._new(RecordType.IOCTL, enter)
        known = ioctls.BY_NAME[name]
        record["cmd"] = ioc(IOC_READ | IOC_WRITE, "d", known.number, size or SIZES.get(name, 16))
        record["fd"], record["rdev"], record["ret"] = self.fd, NODE["rdev"], ret
        record["file"] = self.file
        record["array_bytes"] = len(array)
        for when, values in (("before", before or {}), ("after", {**(before or {}), **(after or {})})):
            for field in known.fields:
                if field.name in values:
                    value = np.array([values[field.name]], f"<{field.type}").view(np.uint8)
                    record[when][field.offset : field.end] = value
        record["exit_ns"] = self.tick()

    def driver(
        self,
        function: str,
        ret: int = 0,
        *,
        sp: int = 0,
        ioctl_ns: int = 0,
        owner: int | None = None,
        stack: int = 0,
        **values: int,
    ) -> None:
        """A driver function that returned ``ret``; ``values`` by the names of its row in the table."""
        table = driver.as_json()
        index = next(number for number, row in enumerate(table) if row["name"] == function)
        record = self._new(RecordType.DRIVER, self.tick())
        record["exit_ns"] = self.tick()
        record["function"], record["ret"], record["sp"], record["ioctl_ns"] = index, ret, sp, ioctl_ns
        record["owner"], record["stack"] = self.pid if owner is None else owner, stack
        for name, value in values.items():
            record["values"][table[index]["values"].index(name)] = value

    def message(self, text: str) -> None:
        """A line of the driver in the kernel log."""
        self._new(RecordType.MESSAGE, self.tick())["text"] = text.encode()

    def vm_create(self, vm: int, *, vm_id: int = 1, user_va_range: int = 1 << 47) -> None:
        """A VM_CREATE that makes the kernel's object ``vm``."""
        signed = vm - (1 << 64) if vm >= 1 << 63 else vm
        self.ioctl(
            "VM_CREATE",
            {},
            {"id": vm_id, "user_va_range": user_va_range},
            inside=[("panthor_vm_create", signed, 100)],
        )

    def _array(self, enter: int, array: bytes) -> None:
        for offset in range(0, len(array), ARRAY_BYTES):
            part = array[offset : offset + ARRAY_BYTES]
            piece = self._new(RecordType.ARRAY, enter)
            piece["offset"], piece["length"] = offset, len(part)
            piece["bytes"][: len(part)] = np.frombuffer(part, np.uint8)

    def bo_create(self, size: int, *, error: int = 0, flags: int = 0) -> int:
        """A BO_CREATE; returns the handle."""
        if error:
            self.ioctl("BO_CREATE", {"size": size, "flags": flags}, ret=-error)
            return 0
        self._handle += 1
        self.ioctl("BO_CREATE", {"size": size, "flags": flags}, {"handle": self._handle})
        return self._handle

    def restart_handles(self) -> None:
        """The node was opened anew: handles are given out from 1 again."""
        self._handle = 0

    def bo_close(self, handle: int) -> None:
        """A GEM_CLOSE."""
        self.ioctl("GEM_CLOSE", {"handle": handle})

    def vm_bind(
        self,
        *ops: tuple[int, int],
        error: int = 0,
        failing: int = 0,
        unmap: bool = False,
        va: int = 0x1000_0000,
        vm: int = 1,
    ) -> None:
        """A synchronous VM_BIND of (handle, size) operations; ``failing`` is the index it stopped at.

        The operations are 1 MiB apart from ``va`` on; they map without leave to execute.
        """
        packed = b""
        for index, (handle, size) in enumerate(ops):
            words = np.zeros(1, [("flags", "<u4"), ("handle", "<u4"), ("offset", "<u8"), ("va", "<u8"),
                                 ("size", "<u8"), ("syncs", "<u8", 2)])  # fmt: skip
            words["flags"] = (1 << 28) if unmap else 2
            words["handle"], words["size"], words["va"] = handle, size, va + (index << 20)
            packed += words.tobytes()
        arguments = {"vm_id": vm, "ops_stride": OP_BYTES, "ops_count": len(ops)}
        after = {"ops_count": failing} if error else {}
        self.ioctl("VM_BIND", arguments, after, ret=-error, array=packed)

    @contextmanager
    def vulkan(self, name: str, *args: int, result: int = 0, pointee: bytes = b"") -> Iterator[None]:
        """A Vulkan call; what happens in the block happens inside it."""
        record = self._new(RecordType.VULKAN, self.tick())
        record["function"] = [function.name for function in vulkan.FUNCTIONS].index(name)
        record["args"][: len(args)] = np.array(args, np.uint64)
        record["result"] = result
        record["pointee"][: len(pointee)] = np.frombuffer(pointee, np.uint8)
        yield
        record["exit_ns"] = self.tick()

    def call(self, name: str, *args: int, result: int = 0) -> None:
        """A Vulkan call with nothing inside."""
        with self.vulkan(name, *args, result=result):
            pass

    def group_submit(self) -> None:
        """A GROUP_SUBMIT of one stream."""
        stream = np.zeros(1, "<u4,<u4,<u8,<u4,<u4,<u4,<u4,<u8")
        stream["f1"] = 800
        arguments = {"group_handle": 1, "queue_submits_stride": 40, "queue_submits_count": 1}
        self.ioctl("GROUP_SUBMIT", arguments, array=stream.tobytes())

    def signal(self, handle: int, point: int) -> None:
        """What was submitted last is to reach a point of a timeline sync object."""
        self.ioctl("SYNCOBJ_TRANSFER", {"src_handle": 1, "dst_handle": handle, "dst_point": point})

    def wait_points(self, *points: tuple[int, int], flags: int = 3, first: int = 0, error: int = 0) -> None:
        """A SYNCOBJ_TIMELINE_WAIT for points, each of (handle, point)."""
        raw = b"".join(point.to_bytes(8, "little") for _, point in points).ljust(128, b"\0")
        raw += b"".join(handle.to_bytes(4, "little") for handle, _ in points).ljust(64, b"\0")
        arguments = {"count_handles": len(points), "flags": flags}
        self.ioctl("SYNCOBJ_TIMELINE_WAIT", arguments, {"first_signaled": first}, ret=-error, array=raw)

    def submit(
        self,
        queue: int,
        *command_buffers: int,
        fence: int = 0,
        second: bool = False,
        groups: int = 1,
        signals: Sequence[tuple[int, int]] = (),
    ) -> None:
        """A vkQueueSubmit (or vkQueueSubmit2) of one struct, with ``groups`` GROUP_SUBMITs inside.

        It ``signals`` points of timeline sync objects, each of (handle, point).
        """
        name = "vkQueueSubmit2" if second else "vkQueueSubmit"
        with self.vulkan(name, queue, 1, 0xABC, fence):
            enter = int(self.records[RecordType.VULKAN][-1]["head"]["enter_ns"])
            padding = (bytes(16), bytes(8)) if second else (b"", b"")
            handles = (handle.to_bytes(8, "little") for handle in command_buffers)
            self._array(enter, b"".join(padding[0] + handle + padding[1] for handle in handles))
            for _ in range(groups):
                self.group_submit()
            for handle, point in signals:
                self.signal(handle, point)

    def mmap(
        self,
        size: int,
        *,
        offset: int = 0,
        error: int = 0,
        maps: int = 0,
        kind: MappingKind = MappingKind.NODE,
    ) -> None:
        """An mmap() of the node, after which the process has ``maps`` mappings (0: not known)."""
        record = self._new(RecordType.MAPPING, self.tick())
        record["kind"], record["device"], record["fd"] = kind, NODE["rdev"], self.fd
        record["length"], record["offset"], record["maps"] = size, offset, maps
        record["ret"] = -error if error else 0x7F00_0000_0000
        record["exit_ns"] = self.tick()

    def throw(self, type_name: str) -> None:
        """A C++ exception."""
        self._new(RecordType.EXCEPTION, self.tick())["type_name"] = type_name.encode()

    def fork(self, child: int) -> None:
        """The process forks."""
        record = self._new(RecordType.PROCESS, self.tick())
        record["event"], record["child"] = ProcessEvent.FORK, child

    def process(self, event: ProcessEvent, path: str = "", *, status: int = 0, signal: int = 0) -> None:
        """The process executes a file, or exits with ``status``, or by ``signal``."""
        record = self._new(RecordType.PROCESS, self.tick())
        record["event"], record["path"] = event, path.encode()
        if event == ProcessEvent.EXIT:
            record["child"] = status << 8 | signal  # as wait() has it

    def oom_kill(self) -> None:
        """The out-of-memory killer ends the process."""
        record = self._new(RecordType.PROCESS, self.tick())
        record["event"], record["child"] = ProcessEvent.OOM_KILL, self.pid

    def state(
        self,
        why: str = "periodic",
        *,
        maps: int | None = 500,
        max_map_count: int = 65530,
        available: int | None = 30 << 30,
        total: int = 32 << 30,
        cgroups: Sequence[Mapping[str, Any]] = (),
        held: str | None = None,
    ) -> None:
        """A snapshot of the machine's limits; ``held``: at the last failed ioctl, and continued by whom."""
        failed = self.records[RecordType.IOCTL][-1] if held else None
        hold = (
            {}
            if failed is None
            else {
                "call_ns": int(failed["head"]["enter_ns"]),
                "failed_ns": int(failed["exit_ns"]),
                "hold": "held",
                "held_ns": 7_000_000,
                "continued_by": held,
            }
        )
        self.states.append(
            {
                **hold,
                "time_ns": self.tick(),
                "why": why,
                "pid": self.pid,
                "maps": maps,
                "max_map_count": max_map_count,
                "memory": {"total": total, "available": available, "swap_free": 0},
                "cgroups": list(cgroups),
            }
        )

    def lose(self, counter: Counter, number: int) -> None:
        """The BPF side counted ``number`` losses."""
        values = np.zeros(COUNTER_COUNT, np.uint64)
        values[counter] = number
        self._new(RecordType.COUNTERS, self.tick())["values"] = values

    def finish(self, exit_code: int | None = 0, *, nodes: Sequence[Mapping[str, Any]] = (NODE,)) -> Trace:
        """The trace as the reader would give it; ``exit_code`` None: the recording never ended."""
        meta = {
            "schema_version": SCHEMA_VERSION,
            "started_monotonic_ns": 1_000_000,
            "nodes": list(nodes),
            "layers": self.layers,
            "driver_functions": driver.as_json(),
            "vulkan_functions": [function.name for function in vulkan.FUNCTIONS],
        }
        records = {kind: np.array(rows, DTYPES[kind]) for kind, rows in self.records.items() if rows}
        end = None if exit_code is None else {"exit_code": exit_code, "discarded_records": 0}
        return Trace(meta, records, end, side={"state": self.states})


def save(trace: Trace, path: Path, **meta: Any) -> Path:
    """Write ``trace`` into the new directory ``path`` as a recorder would; ``meta`` adds to meta.json."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = TraceWriter.create(str(path), (os.getuid(), os.getgid()))
    writer.write_json("meta.json", {**trace.meta, **meta})
    for kind, records in trace.records.items():
        writer.write_block(kind, records.itemsize, [records.tobytes()], len(records))
    for name, rows in trace.side.items():
        for row in rows:
            writer.append_line(f"{name}.jsonl", row)
    if trace.end is not None:
        writer.write_json("end.json", trace.end)
    writer.close()
    return path


def cgroup(directory: str, limit: int | None, current: int, peak: int, **events: int) -> dict[str, Any]:
    """One level of a snapshot's ``cgroups``."""
    return {"directory": directory, "current": current, "max": limit, "peak": peak, "events": events}


ENOMEM = errno.ENOMEM
EBUSY = errno.EBUSY
OUT_OF_DEVICE_MEMORY = -2
