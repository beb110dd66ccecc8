# SPDX-License-Identifier: MIT
"""Which functions of the driver to probe on this kernel, and how: pure, from its symbols and types.

The rows of driver_table.py meet the kernel's symbol list (by presence, compilers' suffixes included) and its
type information (argument registers by parameter name, member offsets); the result is what ``bpf/driver.c``
looks up.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..trace.schema import DRIVER_VALUES
from .btf import BtfError
from .driver_table import FUNCTIONS, Function

#: Modules the functions of the table are in; None is the kernel itself.
MODULES = frozenset({"panthor", "drm", "drm_shmem_helper", "drm_gpuvm", "drm_exec"})
#: What compilers append to the name of a function they changed, or of a part of it.
_SUFFIX = r"(?:\.(?:isra|constprop|part)\.\d+)*"
_PROBE = struct.Struct("<II")
_PATH = struct.Struct("<3i4B")
_HOPS = 3
_BASE_RETURN = 8
_ARGUMENTS = 8

#: ``enum driver_flag``.
ALWAYS, RETURNS_INT, RETURNS_POINTER, ENTRY_ONLY, HAS_ENTRY, MAKES_VM, EVERYBODY = (1 << n for n in range(7))

#: Byte offset of a struct's member; raises BtfError.
Offset = Callable[[str, str], int]


@dataclass(frozen=True)
class Symbol:
    """A kernel function as /proc/kallsyms has it."""

    name: str
    address: int
    module: str | None = None


@dataclass(frozen=True)
class Path:
    """``struct driver_path``."""

    base: int
    offsets: tuple[int, ...] = ()
    size: int = 8

    def pack(self) -> bytes:
        """As the BPF side reads it."""
        offsets = [*self.offsets, *[0] * (_HOPS - len(self.offsets))]
        return _PATH.pack(*offsets, self.base, len(self.offsets), self.size, 1)


@dataclass(frozen=True)
class Probe:
    """One function as it will be probed. ``unknown`` names the values this kernel's types do not lead to."""

    index: int
    function: Function
    symbol: Symbol
    vm: Path | None
    values: tuple[Path | None, ...]
    unknown: tuple[str, ...]

    @property
    def entry_only(self) -> bool:
        """Whether there is an entry probe only."""
        return self.function.returns == "void"

    @property
    def has_entry(self) -> bool:
        """Whether there is an entry probe."""
        function = self.function
        return self.entry_only or bool(function.always or function.makes_vm or function.vm or function.values)

    @property
    def flags(self) -> int:
        """``enum driver_flag``."""
        function = self.function
        return (
            (ALWAYS if function.always else 0)
            | {"int": RETURNS_INT, "pointer": RETURNS_POINTER, "void": ENTRY_ONLY}[function.returns]
            | (HAS_ENTRY if self.has_entry else 0)
            | (MAKES_VM if function.makes_vm else 0)
            | (EVERYBODY if function.everybody else 0)
        )

    def pack(self) -> bytes:
        """``struct driver_probe``."""
        nothing = bytes(_PATH.size)
        paths = [self.vm, *self.values, *[None] * (DRIVER_VALUES - len(self.values))]
        packed = b"".join(path.pack() if path else nothing for path in paths)
        return _PROBE.pack(self.index, self.flags) + packed


def symbols(kallsyms: bytes, functions: Iterable[Function] = FUNCTIONS) -> list[Symbol]:
    """The table's functions among the kernel's symbols, with and without a compiler's suffix.

    /proc/kallsyms lists modules last: only where panthor is no module, all of it is gone through (20 s
    instead of 6 in the emulated guest).
    """
    functions = tuple(functions)
    start = kallsyms.rfind(b"\n", 0, max(kallsyms.find(b"\t["), 0)) + 1
    found = _symbols_in(kallsyms[start:], functions)
    if not any(symbol.module == "panthor" for symbol in found):
        return _symbols_in(kallsyms, functions)
    core = [function for function in functions if function.core]
    for function in core:
        at = kallsyms.find(b" " + function.name.encode(), 0, start)
        if at >= 0:
            line = kallsyms[kallsyms.rfind(b"\n", 0, at) + 1 : kallsyms.find(b"\n", at)]
            found += _symbols_in(line, (function,))
    return found


