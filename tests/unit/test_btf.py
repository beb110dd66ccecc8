# SPDX-License-Identifier: MIT
"""Member offsets out of BTF, from a file built here and from the running kernel's."""

from __future__ import annotations

import struct

import pytest

from panthor_trace.capture.btf import (
    FILE_OFFSETS,
    PROCESS_OFFSETS,
    VMLINUX,
    Btf,
    BtfError,
    file_offsets,
    process_offsets,
)


class BtfFile:
    """Writes the parts of a BTF file the reader looks at."""

    def __init__(self) -> None:
        self.strings = b"\0"
        self.types = b""

    def string(self, text: str) -> int:
        offset = len(self.strings)
        self.strings += text.encode() + b"\0"
        return offset

    def integer(self, name: int, value: int) -> None:
        """An INT type; ``value`` can be made to look like a name."""
        self.types += struct.pack("<IIII", name, 1 << 24, 4, value)

    def struct(
        self, name: int, size: int, members: list[tuple[int, int]], *, bitfields: bool = False
    ) -> None:
        self.types += struct.pack("<III", name, bitfields << 31 | 4 << 24 | len(members), size)
        for member, bits in members:
            self.types += struct.pack("<III", member, 1, bits)

    def bytes(self) -> bytes:
        head = struct.pack(
            "<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(self.types), len(self.types), len(self.strings)
        )
        return head + self.types + self.strings


def test_offset_is_found_among_things_that_look_alike() -> None:
    file = BtfFile()
    inode, rdev, other = file.string("inode"), file.string("i_rdev"), file.string("i_ino")
    file.integer(other, inode)  # the name's offset as a value, not as a name
    file.struct(other, 8, [(inode, 0)])  # a member of that name
    file.struct(inode, 0, [])  # a declaration without members
    file.struct(inode, 64, [(other, 0), (rdev, 32 * 8)])
    btf = Btf.parse(file.bytes())
    assert btf.offsets("inode", ["i_rdev"]) == {"i_rdev": 32}
    assert btf.offsets("inode", ["i_ino", "i_rdev"]) == {"i_ino": 0, "i_rdev": 32}


def test_bit_field_struct_keeps_width_apart_from_offset() -> None:
    file = BtfFile()
    name, member = file.string("s"), file.string("m")
    file.struct(name, 16, [(member, 3 << 24 | 8 * 8)], bitfields=True)
    assert Btf.parse(file.bytes()).offsets("s", ["m"]) == {"m": 8}


@pytest.mark.parametrize(("struct_name", "member"), [("s", "gone"), ("gone", "m"), ("t", "m")])
def test_what_is_not_there_is_an_error(struct_name: str, member: str) -> None:
    file = BtfFile()
    name, other, known = file.string("s"), file.string("t"), file.string("m")
    file.struct(name, 8, [(known, 0)])
    file.struct(other, 8, [(name, 0)])
    with pytest.raises(BtfError):
        Btf.parse(file.bytes()).offsets(struct_name, [member])


@pytest.mark.parametrize("raw", [b"", b"\0" * 24, b"\xeb\x9f" + b"\0" * 40])
def test_what_is_no_btf_is_an_error(raw: bytes) -> None:
    with pytest.raises(BtfError):
        Btf.parse(raw)


@pytest.mark.skipif(not VMLINUX.exists(), reason="this kernel has no BTF")
def test_running_kernel_has_them_all() -> None:
    offsets = file_offsets(Btf.of_kernel())
    assert set(offsets) == set(FILE_OFFSETS)
    assert offsets["FDT_MAX_FDS"] == 0  # struct fdtable begins with it (include/linux/fdtable.h)
    assert offsets["FDT_FD"] == 8
    assert all(0 <= offset < 1 << 14 for offset in offsets.values())
    process = process_offsets(Btf.of_kernel())
    assert set(process) == set(PROCESS_OFFSETS)
    assert process["TASK_SIGNAL"] != process["TASK_EXIT_CODE"]
