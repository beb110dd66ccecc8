# SPDX-License-Identifier: MIT
"""Compiles, loads and attaches the BPF programs, and says of each layer whether it is live."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib
import os
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import EXIT_KERNEL, EXIT_NO_BCC, TraceError
from ..trace.schema import ARGUMENT_BYTES, COUNTER_COUNT, Counter, Flag, RecordType
from . import source
from .btf import Btf, BtfError, file_offsets, hold_offsets, limit_offsets, process_offsets
from .driver_layer import DRM_IOCTL, DriverLayer, kernel_symbols
from .hold import HoldMaps
from .kallsyms import Kallsyms
from .layers import Layer
from .nodes import Node
from .quiet import captured_stderr
from .tracefs import (
    IOCTL_EVENTS,
    MAPPING_EVENTS,
    MESSAGE_EVENT,
    OOM_EVENT,
    PROCESS_EVENTS,
    WAIT_EVENTS,
    ensure_tracefs,
    has_event,
)
from .uprobes import LibraryProbes

#: Stands for the threads of a process that was running already; never counted down to none.
_UNCOUNTED_THREADS = 1 << 30

#: The hook on the DRM path, and how many threads may be inside it before the kernel misses a return: waits
#: for sync objects block there.
_DRM_MAXACTIVE = 1024

#: No debug information: nothing reads the programs' own types, and making it is a tenth of the compilation.
_CFLAGS = ["-Wno-unused-value", "-g0"]

_VULKAN_RECORD = struct.Struct("<BBHIIIQQiI7Q64s")
_IOCTL_RECORD = struct.Struct("<BBHIIIQQqQIIII64s64sQ")


@contextlib.contextmanager
def stopwatch(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Record under ``name`` how long the block took."""
    start = time.monotonic()
    try:
        yield
    finally:
        seconds[name] = round(time.monotonic() - start, 3)


def import_bcc() -> Any:
    """The distribution's bcc module. Raises TraceError where it is missing."""
    os.environ["BCC_KERNEL_SOURCE"] = str(source.bpf_directory())
    try:
        bcc = importlib.import_module("bcc")
    except (ImportError, OSError):
        raise TraceError(
            "the bcc Python module is missing: install python3-bpfcc (Debian, Ubuntu, Armbian) and run "
            "panthor-trace with the system's python3 (PyPI's 'bcc' is another project)",
            EXIT_NO_BCC,
        ) from None
    if not hasattr(bcc, "BPF"):
        raise TraceError(
            "the module 'bcc' found is not BPF's: remove PyPI's 'bcc', install python3-bpfcc", EXIT_NO_BCC
        )
    return bcc


