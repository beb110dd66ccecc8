# SPDX-License-Identifier: MIT
"""Member offsets and parameter names from the running kernel's type information (/sys/kernel/btf).

A kernel's BTF has some 150,000 types in one sequence; walking it in Python takes seconds on a small board.
We want a handful of members, so a struct is found by searching the section for its name's offset and
recognised by its kind, its size and the member names it must have (Documentation/bpf/btf.rst).

A module's BTF is small and can be walked. Its strings and type ids continue the kernel's ("split BTF").
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

DIRECTORY = Path("/sys/kernel/btf")
VMLINUX = DIRECTORY / "vmlinux"

_HEADER = struct.Struct("<HBBIIIII")
_TYPE = struct.Struct("<III")
_MEMBER = struct.Struct("<III")
_PARAMETER = struct.Struct("<II")
_MAGIC = 0xEB9F
_KIND_STRUCT = 4
_KIND_FUNC = 12
_KIND_FUNC_PROTO = 13
#: Bytes that follow a type by its kind: fixed, and one of ``vlen`` elements each.
_TAIL = {1: 4, 3: 12, 14: 4, 17: 4}
_ELEMENT = {4: 12, 5: 12, 6: 8, 13: 8, 15: 12, 19: 12}
#: How far from a struct's header a member is looked for: struct mm_struct has some 80 members of 12 bytes.
_FAR = 4096


class BtfError(Exception):
    """The kernel's type information is missing or does not have what was asked for."""


