# SPDX-License-Identifier: MIT
"""ELF files, netlink messages, accounting records, and the tables made of side tables."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from panthor_trace.capture.elf import Elf, ElfError, Symbol
from panthor_trace.capture.libraries import layer_of
from panthor_trace.capture.netlink import exit_reports, uevent
from panthor_trace.capture.source import ordinary_table
from panthor_trace.model import build
from panthor_trace.trace.reader import Trace
from panthor_trace.trace.records import DTYPES
from panthor_trace.trace.schema import Flag, FrameStatus, MappingKind, ProcessEvent, RecordType
from panthor_trace.uapi import ioctls, taskstats

HEADER = Path("/usr/include/linux/taskstats.h")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("elf")
    source = directory / "two.c"
    source.write_text("int first(int x) { return x * 3; }\nint second(int x) { return first(x) + 1; }\n")
    path = directory / "libtwo.so"
    options = ["-shared", "-fPIC", "-O0", "-Wl,--build-id=0x" + "ab" * 20, "-Wl,-soname,libtwo.so.2"]
    subprocess.run(["gcc", *options, "-o", path, source], check=True)
    return path


def test_elf_headers_and_functions(library: Path) -> None:
    elf = Elf(library)
    assert (elf.build_id, elf.soname) == ("ab" * 20, "libtwo.so.2")
    listed = subprocess.check_output(["nm", "-D", library], text=True)
    for name in ("first", "second"):
        address = int(re.search(rf"^(\w+) T {name}$", listed, re.M).group(1), 16)  # type: ignore[union-attr]
        offset = elf.offset_of(address)
        assert offset is not None
        assert elf.address_of(offset) == address
        assert elf.function_at(offset) == Symbol(name, 0)
        assert elf.function_at(offset + 5) == Symbol(name, 5)
        assert elf.function_at(offset - 1) != Symbol(name, -1)
    assert elf.function_at(1 << 40) is None


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fELF\x01\x01" + bytes(80), b"\x7fELF\x02\x01"])
def test_what_is_no_elf_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ElfError):
        Elf(path)


@pytest.mark.parametrize(
    ("soname", "path", "layer"),
    [
        ("libvulkan.so.1", "/anything", "vulkan"),
        ("", "/opt/sdk/libvulkan.so.1.4.309", "vulkan"),
        ("libvulkan_panfrost.so", "/usr/lib/libvulkan_panfrost.so", None),
        ("libstdc++.so.6", "/x", "exception"),
        ("libc++abi.so.1", "/x", "exception"),
        ("libc.so.6", "/lib/libc.so.6", None),
    ],
)
def test_which_layer_a_library_belongs_to(soname: str, path: str, layer: str | None) -> None:
    assert layer_of(soname, path) == layer


def attribute(kind: int, content: bytes) -> bytes:
    return struct.pack("<HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)


def test_exit_reports_of_thread_and_group() -> None:
    thread = attribute(4, attribute(1, struct.pack("<I", 41)) + attribute(3, b"thread stats"))
    group = attribute(5, attribute(2, struct.pack("<I", 40)) + attribute(3, b"group stats!"))
    body = bytes(4) + thread + group
    message = struct.pack("<IHHII", 16 + len(body), 0x1F, 0, 0, 0) + body
    assert list(exit_reports(message)) == [(False, 41, b"thread stats"), (True, 40, b"group stats!")]
    # An acknowledgement, and one cut short.
    assert list(exit_reports(struct.pack("<IHHII", 20, 2, 0, 0, 0) + bytes(4))) == []
    assert list(exit_reports(message[:30])) == []


def test_uevents_of_drm_and_devcoredump_only() -> None:
    drm = b"change@/devices/x/drm/card0\0ACTION=change\0SUBSYSTEM=drm\0HOTPLUG=1\0"
    assert uevent(drm) == {"ACTION": "change", "SUBSYSTEM": "drm", "HOTPLUG": "1"}
    assert uevent(drm.replace(b"=drm", b"=devcoredump")) is not None
    assert uevent(drm.replace(b"=drm", b"=net")) is None
    assert uevent(b"libudev\0\xfe\xed\xca\xfe") is None


@pytest.mark.skipif(not HEADER.exists(), reason="no linux-libc-dev")
def test_accounting_members_are_where_the_header_has_them(tmp_path: Path) -> None:
    names = {
        "wait_status": "ac_exitcode", "cpu_delay_ns": "cpu_delay_total",
        "block_io_delay_ns": "blkio_delay_total",
        "swap_in_delay_ns": "swapin_delay_total", "user_time_ns": "ac_utime", "system_time_ns": "ac_stime",
        "minor_faults": "ac_minflt", "major_faults": "ac_majflt", "peak_rss_bytes": "hiwater_rss",
        "peak_virtual_bytes": "hiwater_vm", "reclaim_delay_ns": "freepages_delay_total",
        "thrashing_delay_ns": "thrashing_delay_total", "compaction_delay_ns": "compact_delay_total",
        "process": "ac_tgid", "copy_on_write_delay_ns": "wpcopy_delay_total",
    }  # fmt: skip
    assert set(names) == {member.column for member in taskstats.MEMBERS}
    compiler = shutil.which("gcc")
    assert compiler
    known = {name for name in names.values() if re.search(rf"\b{name}\b", HEADER.read_text())}
    lines = [f'printf("{name} %zu\\n", offsetof(struct taskstats, {name}));' for name in sorted(known)]
    (tmp_path / "main.c").write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include <linux/taskstats.h>\n"
        f"int main(void) {{ {''.join(lines)} return 0; }}\n"
    )
    subprocess.run([compiler, "-o", tmp_path / "main", tmp_path / "main.c"], check=True)
    printed = subprocess.check_output([tmp_path / "main"], text=True)
    offsets = {name: int(offset) for name, offset in (line.split() for line in printed.splitlines())}
    assert len(offsets) >= 12
    for member in taskstats.MEMBERS:
        if names[member.column] in offsets:
            assert member.offset == offsets[names[member.column]], member.column


def stats(version: int, size: int) -> bytes:
    raw = bytearray(size)
    struct.pack_into("<H", raw, 0, version)
    struct.pack_into("<Q", raw, 56, 7)  # swap-in delay
    struct.pack_into("<Q", raw, 200, 1000)  # hiwater_rss, KiB
    if size > 376:
        struct.pack_into("<I", raw, 368, 40)  # ac_tgid
    return bytes(raw)


def test_what_a_kernel_does_not_say_is_unknown_not_zero() -> None:
    new = taskstats.decode(stats(16, 500), delays=True)
    assert (new["swap_in_delay_ns"], new["peak_rss_bytes"], new["process"]) == (7, 1024000, 40)
    assert "swap_in_delay_ns" not in taskstats.decode(stats(16, 500), delays=False)
    old = taskstats.decode(stats(8, 328), delays=True)
    assert old["peak_rss_bytes"] == 1024000
    assert not {"process", "thrashing_delay_ns", "compaction_delay_ns"} & set(old)
    # Version 15 put members into the middle: what is behind them is not where it was.
    assert set(taskstats.decode(stats(15, 500), delays=True)) == {"wait_status", "cpu_delay_ns"}
    assert taskstats.decode(b"", delays=True) == {}


def test_the_bpf_side_takes_the_same_errnos_for_ordinary() -> None:
    table = ordinary_table()
    for number in (0x40, 0x45, 0xC3, 0xCA, 0x0C, 0x99):
        for code in range(1, 64):
            assert bool(table[number] >> code & 1) == ioctls.is_ordinary(number, code), (number, code)


def record(type_: RecordType, pid: int, time_ns: int, /, **members: int) -> np.void:
    row: np.void = np.zeros(1, DTYPES[type_])[0]
    row["head"]["type"], row["head"]["tgid"], row["head"]["tid"] = type_, pid, pid
    row["head"]["enter_ns"] = time_ns
    for name, value in members.items():
        row[name] = value
    return row


def trace_of(rows: dict[RecordType, list[np.void]], **side: list[dict[str, object]]) -> Trace:
    records = {kind: np.array(of_kind, DTYPES[kind]) for kind, of_kind in rows.items()}
    meta = {"schema_version": 2, "machine": {"page_size": 4096}, "nodes": [{"name": "renderD128", "rdev": 5}]}
    return Trace(meta, records, {"exit_code": 0}, side=side)


def test_processes_are_told_how_they_ended_and_what_they_took() -> None:
    ended = record(RecordType.PROCESS, 7, 30, event=ProcessEvent.EXIT, child=9 << 8)
    killed = record(RecordType.PROCESS, 8, 31, event=ProcessEvent.EXIT, child=134 & 0x7F)
    unknown = record(RecordType.PROCESS, 9, 32, event=ProcessEvent.EXIT)
    unknown["head"]["flags"] = Flag.FAULT_AFTER
    taken: list[dict[str, object]] = [
        {"pid": 7, "tid": 7, "group": False, "peak_rss_bytes": 500, "minor_faults": 3, "swap_in_delay_ns": 1},
        {
            "pid": 7,
            "tid": 71,
            "group": False,
            "peak_rss_bytes": 700,
            "minor_faults": 4,
            "swap_in_delay_ns": 2,
        },
        {"pid": 7, "tid": None, "group": True, "peak_rss_bytes": 0, "minor_faults": 0, "swap_in_delay_ns": 9},
    ]
    trace = trace_of({RecordType.PROCESS: [ended, killed, unknown]}, taskstats=taken)
    table = build(trace).processes.set_index("pid")
    assert table["exit_status"].dropna().to_dict() == {7: 9, 8: 134}
    assert table.loc[7, ["peak_rss_bytes", "minor_faults", "swap_in_delay_ns"]].tolist() == [700, 7, 9]
    assert table.loc[8, ["peak_rss_bytes", "minor_faults"]].isna().all()


def test_refused_mapping_with_its_stack() -> None:
    refused = record(
        RecordType.MAPPING, 7, 10, exit_ns=20, ret=-12, length=8192, offset=4096, kind=MappingKind.NODE,
        device=5, fd=3, maps=65531, address_space=10, address_space_limit=(1 << 64) - 1,
    )  # fmt: skip
    stack = record(RecordType.STACK, 7, 10, of=RecordType.MAPPING, frames=2)
    stack["frame"]["status"][:2] = FrameStatus.BUILD_ID, FrameStatus.ADDRESS
    stack["frame"]["build_id"][0] = np.frombuffer(b"\xab" * 20, np.uint8)
    stack["frame"]["offset"][:2] = 0x123, (1 << 63) + 1
    trace = trace_of(
        {RecordType.MAPPING: [refused], RecordType.STACK: [stack]},
        symbols=[
            {"build_id": "ab" * 20, "offset": 0x123, "caller": False, "module": "/x.so",
             "symbol": "map_it",
             "symbol_offset": 3}
        ],
    )  # fmt: skip
    tables = build(trace)
    (row,) = [row for _, row in tables.mappings.iterrows()]
    assert (row["errno"], row["size"], row["node"], row["maps"]) == ("ENOMEM", 8192, "renderD128", 65531)
    assert row["address_space"] == 40960
    assert np.isscalar(row["size"])
    assert tables.mappings["address_space_limit"].isna().all()
    (failure,) = [row for _, row in tables.failures.iterrows()]
    assert (failure["kind"], failure["what"], failure["error"]) == ("mmap", "mmap", "ENOMEM")
    frames = tables.stacks[tables.stacks["stack_id"] == failure["stack_id"]]
    assert frames["symbol"].iloc[0] == "map_it"
    assert frames["address"].iloc[1] == (1 << 63) + 1


@pytest.mark.parametrize(("offset", "depths"), [(0x200, [0, 1]), (0x300, [0, 1, 2])])
def test_caller_that_the_kernel_has_found_too_is_there_once(offset: int, depths: list[int]) -> None:
    thrown = record(RecordType.EXCEPTION, 7, 10)
    stack = record(RecordType.STACK, 7, 10, of=RecordType.EXCEPTION, frames=3)
    stack["frame"]["status"][:3] = FrameStatus.BUILD_ID, FrameStatus.ADDRESS, FrameStatus.BUILD_ID
    stack["frame"]["build_id"][[0, 2]] = np.frombuffer(b"\xab" * 20, np.uint8)
    stack["frame"]["offset"][:3] = 0x100, 0x7000_0200, offset
    known: dict[str, object] = {
        "pid": 7, "seen_ns": 5, "start": 0x7000_0000, "end": 0x7000_1000, "offset": 0, "device": 1,
        "inode": 1, "path": "/x.so", "soname": "x.so", "build_id": "ab" * 20,
    }  # fmt: skip
    rows = {RecordType.EXCEPTION: [thrown], RecordType.STACK: [stack]}
    frames = build(trace_of(rows, modules=[known])).stacks
    assert frames["depth"].tolist() == depths
    assert frames["offset"].tolist() == [0x100, 0x200, 0x300][: len(depths)]
    assert set(frames["module"]) == {"/x.so"}


def test_library_whose_process_had_ended_is_known_from_another_or_not_at_all() -> None:
    made = {"ret": 0x7000_0000_0000, "length": 4096, "kind": MappingKind.LIBRARY, "device": 1}
    first = record(RecordType.MAPPING, 7, 10, inode=100, **made)
    second = record(RecordType.MAPPING, 8, 11, inode=200, **made)
    known: dict[str, object] = {
        "pid": 9, "seen_ns": 5, "start": 1, "end": 2, "offset": 0, "device": 1, "inode": 100,
        "path": "/lib/a.so", "soname": "a.so", "build_id": "aa",
    }  # fmt: skip
    table = build(trace_of({RecordType.MAPPING: [first, second]}, modules=[known])).modules.set_index("pid")
    assert table.loc[7, "path"] == "/lib/a.so"
    assert table["path"].isna().to_dict() == {9: False, 7: False, 8: True}
