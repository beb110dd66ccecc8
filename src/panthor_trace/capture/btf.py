# SPDX-License-Identifier: MIT
"""Member offsets from the running kernel's type information (/sys/kernel/btf/vmlinux).

A kernel's BTF has some 150,000 types in one sequence; walking it in Python takes seconds on a small board.
We want a handful of members, so a struct is found by searching the section for its name's offset and
recognised by its kind, its size and the member names it must have (Documentation/bpf/btf.rst).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

VMLINUX = Path("/sys/kernel/btf/vmlinux")

_HEADER = struct.Struct("<HBBIIIII")
_TYPE = struct.Struct("<III")
_MEMBER = struct.Struct("<III")
_MAGIC = 0xEB9F
_KIND_STRUCT = 4


class BtfError(Exception):
    """The kernel's type information is missing or does not have what was asked for."""


@dataclass(frozen=True)
class Btf:
    """The type and string sections of one BTF file."""

    types: bytes
    strings: bytes

    @classmethod
    def parse(cls, raw: bytes) -> Btf:
        """Split a BTF file. Raises BtfError."""
        if len(raw) < _HEADER.size:
            raise BtfError("no BTF header")
        magic, _, _, header, type_off, type_len, str_off, str_len = _HEADER.unpack_from(raw)
        if magic != _MAGIC:
            raise BtfError("not little-endian BTF")
        types, strings = header + type_off, header + str_off
        return cls(raw[types : types + type_len], raw[strings : strings + str_len])

    @classmethod
    def of_kernel(cls) -> Btf:
        """The running kernel's. Raises BtfError."""
        try:
            return cls.parse(VMLINUX.read_bytes())
        except OSError as error:
            raise BtfError(f"{VMLINUX}: {error.strerror}") from None

    def _string_offset(self, name: str) -> int:
        found = self.strings.find(b"\0" + name.encode() + b"\0")
        if found < 0:
            raise BtfError(f"no type information for {name}")
        return found + 1

    def offsets(self, struct_name: str, members: Sequence[str]) -> dict[str, int]:
        """Byte offsets of ``members`` of ``struct struct_name``. Raises BtfError."""
        wanted = {self._string_offset(member): member for member in members}
        needle = struct.pack("<I", self._string_offset(struct_name))
        position = self.types.find(needle)
        while position >= 0:
            if position % 4 == 0:
                found = self._members_at(position, wanted)
                if len(found) == len(members):
                    return found
            position = self.types.find(needle, position + 1)
        raise BtfError(f"struct {struct_name} has no member {' or no member '.join(members)}")

    def _members_at(self, position: int, wanted: Mapping[int, str]) -> dict[str, int]:
        """Offsets of the wanted members if a struct definition starts here, else nothing."""
        if position + _TYPE.size > len(self.types):
            return {}
        _, info, size = _TYPE.unpack_from(self.types, position)
        count, kind, bitfields = info & 0xFFFF, info >> 24 & 0x1F, info >> 31
        end = position + _TYPE.size + count * _MEMBER.size
        if kind != _KIND_STRUCT or not count or end > len(self.types):
            return {}
        found = {}
        for name, _, bits in _MEMBER.iter_unpack(self.types[position + _TYPE.size : end]):
            if name in wanted:
                # With bit-fields in the struct, the offset shares its word with a bit-field's width.
                offset = (bits & 0xFFFFFF if bitfields else bits) // 8
                if offset < size:
                    found[wanted[name]] = offset
        return found


#: What the BPF side needs to get from a descriptor to a device number: macro -> (struct, member).
FILE_OFFSETS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "TASK_FILES": ("task_struct", "files"),
        "FILES_FDT": ("files_struct", "fdt"),
        "FDT_MAX_FDS": ("fdtable", "max_fds"),
        "FDT_FD": ("fdtable", "fd"),
        "FILE_INODE": ("file", "f_inode"),
        "INODE_RDEV": ("inode", "i_rdev"),
    }
)


def file_offsets(btf: Btf) -> dict[str, int]:
    """The offsets ``bpf/ioctl.c`` is compiled with. Raises BtfError."""
    return {
        macro: btf.offsets(struct_name, [member])[member]
        for macro, (struct_name, member) in FILE_OFFSETS.items()
    }
