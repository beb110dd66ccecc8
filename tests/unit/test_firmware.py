# SPDX-License-Identifier: MIT
"""The firmware image, read back the way panthor reads it: a parser of its own, with panthor_fw.c's checks.

The parser shares no constant with the builder: a wrong value there cannot hide here.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from board import firmware, gpus
from board.firmware import Layout

HEADER = Path(firmware.__file__).parent / "stub_gpu" / "fw_layout.h"
PAGE = 4096


class Refused(Exception):
    """panthor would not take this image."""


def check(condition: bool, message: str) -> None:
    if not condition:
        raise Refused(message)


class Words:
    """Little-endian words of a memory, by offset; beyond it is a refusal, as in panthor's iterator."""

    def __init__(self, memory: bytes) -> None:
        self.memory = memory

    def __getitem__(self, offset: int) -> int:
        check(offset + 4 <= len(self.memory), "firmware too small")
        return int(struct.unpack_from("<I", self.memory, offset)[0])


def load(image: bytes) -> tuple[int, bytes]:
    """panthor_fw_load and panthor_fw_load_section_entry: address and contents of the shared section."""
    words = Words(image)
    check(words[0] == 0xC3F13A6E, "invalid firmware magic")
    check(words[4] >> 8 & 0xFF == 0, "unsupported header version")
    size = words[16]
    check(size <= len(image), "firmware image is truncated")
    shared = None
    offset = 20
    while offset < size:
        kind, entry_size = words[offset] & 0xFF, words[offset] >> 8 & 0xFF
        check(entry_size >= 24 and entry_size % 4 == 0, "entry is not 32-bit aligned")
        check(offset + entry_size <= size, "firmware entry too long")
        check(kind == 0, f"unsupported entry type {kind}")
        flags, va_start, va_end, data_start, data_end = (words[offset + 4 + 4 * i] for i in range(5))
        check(data_end >= data_start, "data.end < data.start")
        check(va_end >= va_start, "va.end < va.start")
        check(data_end <= len(image), "file truncated")
        check(va_start % PAGE == 0 and va_end % PAGE == 0, "addresses not page aligned")
        check(not flags & ~0xC000003F, "unsupported flags")
        check(bool(flags & 2), "the interface must be writable")
        check(data_end - data_start <= va_end - va_start, "data larger than the section")
        if va_start == 0x04000000:
            check(bool(flags & 1 << 30), "interface at 0x4000000 must be shared")
            check(bool(flags & 1 << 31), "what the image leaves out must be zeroed")
            data = image[data_start:data_end]
            shared = (va_start, data + bytes(va_end - va_start - len(data)))
        offset += entry_size
    if shared is None:
        raise Refused("shared interface region not found")
    return shared


def interfaces(start: int, memory: bytes) -> dict[str, int]:
    """panthor_fw_init_ifaces: every input and output block by name, as offset into the section."""
    words = Words(memory)
    blocks: dict[str, int] = {}

    def block(name: str, va: int) -> None:
        check(start <= va < start + len(memory), f"invalid VA of {name}")
        blocks[name] = va - start

    check(words[0] != 0, "firmware version is 0")
    block("glb in", words[8])
    block("glb out", words[12])
    groups, group_stride = words[16], words[20]
    check(3 <= groups <= 31, "invalid number of control groups")
    identical: set[tuple[int, ...]] = set()
    features: set[int] = set()
    for group in range(groups):
        at = 0x1000 + group * group_stride
        check(at + 28 < len(memory), "group control block beyond the section")
        block(f"csg {group} in", words[at + 4])
        block(f"csg {group} out", words[at + 8])
        streams, stream_stride = words[at + 20], words[at + 24]
        check(8 <= streams <= 32, "invalid number of streams")
        identical.add((words[at], words[at + 12], words[at + 16], streams))
        check(
            stream_stride * streams + 0x40 <= group_stride, "streams' control blocks overlap the next group"
        )
        for stream in range(streams):
            control = at + 0x40 + stream * stream_stride
            features.add(words[control])
            block(f"cs {group}.{stream} in", words[control + 4])
            block(f"cs {group}.{stream} out", words[control + 8])
    check(len(identical) == 1, "expecting identical CSG slots")
    check(len(features) == 1, "expecting identical CS slots")
    return blocks


#: Largest block of each sort, by panthor_fw.h's structures.
SIZES = {"glb in": 132, "glb out": 28, "csg in": 88, "csg out": 32, "cs in": 88, "cs out": 216}


def size_of(name: str) -> int:
    return SIZES[f"{name.split()[0]} {name.split()[-1]}"]


def test_the_driver_takes_the_image() -> None:
    start, memory = load(firmware.image())
    blocks = interfaces(start, memory)
    assert len(memory) == 0x40000
    assert len(blocks) == 2 + 8 * 2 + 8 * 8 * 2
    assert Words(memory)[0] == 1 << 24 | 1 << 16  # interface 1.1.0