@dataclass(frozen=True)
class Btf:
    """The type and string sections of one BTF file; a module's continues that of the kernel, ``base``."""

    types: bytes
    strings: bytes
    base: Btf | None = None

    @classmethod
    def parse(cls, raw: bytes, base: Btf | None = None) -> Btf:
        """Split a BTF file. Raises BtfError."""
        if len(raw) < _HEADER.size:
            raise BtfError("no BTF header")
        magic, _, _, header, type_off, type_len, str_off, str_len = _HEADER.unpack_from(raw)
        if magic != _MAGIC:
            raise BtfError("not little-endian BTF")
        types, strings = header + type_off, header + str_off
        return cls(raw[types : types + type_len], raw[strings : strings + str_len], base)

    @classmethod
    def of_kernel(cls) -> Btf:
        """The running kernel's. Raises BtfError."""
        try:
            return cls.parse(VMLINUX.read_bytes())
        except OSError as error:
            raise BtfError(f"{VMLINUX}: {error.strerror}") from None

    @classmethod
    def of_module(cls, name: str, kernel: Btf) -> Btf:
        """A loaded module's. Raises BtfError."""
        path = DIRECTORY / name
        try:
            return cls.parse(path.read_bytes(), kernel)
        except OSError as error:
            raise BtfError(f"{path}: {error.strerror}") from None

    def _string_offset(self, name: str) -> int:
        found = self.strings.find(b"\0" + name.encode() + b"\0")
        if found >= 0:
            return found + 1 + (len(self.base.strings) if self.base else 0)
        if self.base:
            return self.base._string_offset(name)
        raise BtfError(f"no type information for {name}")

    def _string(self, offset: int) -> str:
        if self.base:
            if offset < len(self.base.strings):
                return self.base._string(offset)
            offset -= len(self.base.strings)
        return self.strings[offset : self.strings.index(b"\0", offset)].decode(errors="replace")

    def _walk(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Every type in order: (kind, name, element count, size or type, where its elements are)."""
        position = 0
        while position + _TYPE.size <= len(self.types):
            name, info, size = _TYPE.unpack_from(self.types, position)
            position += _TYPE.size
            kind, count = info >> 24 & 0x1F, info & 0xFFFF
            yield kind, name, count, size, position
            position += _TAIL.get(kind, 0) + _ELEMENT.get(kind, 0) * count

    def parameters(self, wanted: Mapping[str, Collection[str]]) -> dict[str, tuple[str, ...]]:
        """Parameter names, in order, of the functions of this module among ``wanted``.

        ``wanted`` also says which parameters a function is known to have. A function names its prototype by
        an id that counts on from the kernel's last one, and how many types the kernel has only walking all of
        them would tell (4.6 s in the emulated guest). So that number is found as the one by which most of the
        wanted functions get a prototype with the parameters they must have.
        """
        functions: dict[str, int] = {}
        prototypes: dict[int, tuple[str, ...]] = {}
        for number, (kind, name, count, target, at) in enumerate(self._walk(), start=1):
            if kind == _KIND_FUNC_PROTO:
                end = at + count * _PARAMETER.size
                pairs = _PARAMETER.iter_unpack(self.types[at:end])
                prototypes[number] = tuple(self._string(offset) for offset, _ in pairs)
            elif kind == _KIND_FUNC and (function := self._string(name)) in wanted:
                functions[function] = target
        known = {name: set(wanted[name]) for name in functions if wanted[name]}
        votes = Counter(
            functions[name] - number
            for name, needed in known.items()
            for number, names in prototypes.items()
            if needed <= set(names)
        )
        if not votes:
            return {}
        first, _ = votes.most_common(1)[0]
        found = {name: prototypes.get(target - first) for name, target in functions.items()}
        return {name: names for name, names in found.items() if names is not None}

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

    def unnamed_offsets(self, members: Sequence[str]) -> dict[str, int]:
        """Byte offsets of ``members`` in the one unnamed struct that has them all. Raises BtfError."""
        wanted = {self._string_offset(member): member for member in members}
        needle = struct.pack("<I", self._string_offset(members[0]))
        found = {}
        position = self.types.find(needle)
        while position >= 0:
            # Members stand behind their struct's header; whose header it is, is tried from the nearest on.
            for header in range(position - _TYPE.size, max(position - _FAR, -1), -_MEMBER.size):
                if position % 4 == 0 and self.types[header : header + 4] == b"\0\0\0\0":
                    offsets = self._members_at(header, wanted)
                    if len(offsets) == len(members):
                        found[header] = offsets
            position = self.types.find(needle, position + 1)
        if len(found) != 1:
            raise BtfError(f"{len(found)} unnamed structs have the members {', '.join(members)}")
        return found.popitem()[1]

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
        "INODE_INO": ("inode", "i_ino"),
        "INODE_SB": ("inode", "i_sb"),
        "SB_DEV": ("super_block", "s_dev"),
    }
)


#: What it needs to know a process's last thread, and its exit status.
PROCESS_OFFSETS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "TASK_SIGNAL": ("task_struct", "signal"),
        "TASK_EXIT_CODE": ("task_struct", "exit_code"),
        "SIGNAL_LIVE": ("signal_struct", "live"),
    }
)
#: How far a process is from its limits on mappings. All members of struct mm_struct lie in an unnamed struct
#: at its start (include/linux/mm_types.h, 6.12 and 7.3).
LIMIT_OFFSETS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"TASK_MM": ("task_struct", "mm"), "SIGNAL_RLIM": ("signal_struct", "rlim")}
)
_MM_MEMBERS: Mapping[str, str] = MappingProxyType({"MM_MAP_COUNT": "map_count", "MM_TOTAL_VM": "total_vm"})


#: What it needs to know whether a process can be held without anybody noticing: bpf/hold.c.
HOLD_OFFSETS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "TASK_PTRACE": ("task_struct", "ptrace"),
        "TASK_PENDING": ("task_struct", "pending"),
        "TASK_BLOCKED": ("task_struct", "blocked"),
        "TASK_SIGHAND": ("task_struct", "sighand"),
        "TASK_REAL_PARENT": ("task_struct", "real_parent"),
        "TASK_TGID": ("task_struct", "tgid"),
        "SIGNAL_FLAGS": ("signal_struct", "flags"),
        "SIGNAL_GROUP_STOP_COUNT": ("signal_struct", "group_stop_count"),
        "SIGNAL_SHARED_PENDING": ("signal_struct", "shared_pending"),
        "SIGPENDING_SIGNAL": ("sigpending", "signal"),
        "SIGHAND_ACTION": ("sighand_struct", "action"),
    }
)


def _find(btf: Btf, wanted: Mapping[str, tuple[str, str]]) -> dict[str, int]:
    return {
        macro: btf.offsets(struct_name, [member])[member] for macro, (struct_name, member) in wanted.items()
    }


def file_offsets(btf: Btf) -> dict[str, int]:
    """The offsets ``bpf/ioctl.c`` and ``bpf/mapping.c`` are compiled with. Raises BtfError."""
    return _find(btf, FILE_OFFSETS)


def process_offsets(btf: Btf) -> dict[str, int]:
    """The offsets ``bpf/process.c`` can be compiled with. Raises BtfError."""
    return _find(btf, PROCESS_OFFSETS)


def limit_offsets(btf: Btf) -> dict[str, int]:
    """The offsets that ``bpf/mapping.c`` can be compiled with. Raises BtfError."""
    found = btf.unnamed_offsets([*_MM_MEMBERS.values(), "mmap_lock"])
    mm = {macro: found[member] for macro, member in _MM_MEMBERS.items()}
    return {**_find(btf, LIMIT_OFFSETS), **mm}


def hold_offsets(btf: Btf) -> dict[str, int]:
    """The offsets that ``bpf/hold.c`` can be compiled with. Raises BtfError."""
    return _find(btf, HOLD_OFFSETS)
