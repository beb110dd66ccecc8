# SPDX-License-Identifier: MIT
"""The firmware image panthor loads for the stub GPU: no code, only the interface it finds afterwards.

panthor copies the image's sections into the MCU's address space and then looks, in the shared one, for
*control* blocks that say how many groups and streams there are and where each one's *input* and *output*
blocks lie (``panthor_fw.c``: ``panthor_fw_load``, ``panthor_fw_init_ifaces``; ``panthor_fw.h`` for the
structures; the same from Linux 6.12 to 7.3). On hardware the firmware fills the control blocks when it
boots; here they are in the image. The stub GPU answers through the input and output blocks.

:class:`Layout` is the one definition of where things lie. :func:`c_header` writes it for the kernel module
(``python3 -m board.firmware --header``); a unit test checks that the committed header is that.
"""

from __future__ import annotations

import argparse
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

PAGE = 4096

#: Where panthor expects the shared section in the MCU's address space (CSF_MCU_SHARED_REGION_START).
SHARED_VA = 0x0400_0000
#: Fixed by panthor_fw.c: the first group's control block, and the first stream's inside a group's.
GROUP_CONTROL_OFFSET = 0x1000
STREAM_CONTROL_OFFSET = 0x40

MAGIC = 0xC3F1_3A6E
HEADER = struct.Struct("<IBBHIII")  # magic, minor, major, padding, version hash, padding, header size
ENTRY = struct.Struct("<I")  # type | size << 8
SECTION = struct.Struct("<5I")  # flags, va start and end, data start and end
ENTRY_TYPE_IFACE = 0

SECTION_RD = 1 << 0
SECTION_WR = 1 << 1
SECTION_UNCACHED_COHERENT = 2 << 3
SECTION_SHARED = 1 << 30
SECTION_ZERO = 1 << 31


@dataclass(frozen=True)
class Layout:
    """The shared section, in bytes from its start. Every input and output block stays inside one page.

    Groups and streams are counted as on an RK3588. Blocks of a group take two pages (one for input, one
    for output), the group's own block first, its streams' after it.
    """

    groups: int = 8
    streams: int = 8
    registers: int = 96
    scoreboards: int = 8
    group_stride: int = 0x400
    stream_stride: int = 0x40
    global_input: int = 0x8000
    global_output: int = 0x9000
    first_group_input: int = 0x1_0000
    stream_block: int = 0x100
    suspend_size: int = 2 * PAGE
    size: int = 0x4_0000

    def group_input(self, group: int) -> int:
        return self.first_group_input + group * 2 * PAGE

    def group_output(self, group: int) -> int:
        return self.group_input(group) + PAGE

    def stream_input(self, group: int, stream: int) -> int:
        return self.group_input(group) + self.stream_block * (stream + 1)

    def stream_output(self, group: int, stream: int) -> int:
        return self.group_output(group) + self.stream_block * (stream + 1)


def layout_for(directory: str) -> Layout:
    """The layout for ``arm/mali/<directory>`` (``arch12.8``): streams have more registers from 12 on."""
    architecture = int(directory.removeprefix("arch").split(".")[0])
    return Layout(registers=128 if architecture >= 12 else 96)


def interface_version(major: int, minor: int, patch: int) -> int:
    """CSF_IFACE_VERSION."""
    return major << 24 | minor << 16 | patch


@dataclass(frozen=True)
class GlobalControl:
    """struct panthor_fw_global_control_iface."""

    version: int
    input_va: int
    output_va: int
    group_num: int
    group_stride: int
    features: int = 0
    perfcnt_size: int = 0
    instr_features: int = 0

    def pack(self) -> bytes:
        return struct.pack(
            "<8I",
            self.version,
            self.features,
            self.input_va,
            self.output_va,
            self.group_num,
            self.group_stride,
            self.perfcnt_size,
            self.instr_features,
        )


@dataclass(frozen=True)
class GroupControl:
    """struct panthor_fw_csg_control_iface. panthor wants the same values in every group."""

    input_va: int
    output_va: int
    suspend_size: int
    stream_num: int
    stream_stride: int
    features: int = 0

    def pack(self) -> bytes:
        protected_suspend_size = self.suspend_size
        return struct.pack(
            "<7I",
            self.features,
            self.input_va,
            self.output_va,
            self.suspend_size,
            protected_suspend_size,
            self.stream_num,
            self.stream_stride,
        )


