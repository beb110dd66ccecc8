# SPDX-License-Identifier: MIT
"""What probing and symbolising need of an ELF file: its build id, its SONAME, its symbols.

Layouts: elf(5). 64-bit little-endian only, which is all we trace.
"""

from __future__ import annotations

import bisect
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC = struct.Struct("<qQ")
_NOTE = struct.Struct("<III")

_PT_LOAD, _PT_DYNAMIC, _PT_NOTE = 1, 2, 4
_SHT_SYMTAB, _SHT_DYNSYM = 2, 11
_DT_STRTAB, _DT_SONAME = 5, 14
_NT_GNU_BUILD_ID = 3
_STT_FUNC, _STT_GNU_IFUNC = 2, 10


class ElfError(Exception):
    """Not a file we can read anything from."""


@dataclass(frozen=True)
class Symbol:
    """A function and how far behind its start something is, in bytes."""

    name: str
    offset: int


class Elf:
    """An ELF file's headers; its symbols are read when first asked for. The file is not kept open."""

    def __init__(self, path: Path) -> None:
        """Raises ElfError."""
        try:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
                self._read(raw)
        except (OSError, ValueError, struct.error, IndexError) as error:
            raise ElfError(f"{path}: {error}") from None
        self._path = path
        self._functions: list[tuple[int, int, str]] | None = None

    def _read(self, raw: mmap.mmap) -> None:
        header = _HEADER.unpack_from(raw)
        if header[0][:6] != b"\x7fELF\x02\x01":
            raise ElfError("not a 64-bit little-endian ELF file")
        segments = [_SEGMENT.unpack_from(raw, header[5] + i * _SEGMENT.size) for i in range(header[10])]
        #: (file offset, virtual address, size in the file) of what is loaded.
        self.loads: list[tuple[int, int, int]] = [
            (seg[2], seg[3], seg[5]) for seg in segments if seg[0] == _PT_LOAD
        ]
        self.build_id = ""
        self.soname = ""
        for kind, _, offset, _, _, size, _, _ in segments:
            if kind == _PT_NOTE and not self.build_id:
                self.build_id = self._find_build_id(raw[offset : offset + size])
            elif kind == _PT_DYNAMIC:
                self.soname = self._find_soname(raw, offset, size)
        self._sections = [_SECTION.unpack_from(raw, header[6] + i * _SECTION.size) for i in range(header[12])]

    @staticmethod
    def _find_build_id(notes: bytes) -> str:
        position = 0
        while position + _NOTE.size <= len(notes):
            name_size, size, kind = _NOTE.unpack_from(notes, position)
            name = position + _NOTE.size
            content = name + (name_size + 3 & ~3)
            if kind == _NT_GNU_BUILD_ID and notes[name : name + 4] == b"GNU\0":
                return notes[content : content + size].hex()
            position = content + (size + 3 & ~3)
        return ""

    def _find_soname(self, raw: mmap.mmap, offset: int, size: int) -> str:
        entries = dict(_DYNAMIC.iter_unpack(raw[offset : offset + size // _DYNAMIC.size * _DYNAMIC.size]))
        if _DT_SONAME not in entries or _DT_STRTAB not in entries:
            return ""
        strings = self.offset_of(entries[_DT_STRTAB])
        if strings is None:
            return ""
        start = strings + entries[_DT_SONAME]
        return raw[start : raw.find(b"\0", start)].decode(errors="replace")

    @property
    def has_symbols(self) -> bool:
        """Whether it names any function. Debug information proper is not looked at."""
        return bool(self._sorted_functions())

    def offset_of(self, address: int) -> int | None:
        """Where in the file what is loaded at a virtual address comes from."""
        for offset, start, size in self.loads:
            if start <= address < start + size:
                return offset + address - start
        return None

    def address_of(self, offset: int) -> int | None:
        """The virtual address (before relocation) of an offset in the file."""
        for start, address, size in self.loads:
            if start <= offset < start + size:
                return address + offset - start
        return None

    def function_at(self, offset: int) -> Symbol | None:
        """The function that an offset in the file lies in."""
        address = self.address_of(offset)
        return None if address is None else self.function_at_address(address)

    def function_at_address(self, address: int) -> Symbol | None:
        """The function at a virtual address (before relocation), as files of debug information have them."""
        functions = self._sorted_functions()
        index = bisect.bisect_right(functions, (address, 1 << 63, "")) - 1
        if index < 0:
            return None
        start, size, name = functions[index]
        # A size of 0 is assembly's way of not saying.
        return Symbol(name, address - start) if address < start + size or size == 0 else None

    def functions(self) -> dict[str, int]:
        """Virtual address (before relocation) of each function by name."""
        return {name: address for address, _, name in self._sorted_functions()}

    def _sorted_functions(self) -> list[tuple[int, int, str]]:
        if self._functions is None:
            try:
                with (
                    self._path.open("rb") as file,
                    mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw,
                ):
                    self._functions = sorted(self._read_functions(raw))
            except (OSError, ValueError, struct.error, IndexError):
                self._functions = []  # gone since: named by its build id only
        return self._functions

    def _read_functions(self, raw: mmap.mmap) -> Iterator[tuple[int, int, str]]:
        for section in self._sections:
            kind, offset, size, link = section[1], section[4], section[5], section[6]
            if kind not in (_SHT_SYMTAB, _SHT_DYNSYM):
                continue
            strings = self._sections[link]
            names = raw[strings[4] : strings[4] + strings[5]]
            whole = size // _SYMBOL.size * _SYMBOL.size
            for name, info, _, where, value, length in _SYMBOL.iter_unpack(raw[offset : offset + whole]):
                if where and info & 0xF in (_STT_FUNC, _STT_GNU_IFUNC):
                    end = names.find(b"\0", name)
                    yield value, length, names[name:end].decode(errors="replace")


def addresses_in(path: Path) -> dict[str, int]:
    """Virtual address (before relocation) of each function a file names; empty where it cannot be read."""
    try:
        return Elf(path).functions()
    except ElfError:
        return {}