def _symbols_in(kallsyms: bytes, functions: Iterable[Function]) -> list[Symbol]:
    names = "|".join(re.escape(function.name) for function in functions)
    name = rf"(?:{names}){_SUFFIX}"
    line = re.compile(rf"^([0-9a-f]+) [tTwW] ({name})(?:\t\[(\w+)\])?$".encode(), re.M)
    found = []
    for match in line.finditer(kallsyms):
        address, symbol, module = match.groups()
        where = module.decode() if module else None
        if where is None or where in MODULES:
            found.append(Symbol(symbol.decode(), int(address, 16), where))
    return found


def _best(function: Function, found: Iterable[Symbol]) -> Symbol | None:
    """The symbol itself, else one whose signature was changed, else a part of it."""

    def rank(symbol: Symbol) -> tuple[bool, bool]:
        return symbol.name != function.name, ".part." in symbol.name

    return min(
        (s for s in found if re.sub(f"{_SUFFIX}$", "", s.name) == function.name), key=rank, default=None
    )


def _path(place: str, size: int, parameters: Mapping[str, int], offset: Offset) -> Path | None:
    """Where ``place`` (see driver_table.py) is on this kernel, or None."""
    base, *hops = (part.strip() for part in place.split("->"))
    if base == "return":
        register = _BASE_RETURN
    elif base in parameters:
        register = parameters[base]
    else:
        return None
    offsets = []
    for hop in hops:
        total = 0
        for sign, term in re.findall(r"([+-]?)\s*([\w.]+)", hop):
            struct_name, _, member = term.partition(".")
            try:
                bytes_ = offset(struct_name, member) if member else int(term)
            except BtfError:
                return None
            total += -bytes_ if sign == "-" else bytes_
        offsets.append(total)
    return Path(register, tuple(offsets), size)


def _first_path(
    places: Iterable[str], size: int, parameters: Mapping[str, int], offset: Offset
) -> Path | None:
    paths = (_path(place, size, parameters, offset) for place in places)
    return next((path for path in paths if path), None)


def wanted_parameters(functions: Iterable[Function] = FUNCTIONS) -> dict[str, frozenset[str]]:
    """By function, the parameters it must have (those without an alternative)."""
    return {
        function.name: frozenset(
            value.places[0].split("->")[0].strip()
            for value in function.values
            if len(value.places) == 1 and not value.places[0].startswith(("return", "arg"))
        )
        or frozenset()
        for function in functions
    }


def choose(
    found: Collection[Symbol],
    parameters: Mapping[str, tuple[str, ...]],
    offset: Offset,
    functions: Iterable[Function] = FUNCTIONS,
) -> tuple[list[Probe], list[str]]:
    """The probes this kernel can have, and the functions it does not have.

    A function whose signature the compiler changed (``.isra``, ``.constprop``) or of which this is a part has
    no argument where its prototype says; only what it returns is recorded.
    """
    probes, missing = [], []
    for index, function in enumerate(functions):
        symbol = _best(function, found)
        if symbol is None:
            missing.append(function.name)
            continue
        registers: dict[str, int] = {}
        if symbol.name == function.name:
            names = parameters.get(function.name, ())[:_ARGUMENTS]
            registers = {f"arg{number}": number for number in range(_ARGUMENTS)}
            registers |= {name: number for number, name in enumerate(names)}
        values = tuple(_first_path(v.places, v.size, registers, offset) for v in function.values)
        unknown = tuple(v.name for v, path in zip(function.values, values, strict=True) if path is None)
        vm = _first_path(function.vm, 8, registers, offset)
        probes.append(Probe(index, function, symbol, vm, values, unknown))
    return probes, missing


def as_json(functions: Iterable[Function] = FUNCTIONS) -> list[dict[str, Any]]:
    """The table for meta.json: what a record's ``function`` and ``values`` stand for."""
    return [
        {
            "name": function.name,
            "file": function.file,
            "returns": function.returns,
            "values": [value.name for value in function.values],
        }
        for function in functions
    ]