def test_blocks_do_not_overlap_and_stay_in_their_page() -> None:
    """The stub keeps one pointer a page: a block across two would be read from the wrong place."""
    start, memory = load(firmware.image())
    blocks = interfaces(start, memory)
    control_blocks_end = 0x1000 + 8 * 0x400
    spans = sorted((at, at + size_of(name), name) for name, at in blocks.items())
    assert spans[0][0] >= control_blocks_end
    for (_, end, name), (begin, _, other) in itertools.pairwise(spans):
        assert end <= begin, f"{name} overlaps {other}"
    for begin, end, name in spans:
        assert begin // PAGE == (end - 1) // PAGE, f"{name} crosses a page"


@pytest.mark.parametrize(("directory", "registers"), [("arch10.8", 96), ("arch11.8", 96), ("arch12.8", 128)])
def test_stream_registers_follow_the_architecture(directory: str, registers: int) -> None:
    _, memory = load(firmware.image(firmware.layout_for(directory)))
    assert (Words(memory)[0x1040] & 0xFF) + 1 == registers


def _word(offset: int, value: int) -> Callable[[bytes], bytes]:
    def corrupt(image: bytes) -> bytes:
        return image[:offset] + struct.pack("<I", value) + image[offset + 4 :]

    return corrupt


DATA = 44  # where the section's data begins: header and one entry come first

CORRUPTIONS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "magic": (_word(0, 0x12345678), "magic"),
    "major version": (_word(4, 1 << 8), "version"),
    "header size": (_word(16, 1 << 20), "truncated"),
    "cut short": (lambda image: image[:-64], "truncated"),
    "entry type": (_word(20, 24 << 8 | 9), "entry type"),
    "entry size": (_word(20, 200 << 8), "entry too long"),
    "flags": (_word(24, 1 << 10), "unsupported flags"),
    "not shared": (_word(24, 1 << 31 | 3), "must be shared"),
    "not zeroed": (_word(24, 1 << 30 | 3), "zeroed"),
    "read-only": (_word(24, 3 << 30 | 1), "writable"),
    "not aligned": (_word(28, 0x04000010), "aligned"),
    "elsewhere": (_word(28, 0x03000000), "not found"),
    "no version": (_word(DATA, 0), "version is 0"),
    "two groups": (_word(DATA + 16, 2), "control groups"),
    "global input": (_word(DATA + 8, 0x1000), "glb in"),
    "seven streams": (_word(DATA + 0x1000 + 20, 7), "number of streams"),
    "unlike groups": (_word(DATA + 0x1400 + 12, 1), "identical CSG"),
    "unlike streams": (_word(DATA + 0x1080, 1), "identical CS "),
    "stream output": (_word(DATA + 0x1048, 0x05000000), "cs 0.0 out"),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_the_parser_refuses_corruption(name: str) -> None:
    """What makes the tests above worth something: each of their checks fails on an image made wrong."""
    corrupt, message = CORRUPTIONS[name]
    with pytest.raises(Refused, match=message):
        interfaces(*load(corrupt(firmware.image())))


def test_the_kernel_module_has_this_layout() -> None:
    """fw_layout.h is generated; whoever changes Layout writes it anew."""
    assert HEADER.read_text() == firmware.c_header()


def test_the_header_says_where_the_image_puts_blocks(tmp_path: Path) -> None:
    """The header's formulas, evaluated, against the addresses in the image."""
    macros = {}
    for line in firmware.c_header().splitlines():
        if line.startswith("#define FW_"):
            name, value = line.removeprefix("#define ").replace("(g, q)\t", "\t").split("\t", 1)
            macros[name.split("(")[0]] = value.strip()
    scope: dict[str, object] = {}
    for name, value in macros.items():
        parameters = {
            "FW_CSG_INPUT": "g",
            "FW_CSG_OUTPUT": "g",
            "FW_CS_INPUT": "g, q",
            "FW_CS_OUTPUT": "g, q",
        }
        source = f"lambda {parameters[name]}: {value}" if name in parameters else value
        scope[name] = eval(source, scope)
    blocks = interfaces(*load(firmware.image()))
    assert scope["FW_SHARED_VA"] == 0x04000000
    assert (scope["FW_GLB_INPUT"], scope["FW_GLB_OUTPUT"]) == (blocks["glb in"], blocks["glb out"])
    for group in range(8):
        for direction, suffix in (("INPUT", "in"), ("OUTPUT", "out")):
            csg, cs = scope[f"FW_CSG_{direction}"], scope[f"FW_CS_{direction}"]
            assert callable(csg)
            assert callable(cs)
            assert csg(group) == blocks[f"csg {group} {suffix}"]
            for stream in range(8):
                assert cs(group, stream) == blocks[f"cs {group}.{stream} {suffix}"]


def test_suspend_buffer_holds_every_stream() -> None:
    """cs_context is 128 registers and some words; two pages for eight streams (stub.h asserts the C side)."""
    layout = Layout()
    assert layout.suspend_size % PAGE == 0
    assert layout.suspend_size // layout.streams >= 128 * 4 + 64


@pytest.mark.parametrize("name", gpus.GPUS)
def test_every_gpu_finds_its_firmware(name: str) -> None:
    """panthor_fw_load asks for arm/mali/archMAJOR.MINOR of GPU_ID."""
    gpu = gpus.GPUS[name]
    gpu_id = gpu.registers.get("gpu_id", 0xA8670005)
    assert gpu.firmware == f"arch{gpu_id >> 28}.{gpu_id >> 24 & 0xF}"
    assert gpu.firmware in gpus.firmware_dirs()
