# SPDX-License-Identifier: MIT
"""Tables made from built traces."""

from __future__ import annotations

import errno

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panthor_trace.model import build, nesting
from panthor_trace.model.cxx import type_name
from panthor_trace.trace.schema import ARRAY_BYTES, Flag, ProcessEvent, RecordType

from .synthetic import ENOMEM, OP_BYTES, SyntheticTrace

CB = 0xCB0


def test_requests_belong_to_the_innermost_call_of_their_thread() -> None:
    run = SyntheticTrace()
    with run.vulkan("vkCreateDevice"):
        run.ioctl("DEV_QUERY")
        with run.vulkan("vkAllocateMemory", 1):
            run.bo_create(4096)
        run.ioctl("VM_CREATE")
        run.tid += 1
        run.bo_create(8192)
        run.tid -= 1
    run.ioctl("GEM_CLOSE", {"handle": 1})
    tables = build(run.finish())
    outer, inner = tables.vulkan["vulkan_id"]
    owners = tables.ioctls.set_index("ioctl_id")["vulkan_id"]
    assert tables.ioctls["name"].tolist() == ["DEV_QUERY", "BO_CREATE", "VM_CREATE", "BO_CREATE", "GEM_CLOSE"]
    assert owners.fillna(-1).tolist() == [outer, inner, outer, -1, -1]
    assert tables.vulkan["parent_id"].fillna(-1).tolist() == [-1, outer]


def test_buffer_lives_from_creation_to_close() -> None:
    run = SyntheticTrace()
    first = run.bo_create(4096)
    run.bo_close(first)
    run._handle -= 1  # the kernel gives a free handle out again
    again = run.bo_create(8192)
    assert again == first
    run.bo_create(1 << 40, error=ENOMEM)
    tables = build(run.finish())
    bos = tables.bos
    assert bos["requested"].tolist() == [4096, 8192, 1 << 40]
    assert bos["handle"].fillna(0).tolist() == [first, again, 0]
    assert bos["closed_ns"].notna().tolist() == [True, False, False]
    assert bos["errno"].tolist() == ["", "", "ENOMEM"]


@pytest.mark.parametrize("count", [1, 4, 5, 23])
def test_every_operation_of_a_bind_is_a_row(count: int) -> None:
    run = SyntheticTrace()
    handle = run.bo_create(1 << 20)
    run.vm_bind(*((handle, 4096 * (index + 1)) for index in range(count)))
    run.vm_bind((handle, 512), unmap=True)
    binds = build(run.finish()).binds
    assert binds["size"].tolist() == [4096 * (index + 1) for index in range(count)] + [512]
    assert binds["operation"].tolist() == ["map"] * count + ["unmap"]
    assert binds["index"].tolist() == [*range(count), 0]
    assert binds["bo_id"].tolist() == [0] * (count + 1)


def test_refused_operation_is_the_one_the_kernel_stopped_at() -> None:
    run = SyntheticTrace()
    handles = [run.bo_create(4096) for _ in range(3)]
    run.vm_bind(*((handle, 4096) for handle in handles), error=ENOMEM, failing=1)
    binds = build(run.finish()).binds
    assert binds["refused"].tolist() == [False, True, False]
    assert set(binds["errno"]) == {"ENOMEM"}


def test_partial_operation_at_a_cut_is_left_out() -> None:
    run = SyntheticTrace()
    ops = b"".join(bytes([index]) * OP_BYTES for index in range(1, 5))
    run.ioctl("VM_BIND", {"ops_stride": OP_BYTES, "ops_count": 5}, array=ops[: ARRAY_BYTES - 20])
    run.records[RecordType.IOCTL][-1]["head"]["flags"] = Flag.ARRAY_CUT
    tables = build(run.finish())
    assert len(tables.binds) == 3
    assert tables.ioctls["cut"].tolist() == [True]


def test_older_user_space_passes_a_smaller_struct() -> None:
    """A member beyond ``_IOC_SIZE`` was not said, which is not the same as zero."""
    run = SyntheticTrace()
    run.ioctl("BO_CREATE", {"size": 4096, "flags": 1}, size=16)
    bos = build(run.finish()).bos
    assert bos["requested"].tolist() == [4096]
    assert bos["handle"].isna().all()


def test_dispatch_counts_what_happened_inside_it_only() -> None:
    run = SyntheticTrace()
    run.call("vkBeginCommandBuffer", CB)
    with run.vulkan("vkCmdDispatch", CB, 8, 4, (7 << 32) | 1):
        run.vm_bind((run.bo_create(1 << 20), 1 << 20))
    with run.vulkan("vkCmdDispatch", CB, 1, 1, 1):
        run.bo_create(4096, error=ENOMEM)
    with run.vulkan("vkEndCommandBuffer", CB, result=-2):
        run.bo_create(2 << 20)
    dispatches = build(run.finish()).dispatches
    assert dispatches[["groups_x", "groups_y", "groups_z"]].to_numpy().tolist() == [[8, 4, 1], [1, 1, 1]]
    assert dispatches["ioctls"].tolist() == [2, 1]
    assert dispatches["bytes_allocated"].tolist() == [1 << 20, 0]
    assert dispatches["bytes_bound"].tolist() == [1 << 20, 0]
    assert dispatches["failed_ioctls"].tolist() == [0, 1]
    assert set(dispatches["end_result"]) == {"VK_ERROR_OUT_OF_DEVICE_MEMORY"}
    assert dispatches["ordinal"].tolist() == [1, 2]


