# SPDX-License-Identifier: MIT
"""The life of a buffer: made where, labelled, mapped, bound, unbound, closed; whose, and what for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panthor_trace.model import build
from panthor_trace.model.ranges import mapped_ranges
from panthor_trace.trace.schema import RecordType

from .synthetic import ENOMEM, SyntheticTrace

CB = 0xCB0
MIB = 1 << 20
NO_MMAP = 1


def test_buffer_made_at_the_end_belongs_to_the_end_not_to_the_last_dispatch() -> None:
    run = SyntheticTrace()
    run.call("vkBeginCommandBuffer", CB)
    run.call("vkCmdDispatch", CB, 1, 1, 1)
    with run.vulkan("vkCmdDispatch", CB, 8, 4, 1):
        run.bo_create(MIB)
    with run.vulkan("vkEndCommandBuffer", CB):
        run.bo_create(2 * MIB)
    run.bo_create(3 * MIB)
    bos = build(run.finish()).bos
    assert bos["function"].fillna("").tolist() == ["vkCmdDispatch", "vkEndCommandBuffer", ""]
    assert bos["dispatch_number"].fillna(0).tolist() == [2, 0, 0]
    assert bos["dispatch_ordinal"].fillna(0).tolist() == [2, 0, 0]
    assert bos["command_buffer"].fillna(0).tolist() == [CB, CB, 0]


def test_handles_count_within_one_opening() -> None:
    run = SyntheticTrace()
    first = run.bo_create(MIB)
    run.file, run.fd, run._handle = 0xFF80, 6, 0
    other = run.bo_create(2 * MIB)
    assert other == first
    run.vm_bind((other, 2 * MIB))
    run.fd = 7  # a duplicate of the second opening's descriptor
    run.bo_close(other)
    tables = build(run.finish())
    assert tables.bos["file"].tolist() == [0, 1]
    assert tables.bos["closed_ns"].notna().tolist() == [False, True]
    assert tables.binds["bo_id"].tolist() == [1]


def test_without_the_kernels_file_a_process_has_one_opening_a_node() -> None:
    run = SyntheticTrace()
    run.file = 0
    handle = run.bo_create(MIB)
    run.fd = 9
    run.bo_close(handle)
    run.pid = run.tid = 101
    run.bo_create(MIB)
    bos = build(run.finish()).bos
    assert bos["closed_ns"].notna().tolist() == [True, False]
    assert bos["file"].tolist() == [0, 1]


def test_label_and_map_offset_are_of_the_buffer_that_had_the_handle_then() -> None:
    run = SyntheticTrace()
    for label in (b"first\0", b"second\0"):
        run._handle = 0
        handle = run.bo_create(MIB)
        run.ioctl("BO_SET_LABEL", {"handle": handle}, array=b"draft\0")
        run.ioctl("BO_SET_LABEL", {"handle": handle}, array=label)
        run.bo_close(handle)
    run.bo_create(MIB)
    run.ioctl("BO_MMAP_OFFSET", {"handle": 2}, {"offset": 0x10000})
    bos = build(run.finish()).bos
    assert bos["label"].tolist() == ["first", "second", ""]
    assert bos["mmap_offset"].fillna(0).tolist() == [0, 0, 0x10000]
    assert bos["closed_ns"].notna().tolist() == [True, True, False]


def test_buffer_bound_twice_is_unbound_when_both_are() -> None:
    run = SyntheticTrace()
    handle = run.bo_create(2 * MIB)
    run.vm_bind((handle, MIB), va=0x1000_0000)
    run.vm_bind((handle, MIB), va=0x2000_0000)
    run.vm_bind((0, MIB // 2), unmap=True, va=0x1000_0000)
    halfway = build(run.finish())
    assert halfway.binds["unbound_ns"].isna().all()
    run.vm_bind((0, MIB // 2), unmap=True, va=0x1000_0000 + MIB // 2)
    run.vm_bind((run.bo_create(4096), 2 * MIB), va=0x2000_0000)
    tables = build(run.finish())
    assert tables.binds["unbound_ns"].notna().tolist() == [True, True, False, False, False]
    bo = tables.bos.iloc[0]
    assert (bo["binds"], bo["va"], bo["vm_id"]) == (2, 0x1000_0000, 1)
    assert bo["unbound_ns"] == tables.binds["exit_ns"].iloc[-1]
    assert halfway.bos["unbound_ns"].isna().all()


def test_end_of_a_vm_unbinds_and_its_id_means_another_one_after() -> None:
    run = SyntheticTrace()
    run.ioctl("VM_CREATE", {"user_va_range": 0}, {"id": 1, "user_va_range": 1 << 47})
    handle = run.bo_create(MIB)
    run.vm_bind((handle, MIB))
    run.ioctl("VM_DESTROY", {"id": 1})
    run.ioctl("VM_CREATE", {"user_va_range": 1 << 30}, {"id": 1})
    run.vm_bind((handle, MIB))
    tables = build(run.finish())
    assert tables.binds["unbound_ns"].notna().tolist() == [True, False]
    assert tables.vms["user_va_range"].tolist() == [1 << 47, 1 << 30]
    assert tables.vms["requested"].tolist() == [0, 1 << 30]
    assert tables.vms["destroyed_ns"].notna().tolist() == [True, False]


def test_operations_before_the_refused_one_were_done() -> None:
    run = SyntheticTrace()
    handles = [run.bo_create(4096) for _ in range(3)]
    run.vm_bind(*((handle, 4096) for handle in handles), error=ENOMEM, failing=1)
    tables = build(run.finish())
    assert tables.binds["done"].tolist() == [True, False, False]
    assert tables.bos["binds"].tolist() == [1, 0, 0]
    assert tables.memory["bound_bytes"].iloc[-1] == 4096


def test_bind_of_a_handle_closed_before_is_of_no_known_buffer() -> None:
    run = SyntheticTrace()
    handle = run.bo_create(4096)
    run.bo_close(handle)
    run.vm_bind((handle, 4096))  # imported since, which makes no buffer
    assert build(run.finish()).binds["bo_id"].isna().all()


@pytest.mark.parametrize(
    ("function", "size", "flags", "pool"),
    [
        ("vkAllocateMemory", 7 * MIB, 0, "application memory"),
        ("vkCreateDevice", 512 << 10, NO_MMAP, "render-descriptor ring"),
        ("vkCreateDevice", 68 << 10, 2, "queue/heap"),
        ("vkEndCommandBuffer", 152 * MIB, NO_MMAP, "TLS"),
        ("vkCmdDispatch", 19 << 16, NO_MMAP, "WLS"),
        ("vkCmdCopyBuffer", 19 << 16, NO_MMAP, "WLS"),
        ("vkCmdPipelineBarrier", 64 << 10, 2, "CS chunks"),
        ("vkCmdPipelineBarrier", 64 << 10, 0, "CS chunks"),
        ("vkCmdDispatch", 64 << 10, 2, "descriptors"),
        ("vkCreateDescriptorPool", 104 << 10, 2, "descriptors"),
        ("vkCreateComputePipelines", 16 << 10, 2, "device pool"),
    ],
)
def test_pool_is_told_by_call_size_and_flags(function: str, size: int, flags: int, pool: str) -> None:
    run = SyntheticTrace()
    run.call("vkBeginCommandBuffer", CB)
    with run.vulkan(function, CB):
        run.vm_bind((run.bo_create(size, flags=flags), size))
    bo = build(run.finish()).bos.iloc[0]
    assert bo["pool"] == pool
    assert bo["pool_ground"]


def test_slabs_of_a_recording_are_told_apart_by_their_order() -> None:
    run = SyntheticTrace()
    run.call("vkBeginCommandBuffer", CB)
    for _ in range(2):
        with run.vulkan("vkCmdDispatch", CB, 1, 1, 1):
            run.bo_create(64 << 10)
            run.bo_create(64 << 10)
    pools = build(run.finish()).bos["pool"].tolist()
    assert pools == ["descriptors", "CS chunks", "CS chunks or descriptors", "CS chunks or descriptors"]


def test_executable_bind_and_label_say_more_than_the_size() -> None:
    run = SyntheticTrace()
    with run.vulkan("vkCreateComputePipelines"):
        run.vm_bind((run.bo_create(16 << 10), 16 << 10))
        run.records[RecordType.ARRAY][-1]["bytes"][:4] = 0  # without no-exec
        labelled = run.bo_create(16 << 10)
        run.ioctl("BO_SET_LABEL", {"handle": labelled}, array=b"Command buffer CS pool\0")
    run.bo_create(4096)
    assert build(run.finish()).bos["pool"].tolist() == ["shaders", "CS chunks", "unknown"]


operations = st.lists(st.tuples(st.integers(0, 11), st.integers(1, 6), st.booleans()), max_size=25)


@given(operations)
def test_ranges_are_what_a_page_table_would_hold(steps: list[tuple[int, int, bool]]) -> None:
    table: dict[int, int] = {}
    lived: set[tuple[int, int, int, int]] = set()
    for time, (va, size, maps) in enumerate(steps):
        for page in range(va, va + size):
            if page in table:
                bind = table.pop(page)
                lived.add((page, bind, bind, time))
            if maps:
                table[page] = time
    lived |= {(page, bind, bind, -1) for page, bind in table.items()}
    columns = {"bind_id": range(len(steps)), "space": 1, "time_ns": range(len(steps))}
    frame = pd.DataFrame(columns, columns=["bind_id", "space", "time_ns"])
    frame["va"] = np.array([step[0] for step in steps], np.uint64)
    frame["size"] = np.array([step[1] for step in steps], np.uint64)
    frame["maps"] = np.array([step[2] for step in steps], bool)
    found = mapped_ranges(frame)
    end = found["end_ns"].fillna(-1)
    rows = zip(found["va"], found["size"], found["bind_id"], found["start_ns"], end, strict=True)
    pages = [(int(va) + i, bind, start, stop) for va, size, bind, start, stop in rows for i in range(size)]
    assert len(pages) == len(set(pages))
    assert set(pages) == lived
