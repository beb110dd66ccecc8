# SPDX-License-Identifier: MIT
"""Attaches the driver layer, reads its kernel stacks, and counts the returns the kernel missed."""

from __future__ import annotations

import ctypes
import os
import struct
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from ..trace.schema import STACK_TEXT_BYTES, RecordType
from . import driver
from .btf import Btf, BtfError
from .driver_table import FUNCTIONS, Function
from .kallsyms import Kallsyms
from .proc import read_lines

_PROFILE = Path("/sys/kernel/tracing/kprobe_profile")
#: How many calls of one function may be under way before the kernel misses returns. Binds and submits can
#: block; a program with more threads than this inside one function is not in sight.
_MAXACTIVE = 64
_STACK_RECORD = struct.Struct(f"<BBHIIIQQII{STACK_TEXT_BYTES}s")

#: The hook of the ioctl layer on the DRM path; besides the table's.
DRM_IOCTL = "drm_ioctl"
_HOOKS = (Function(DRM_IOCTL, "drm_ioctl.c", "every ioctl of a DRM node"),)


def kernel_symbols(kallsyms: Kallsyms) -> list[driver.Symbol]:
    """The functions we may probe among the kernel's. Their addresses are 0 where it hides them."""
    return driver.symbols(kallsyms.text, (*FUNCTIONS, *_HOOKS))


def why_not_live(symbols: Collection[driver.Symbol]) -> str:
    """Why no function of the driver can be probed on this kernel; empty where that can be tried."""
    if not any(symbol.module == "panthor" for symbol in symbols):
        return "the driver has none of panthor's functions (tyr, or another one)"
    if any(symbol.address == 0 for symbol in symbols):
        return "the kernel hides its addresses: set kernel.kptr_restrict to 1 or 0"
    return ""


def driver_types() -> tuple[dict[str, tuple[str, ...]], driver.Offset]:
    """Parameters and member offsets, as far as this kernel tells: without them less is recorded."""
    sources = []
    parameters: dict[str, tuple[str, ...]] = {}
    try:
        kernel = Btf.of_kernel()
        sources.append(kernel)
        module = Btf.of_module("panthor", kernel)
        sources.insert(0, module)
        parameters = module.parameters(driver.wanted_parameters())
    except BtfError:
        pass

    def offset(struct_name: str, member: str) -> int:
        for types in sources:
            try:
                return types.offsets(struct_name, [member])[member]
            except BtfError:
                continue
        raise BtfError(f"no type information for {struct_name}.{member}")

    return parameters, offset


class DriverLayer:
    """The probes inside the driver. ``bpf`` holds the loaded program."""

    def __init__(self, bpf: Any, kallsyms: Kallsyms, symbols: Collection[driver.Symbol]) -> None:
        self._bpf = bpf
        self._kallsyms = kallsyms
        self._symbols = symbols
        self._stacks: set[int] = set()

    def attach(self) -> tuple[list[str], list[str], str]:
        """Probe what this kernel has; returns the probes, what is missing, and why none is there."""
        why = why_not_live(self._symbols)
        if why:
            return [], [], why
        import numpy  # noqa: F401 - names of stacks take it: loaded now, not while a process is held

        parameters, offset = driver_types()
        probes, missing = driver.choose(self._symbols, parameters, offset)
        table = self._bpf["driver_probes"]
        attached = []
        for probe in probes:
            leaf = table.Leaf.from_buffer_copy(probe.pack())
            table[ctypes.c_uint64(probe.symbol.address)] = leaf
            if self._attach(probe):
                unknown = f" without {', '.join(probe.unknown)}" if probe.unknown else ""
                attached.append(probe.symbol.name + unknown)
            else:
                missing.append(probe.symbol.name)
        return attached, missing, "" if attached else "the kernel refused every probe (CONFIG_KPROBES)"

    def _attach(self, probe: driver.Probe) -> bool:
        """Both probes or none: a call whose return is not seen would stay in flight for ever."""
        name = probe.symbol.name
        try:
            if not probe.entry_only:
                self._bpf.attach_kretprobe(event=name, fn_name="driver_leave", maxactive=_MAXACTIVE)
            if probe.has_entry:
                try:
                    self._bpf.attach_kprobe(event=name, fn_name="driver_enter")
                except Exception:
                    if not probe.entry_only:
                        self._bpf.detach_kretprobe(event=name)
                    raise
        except Exception:  # bcc raises bare Exception: blacklisted, or no such function after all
            return False
        return True

    def new_stacks(self) -> list[bytes]:
        """Records of the kernel stacks not yet returned, by name."""
        table = self._bpf["kernel_stacks"]
        records = []
        for key, frames in table.items():
            number = int(key.value)
            if number not in self._stacks:
                self._stacks.add(number)
                records.append(self._stack_record(number, [ip for ip in frames.ip if ip]))
        return records

    def _stack_record(self, number: int, addresses: Sequence[int]) -> bytes:
        names = [self._kallsyms.name(address) for address in addresses]
        text = "\n".join(names).encode()[: STACK_TEXT_BYTES - 1]
        head = (int(RecordType.KERNEL_STACK), 0, 0, 0, 0, 0, time.monotonic_ns())
        return _STACK_RECORD.pack(*head, number, len(names), 0, text)

    @staticmethod
    def missed_returns() -> dict[str, int]:
        """By function, how many returns our kretprobes missed for want of a free slot."""
        ending = f"_bcc_{os.getpid()}"
        missed: dict[str, int] = {}
        try:
            lines = read_lines(_PROFILE)
        except OSError:
            return missed
        for line in lines:
            name, _, count = line.split()
            if name.startswith("r_") and name.endswith(ending) and int(count):
                missed[name.removeprefix("r_").removesuffix(ending)] = int(count)
        return missed
