# SPDX-License-Identifier: MIT
"""Loads one compiled program many times, each time with another number in it.

A uprobe's program is not told which function it was put on (BPF cookies would tell it, but bcc has none), and
to compile a program for each function took a quarter of a start: 0.4 s a function on the emulated board. So a
program has a placeholder where it needs its number.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from ..errors import EXIT_KERNEL, TraceError

#: Stands in the compiled program for the number; an immediate no program has otherwise.
PLACE = 0x7AB1E5ED
#: struct bpf_insn of ``register = PLACE`` (BPF_ALU64 | BPF_MOV | BPF_K); the register may be any.
_MOVE = struct.Struct("<BBhi")
_OPCODE = 0xB7


class Numbered:
    """The program ``function`` of the loaded ``bpf``."""

    def __init__(self, bcc: Any, bpf: Any, function: str) -> None:
        self._bcc = bcc
        self._bpf = bpf
        self._function = function
        code = bpf.dump_func(function.encode())
        places = [
            index
            for index, (opcode, _, _, immediate) in enumerate(_MOVE.iter_unpack(code))
            if opcode == _OPCODE and immediate == PLACE
        ]
        if len(places) != 1:
            raise TraceError(f"the program {function} has {len(places)} places for its number", EXIT_KERNEL)
        start = bcc.lib.bpf_function_start(bpf.module, function.encode())
        address = ctypes.cast(start, ctypes.c_void_p).value
        assert address is not None
        self._immediate = ctypes.c_int32.from_address(address + places[0] * _MOVE.size + 4)

    def load(self, number: int) -> str:
        """Load it for ``number``; returns the name to attach it by. Raises what bcc raises: Exception."""
        name = f"{self._function}_{number}"
        functions = self._bpf.funcs
        if name.encode() not in functions:
            self._immediate.value = number
            try:
                program = self._bpf.load_func(self._function.encode(), self._bcc.BPF.KPROBE)
            finally:
                self._immediate.value = PLACE
            # bcc keeps one program a function: give this one a name of its own.
            del functions[self._function.encode()]
            functions[name.encode()] = program
        return name