def test_recordings_of_one_command_buffer_are_told_apart() -> None:
    run = SyntheticTrace()
    for groups in (1, 2):
        run.call("vkBeginCommandBuffer", CB)
        run.call("vkCmdDispatch", CB, groups, 1, 1)
        run.call("vkEndCommandBuffer", CB, result=0 if groups == 1 else -2)
    tables = build(run.finish())
    assert tables.dispatches["recording_id"].nunique() == 2
    assert tables.dispatches["ordinal"].tolist() == [1, 1]
    assert tables.recordings["end_result"].tolist() == [0, -2]


def test_void_functions_have_no_result() -> None:
    run = SyntheticTrace()
    run.call("vkCmdDispatch", CB, 1, 1, 1, result=-2)
    tables = build(run.finish())
    assert tables.vulkan["result"].isna().all()
    assert tables.failures.empty


def test_failures_are_in_order_of_time() -> None:
    run = SyntheticTrace()
    with run.vulkan("vkAllocateMemory", 1, result=-2):
        run.bo_create(4096, error=ENOMEM)
    run.ioctl("SYNCOBJ_WAIT", ret=-errno.ETIME)
    run.ioctl("VM_BIND", ret=-errno.EINTR)
    run.throw("St9bad_alloc")
    failures = build(run.finish()).failures
    assert failures["kind"].tolist() == ["ioctl", "vulkan", "exception"]
    assert failures["error"].tolist() == ["ENOMEM", "VK_ERROR_OUT_OF_DEVICE_MEMORY", "std::bad_alloc"]
    assert failures["vulkan_id"].fillna(-1).tolist() == [0, 0, -1]


def test_call_that_never_returned_has_no_result() -> None:
    run = SyntheticTrace()
    run.call("vkWaitForFences", 1, 1)
    run.records[RecordType.VULKAN][-1]["head"]["flags"] = Flag.UNFINISHED
    table = build(run.finish()).vulkan
    assert table["finished"].tolist() == [False]
    assert table["result"].isna().all()


def test_processes_know_their_parents() -> None:
    run = SyntheticTrace(pid=100)
    run.process(ProcessEvent.EXEC, "/bin/sh")
    run.fork(101)
    run.pid = run.tid = 101
    run.process(ProcessEvent.EXEC, "/usr/bin/llama-bench")
    run.process(ProcessEvent.EXIT)
    processes = build(run.finish()).processes.set_index("pid")
    assert processes.loc[101, "parent"] == 100
    assert processes["path"].to_dict() == {100: "/bin/sh", 101: "/usr/bin/llama-bench"}
    assert processes["exit_ns"].notna().to_dict() == {100: False, 101: True}


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("N2vk22OutOfDeviceMemoryErrorE", "vk::OutOfDeviceMemoryError"),
        ("St13runtime_error", "std::runtime_error"),
        ("NSt10filesystem16filesystem_errorE", "std::filesystem::filesystem_error"),
        ("5Error", "Error"),
        ("i", "i"),
        ("12short", "12short"),
        ("St3mapIiiE", "St3mapIiiE"),
        ("", ""),
    ],
)
def test_exception_types_are_readable(mangled: str, name: str) -> None:
    assert type_name(mangled) == name


@st.composite
def laminar(draw: st.DrawFn) -> list[tuple[int, int, int, int]]:
    """Nested calls of one thread as (enter, exit, index, parent), by entry."""
    shape = draw(st.lists(st.booleans(), max_size=40))
    clock, stack, calls = 0, [], []
    for opens in shape:
        clock += 1
        if opens:
            calls.append([clock, 0, len(calls), stack[-1] if stack else -1])
            stack.append(len(calls) - 1)
        elif stack:
            calls[stack.pop()][1] = clock
    for index in reversed(stack):
        clock += 1
        calls[index][1] = clock
    return [tuple(call) for call in calls]  # type: ignore[misc]


@given(laminar(), laminar())
def test_nesting_is_found_whatever_its_shape(
    first: list[tuple[int, int, int, int]], second: list[tuple[int, int, int, int]]
) -> None:
    rows = [(1, *call) for call in first] + [(2, *call) for call in second]
    frame = pd.DataFrame(rows, columns=["tid", "enter", "exit", "index", "parent"], dtype=np.int64)
    tid, enter, exit_ = (frame[name].to_numpy() for name in ("tid", "enter", "exit"))
    base = np.where(tid == 2, len(first), 0)
    expected = np.where(frame["parent"] < 0, nesting.NONE, frame["parent"] + base)
    found = nesting.parents(tid, enter, exit_)
    assert found.tolist() == expected.tolist()
    for thread in (1, 2):
        for at in range(0, 90, 3):
            inside = [i for i in range(len(tid)) if tid[i] == thread and enter[i] <= at <= exit_[i]]
            wanted = max(inside, key=lambda i: enter[i]) if inside else nesting.NONE
            answer = nesting.enclosing(tid, enter, exit_, found, np.array([thread]), np.array([at]))
            assert answer.tolist() == [wanted]