class Program:
    """The loaded program. Closing it, or the end of the process however it comes, detaches every probe."""

    def __init__(
        self, nodes: Sequence[Node], ioctl_hook: str = "auto", ring_units: int = source.DEFAULT_RING_UNITS
    ) -> None:
        self._ring_units = ring_units
        self.seconds: dict[str, float] = {}
        #: What holding processes at their failures takes; None where that is not possible.
        self.hold_maps: HoldMaps | None = None
        self.layers = {
            name: Layer() for name in ("process", "ioctl", "mmap", "driver", "vulkan", "exception")
        }
        ensure_tracefs()
        with stopwatch(self.seconds, "import"):
            self._bcc = import_bcc()
        with stopwatch(self.seconds, "symbols"):
            kallsyms = Kallsyms.of_kernel() if nodes else Kallsyms(b"")
            symbols = kernel_symbols(kallsyms)
        drm_path = ioctl_hook != "syscall" and any(symbol.name == DRM_IOCTL for symbol in symbols)
        #: Where ioctls are caught: "drm" (drm_ioctl) or "syscall" (its tracepoints).
        self.ioctl_hook = "drm" if drm_path else "syscall"
        if drm_path and not self._load(nodes):
            if ioctl_hook == "drm":
                raise TraceError(
                    f"this kernel cannot probe {DRM_IOCTL}: try --ioctl-hook syscall", EXIT_KERNEL
                )
            self.ioctl_hook = "syscall"
        if self.ioctl_hook == "syscall":
            self._load(nodes)
        self._fill_vulkan()
        self.libraries = LibraryProbes(self._bcc, self._bpf, self.layers)
        self.driver = DriverLayer(self._bpf, kallsyms, symbols)
        self._attach_driver(nodes)
        process = self.layers["process"]
        process.live = True
        for event in (*PROCESS_EVENTS, OOM_EVENT):
            (process.probes if has_event(event) else process.missing).append(f"tracepoint:{event}")

    def _load(self, nodes: Sequence[Node]) -> bool:
        """Compile, load, fill the maps; False where the hook on the DRM path cannot be attached."""
        offsets = self._ioctl_offsets()
        process = self._process_offsets()
        hold = self._hold_offsets(process)
        with stopwatch(self.seconds, "compile"), captured_stderr() as said:
            try:
                text = source.program_source(
                    offsets,
                    process=process,
                    oom=has_event(OOM_EVENT),
                    mapping=self.layers["mmap"].live,
                    drm=self.ioctl_hook == "drm",
                    message=has_event(MESSAGE_EVENT),
                    hold=hold,
                    waits=all(has_event(event) for event in WAIT_EVENTS),
                    ring_units=self._ring_units,
                )
                self._bpf = self._bcc.BPF(text=text, cflags=_CFLAGS)
            except Exception as error:
                raise TraceError(self._refusal(error, said()), EXIT_KERNEL, said()) from None
        if hold:
            names = ("held", "hold_by", "hold_wakeups")
            self.hold_maps = HoldMaps.of([self._bpf[name].map_fd for name in names])
        if self.layers["mmap"].live:
            for event in MAPPING_EVENTS[1::2]:
                self._bpf.attach_tracepoint(tp=event.replace("/", ":"), fn_name="mapping_leave")
        self._fill(nodes)
        if self.ioctl_hook != "drm" or not self.layers["ioctl"].live:
            return True
        with captured_stderr():
            try:
                self._bpf.attach_kretprobe(
                    event=DRM_IOCTL, fn_name="drm_ioctl_leave", maxactive=_DRM_MAXACTIVE
                )
                self._bpf.attach_kprobe(event=DRM_IOCTL, fn_name="drm_ioctl_enter")
            except Exception:  # bcc raises bare Exception: no kprobes, or blacklisted
                self._bpf.cleanup()
                return False
        return True

    def _attach_driver(self, nodes: Sequence[Node]) -> None:
        layer = self.layers["driver"]
        if not nodes:
            layer.why = "no panthor device on this machine"
        elif not self.layers["ioctl"].live:
            layer.why = "it needs the ioctl layer"
        else:
            with stopwatch(self.seconds, "attach_driver"), captured_stderr():
                layer.probes, layer.missing, layer.why = self.driver.attach()
            layer.live = bool(layer.probes)
            event = f"tracepoint:{MESSAGE_EVENT}"
            (layer.probes if has_event(MESSAGE_EVENT) else layer.missing).append(event)

    def _ioctl_offsets(self) -> dict[str, int] | None:
        layer = self.layers["ioctl"]
        self.layers["mmap"].why = "it needs what the ioctl layer needs"
        absent = [event for event in IOCTL_EVENTS if not has_event(event)]
        if self.ioctl_hook == "syscall" and absent:
            layer.why = "the kernel has no system-call tracepoints (CONFIG_FTRACE_SYSCALLS)"
            layer.missing = [f"tracepoint:{event}" for event in absent]
            return None
        try:
            offsets = file_offsets(Btf.of_kernel())
        except BtfError as error:
            layer.why = f"a descriptor's device cannot be told: {error}"
            return None
        layer.live = True
        layer.probes = (
            [f"kprobe:{DRM_IOCTL}", f"kretprobe:{DRM_IOCTL}"]
            if self.ioctl_hook == "drm"
            else [f"tracepoint:{event}" for event in IOCTL_EVENTS]
        )
        mapping = self.layers["mmap"]
        mapping.live = all(has_event(event) for event in MAPPING_EVENTS)
        names = [f"tracepoint:{event}" for event in MAPPING_EVENTS]
        mapping.probes, mapping.missing = (names, []) if mapping.live else ([], names)
        mapping.why = "" if mapping.live else "the kernel has no tracepoints of mmap, munmap and openat"
        return offsets

    @staticmethod
    def _process_offsets() -> dict[str, int]:
        """What can be had; without it, bpf/process.c counts threads itself and knows no exit status."""
        found: dict[str, int] = {}
        for offsets in (process_offsets, limit_offsets):
            with contextlib.suppress(BtfError):
                found |= offsets(Btf.of_kernel())
        return found if "TASK_SIGNAL" in found else {}

    @staticmethod
    def _hold_offsets(process: Mapping[str, int]) -> dict[str, int]:
        """Empty where it cannot be told whether a process can be held without anybody noticing."""
        if "TASK_SIGNAL" in process:
            with contextlib.suppress(BtfError):
                return hold_offsets(Btf.of_kernel())
        return {}

    @staticmethod
    def _refusal(error: Exception, said: str) -> str:
        lines = [line.strip() for line in said.splitlines() if "error" in line.lower()]
        if os.strerror(errno.EMFILE) in said or os.strerror(errno.EMFILE) in str(error):
            return "too many open files: its probes need some hundred; raise the limit (ulimit -n 4096)"
        detail = lines[0] if lines else (str(error).splitlines() or [type(error).__name__])[0]
        return (
            f"the BPF programs cannot be loaded on this kernel: {detail} (it needs CONFIG_BPF_SYSCALL, "
            "CONFIG_BPF_EVENTS and no lockdown; PANTHOR_TRACE_DEBUG=1 shows more)"
        )

    def _fill(self, nodes: Sequence[Node]) -> None:
        if not self.layers["ioctl"].live:
            return
        table = self._bpf["nodes"]
        for node in nodes:
            table[ctypes.c_uint32(node.rdev)] = ctypes.c_uint32(1)
        pointees = self._bpf["pointees"]
        for number, place in source.pointee_table().items():
            pointees[ctypes.c_int(number)] = ctypes.c_uint32(place)
        ordinary = self._bpf["ordinary"]
        for number, bits in source.ordinary_table().items():
            ordinary[ctypes.c_int(number)] = ctypes.c_uint64(bits)

    def _fill_vulkan(self) -> None:
        table = self._bpf["vulkan_functions"]
        for number, row in enumerate(source.vulkan_table()):
            table[ctypes.c_int(number)] = table.Leaf(*row)

    def attach_libraries(self, root: Path, environment: Mapping[str, str]) -> None:
        """Put the user-space probes on the libraries a command in ``root`` would load."""
        with stopwatch(self.seconds, "attach"):
            self.libraries.attach_expected(root, environment)

    def follow(self, pid: int) -> None:
        """Trace the single-threaded process ``pid`` and everything it will start."""
        self._bpf["traced"][ctypes.c_uint32(pid)] = ctypes.c_uint32(1)

    def attach_process(self, pid: int) -> None:
        """Trace the running process ``pid``, all its threads, and everything it will start.

        Its threads come and go while we look, so they are not counted: it ends when the kernel says so.
        """
        self._bpf["traced"][ctypes.c_uint32(pid)] = ctypes.c_uint32(_UNCOUNTED_THREADS)

    def open_ring(self, on_record: Callable[[Any, Any, int], int]) -> None:
        """Have :meth:`drain` call ``on_record(context, address, size)``, which must return 0."""
        self._bpf["events"].open_ring_buffer(on_record)

    def drain(self) -> None:
        """Take everything out of the ring."""
        self._bpf.ring_buffer_consume()

    def kernel_stacks(self) -> list[bytes]:
        """Records of the kernel stacks that are new since the last call."""
        return self.driver.new_stacks() if self.layers["driver"].live else []

    def counters(self) -> list[int]:
        """The counters of what could not be recorded, summed over the CPUs."""
        table = self._bpf["counters"]
        values = [0] * COUNTER_COUNT
        for counter in Counter:
            values[counter] = int(table.sum(ctypes.c_int(counter)).value)
        for function, missed in self.driver.missed_returns().items():
            which = Counter.MISSED_IOCTL if function == DRM_IOCTL else Counter.MISSED_RETURN
            values[which] += missed
        return values

    def unfinished(self) -> dict[RecordType, list[bytes]]:
        """Records of the calls that never returned: blocked, or their thread died inside them."""
        now = time.monotonic_ns()
        flag = int(Flag.UNFINISHED)
        found: dict[RecordType, list[bytes]] = {RecordType.VULKAN: [], RecordType.IOCTL: []}
        vulkan = [(key.tid, outer.tgid, outer.call) for key, outer in self._bpf["vulkan_outer"].items()]
        for key, thread in self._bpf["threads"].items():
            if thread.vulkan.enter_ns:
                vulkan.append((key.value, thread.tgid, thread.vulkan))
            call = thread.ioctl
            if call.enter_ns:
                head = (int(RecordType.IOCTL), flag | call.flags, 0, thread.tgid, key.value, 0, call.enter_ns)
                tail = (call.arg, call.cmd, call.fd, call.rdev, call.array_bytes)
                found[RecordType.IOCTL].append(
                    _IOCTL_RECORD.pack(
                        *head, now, 0, *tail, bytes(call.before), bytes(ARGUMENT_BYTES), call.file
                    )
                )
        for tid, tgid, call in vulkan:
            head = (int(RecordType.VULKAN), flag | call.flags, 0, tgid, tid, 0, call.enter_ns)
            pointee = bytes(call.pointee[: call.pointee_bytes])  # the record's field is padded with zeros
            found[RecordType.VULKAN].append(
                _VULKAN_RECORD.pack(*head, now, 0, call.function, *call.args, pointee)
            )
        return {kind: records for kind, records in found.items() if records}

    def close(self) -> None:
        """Detach every probe."""
        with captured_stderr():
            self._bpf.cleanup()
