# SPDX-License-Identifier: MIT
"""Names the frames of recorded stacks as soon as they arrive, while their process may still live.

The frames themselves are in events.bin with build ids, so that what cannot be named here can be elsewhere.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping
from typing import Any

from ..trace.schema import BUILD_ID_BYTES, FrameStatus
from .modules import Module, Modules

_HEAD = struct.Struct("<BBHIIIQII")
_FRAME = struct.Struct(f"<i{BUILD_ID_BYTES}sQ")


def _demangler() -> Callable[[str], str]:
    """C++ names as written, where a C++ runtime is at hand (bcc brings one); else as they are."""
    try:
        runtime = ctypes.CDLL("libstdc++.so.6")
        demangle, free = runtime.__cxa_demangle, ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return lambda name: name
    demangle.restype = ctypes.c_void_p
    free.argtypes = [ctypes.c_void_p]

    def readable(name: str) -> str:
        if not name.startswith("_Z"):
            return name
        status = ctypes.c_int()
        text = demangle(name.encode(), None, None, ctypes.byref(status))
        if not text:
            return name
        try:
            return ctypes.string_at(text).decode(errors="replace")
        finally:
            free(text)

    return readable


class Stacks:
    """Writes each distinct frame's module and function to ``symbols.jsonl``."""

    def __init__(self, modules: Modules, append: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._modules = modules
        self._append = append
        self._known: set[tuple[object, ...]] = set()
        self._readable = _demangler()

    def take(self, record: bytes, now_ns: int) -> None:
        """Name the frames of a stack_record."""
        _, _, _, pid, _, _, _, _, frames = _HEAD.unpack_from(record)
        for depth in range(frames):
            status, build_id, offset = _FRAME.unpack_from(record, _HEAD.size + depth * _FRAME.size)
            owner = build_id if status == FrameStatus.BUILD_ID else pid
            key = (owner, offset, depth > 0)
            if status == FrameStatus.EMPTY or key in self._known:
                continue
            self._known.add(key)
            self._name(pid, status, build_id.hex(), offset, depth > 0, now_ns)

    def _name(self, pid: int, status: int, build_id: str, offset: int, caller: bool, now_ns: int) -> None:
        row: dict[str, Any] = {"caller": caller}
        module: Module | None
        if status == FrameStatus.BUILD_ID:
            row |= {"build_id": build_id, "offset": offset}
            module, place = self._modules.by_build_id.get(build_id), offset
        else:
            row |= {"pid": pid, "address": offset}
            found = self._modules.at(pid, offset)
            if found is None:
                self._modules.read(pid, now_ns)
                found = self._modules.at(pid, offset)
            module, place = found if found else (None, 0)
            if module:
                row |= {"build_id": module.build_id, "offset": place}
        if module is not None:
            row["module"] = module.path
            # A caller's address is that of the next instruction, which may be another function's first.
            symbol = module.function_at(place - caller)
            if symbol:
                row |= {"symbol": self._readable(symbol.name), "symbol_offset": symbol.offset + caller}
        self._append("symbols.jsonl", row)