@dataclass(frozen=True)
class StreamControl:
    """struct panthor_fw_cs_control_iface: registers, scoreboards; compute, fragment and tiler allowed."""

    registers: int
    scoreboards: int
    input_va: int
    output_va: int

    def pack(self) -> bytes:
        compute_fragment_tiler = 7 << 16
        features = (self.registers - 1) | self.scoreboards << 8 | compute_fragment_tiler
        return struct.pack("<3I", features, self.input_va, self.output_va)


def control_blocks(layout: Layout) -> bytes:
    """The initial contents of the shared section: everything panthor reads at boot, zeros between."""
    blocks = bytearray(GROUP_CONTROL_OFFSET + layout.groups * layout.group_stride)

    def put(offset: int, block: bytes) -> None:
        blocks[offset : offset + len(block)] = block

    put(
        0,
        GlobalControl(
            version=interface_version(1, 1, 0),
            input_va=SHARED_VA + layout.global_input,
            output_va=SHARED_VA + layout.global_output,
            group_num=layout.groups,
            group_stride=layout.group_stride,
        ).pack(),
    )
    for group in range(layout.groups):
        at = GROUP_CONTROL_OFFSET + group * layout.group_stride
        put(
            at,
            GroupControl(
                input_va=SHARED_VA + layout.group_input(group),
                output_va=SHARED_VA + layout.group_output(group),
                suspend_size=layout.suspend_size,
                stream_num=layout.streams,
                stream_stride=layout.stream_stride,
            ).pack(),
        )
        for stream in range(layout.streams):
            put(
                at + STREAM_CONTROL_OFFSET + stream * layout.stream_stride,
                StreamControl(
                    registers=layout.registers,
                    scoreboards=layout.scoreboards,
                    input_va=SHARED_VA + layout.stream_input(group, stream),
                    output_va=SHARED_VA + layout.stream_output(group, stream),
                ).pack(),
            )
    return bytes(blocks)


def image(layout: Layout | None = None) -> bytes:
    """A complete ``mali_csffw.bin``: header, one shared section's entry, that section's data."""
    layout = layout or Layout()
    data = control_blocks(layout)
    entry_size = ENTRY.size + SECTION.size
    header_size = HEADER.size + entry_size
    flags = SECTION_RD | SECTION_WR | SECTION_UNCACHED_COHERENT | SECTION_SHARED | SECTION_ZERO
    header = HEADER.pack(MAGIC, 1, 0, 0, 0, 0, header_size)
    entry = ENTRY.pack(ENTRY_TYPE_IFACE | entry_size << 8)
    section = SECTION.pack(flags, SHARED_VA, SHARED_VA + layout.size, header_size, header_size + len(data))
    return header + entry + section + data


def c_header(layout: Layout | None = None) -> str:
    """The layout as ``stub_gpu/fw_layout.h``."""
    layout = layout or Layout()
    first_in, first_out = layout.group_input(0), layout.group_output(0)
    stride = layout.group_input(1) - first_in
    block = layout.stream_block
    return f"""\
/* SPDX-License-Identifier: GPL-2.0-only */
/* Generated from board/firmware.py (python3 -m board.firmware --header); change that one. */
#ifndef STUB_GPU_FW_LAYOUT_H
#define STUB_GPU_FW_LAYOUT_H

/* clang-format off */

#define FW_SHARED_VA\t\t{SHARED_VA:#x}
#define FW_SHARED_SIZE\t\t{layout.size:#x}
#define FW_CSG_COUNT\t\t{layout.groups}
#define FW_CS_COUNT\t\t{layout.streams}
#define FW_SUSPEND_SIZE\t\t{layout.suspend_size:#x}
#define FW_GLB_INPUT\t\t{layout.global_input:#x}
#define FW_GLB_OUTPUT\t\t{layout.global_output:#x}
#define FW_CSG_INPUT(g)\t\t({first_in:#x} + (g) * {stride:#x})
#define FW_CSG_OUTPUT(g)\t({first_out:#x} + (g) * {stride:#x})
#define FW_CS_INPUT(g, q)\t(FW_CSG_INPUT(g) + ((q) + 1) * {block:#x})
#define FW_CS_OUTPUT(g, q)\t(FW_CSG_OUTPUT(g) + ((q) + 1) * {block:#x})

#endif
"""


def main() -> None:
    """Write the image, or the header for the kernel module, to a file or standard output."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--header", action="store_true", help="write the C header instead of the image")
    parser.add_argument("output", type=Path, nargs="?", help="standard output if not given")
    options = parser.parse_args()
    content = c_header().encode() if options.header else image()
    if options.output:
        options.output.write_bytes(content)
    else:
        sys.stdout.buffer.write(content)


if __name__ == "__main__":
    main()
