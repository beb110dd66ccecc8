# SPDX-License-Identifier: MIT
"""From a recorded dispatch to the submit that carried it, and to the fence; memory over time."""

from __future__ import annotations

import pytest

from panthor_trace.model import build
from panthor_trace.trace.schema import Flag, ProcessEvent, RecordType

from .synthetic import ENOMEM, SyntheticTrace

CB, OTHER, QUEUE, FENCE = 0xCB0, 0xCB8, 0x9000_0000_0000_0001, 0xFE
MIB = 1 << 20


def record(run: SyntheticTrace, command_buffer: int, dispatches: int = 1) -> None:
    run.call("vkBeginCommandBuffer", command_buffer)
    for _ in range(dispatches):
        run.call("vkCmdDispatch", command_buffer, 4, 1, 1)
    run.call("vkEndCommandBuffer", command_buffer)


def wait(run: SyntheticTrace, *fences: int, every: int = 1, result: int = 0) -> None:
    raw = b"".join(fence.to_bytes(8, "little") for fence in fences)
    with run.vulkan("vkWaitForFences", 1, len(fences), 0xABC, every, 0, result=result, pointee=raw):
        pass


@pytest.mark.parametrize("second", [False, True])
def test_dispatch_is_followed_to_its_submit_and_fence(second: bool) -> None:
    run = SyntheticTrace()
    record(run, CB, 2)
    record(run, OTHER)
    run.submit(QUEUE, OTHER, CB, fence=FENCE, second=second, groups=2)
    wait(run, FENCE)
    tables = build(run.finish())
    submit = tables.submits.iloc[0]
    assert (submit["command_buffers"], submit["group_submits"], submit["streams"]) == (2, 2, 2)
    assert submit["stream_bytes"] == 1600
    assert (submit["queue"], submit["fence"], submit["done_by"]) == (QUEUE, FENCE, "vkWaitForFences")
    dispatches = tables.dispatches
    assert dispatches["submit_id"].tolist() == [0, 0, 0]
    assert dispatches["submits"].tolist() == [1, 1, 1]
    assert dispatches["group_submits"].tolist() == [2, 2, 2]
    first = tables.ioctls.loc[tables.ioctls["name"] == "GROUP_SUBMIT", "ioctl_id"].iloc[0]
    assert dispatches["first_group_submit"].tolist() == [first] * 3
    took = tables.vulkan["exit_ns"].iloc[-1] - submit["enter_ns"]
    assert dispatches["submit_to_done_ns"].tolist() == [took] * 3
    assert set(dispatches["submit_result"]) == {"VK_SUCCESS"}


def test_command_buffer_recorded_again_is_another_recording() -> None:
    run = SyntheticTrace()
    for _ in range(2):
        record(run, CB)
        run.submit(QUEUE, CB)
    run.submit(QUEUE, CB)
    record(run, CB)
    tables = build(run.finish())
    assert tables.dispatches["submit_id"].fillna(-1).tolist() == [0, 1, -1]
    assert tables.dispatches["submits"].tolist() == [1, 2, 0]
    assert tables.dispatches["done_ns"].isna().all()
    assert tables.dispatches["group_submits"].fillna(-1).tolist() == [1, 1, -1]


def test_fence_of_a_later_submit_of_the_queue_is_an_answer_too() -> None:
    run = SyntheticTrace()
    run.submit(QUEUE, CB)
    run.submit(0x77, CB)
    run.submit(QUEUE, CB, fence=FENCE)
    run.call("vkGetFenceStatus", 1, FENCE)
    run.submit(QUEUE, CB)
    tables = build(run.finish())
    assert tables.submits["done_by"].tolist() == ["a later submit", "", "vkGetFenceStatus", ""]
    told = tables.vulkan.loc[tables.vulkan["function"] == "vkGetFenceStatus", "exit_ns"].iloc[0]
    assert tables.submits["done_ns"].fillna(0).tolist() == [told, 0, told, 0]


def test_unsignalled_or_unclear_waits_are_no_answer() -> None:
    run = SyntheticTrace()
    run.submit(QUEUE, CB, fence=FENCE)
    run.submit(0x77, CB, fence=FENCE + 1)
    wait(run, FENCE, result=2)  # VK_TIMEOUT
    wait(run, FENCE, FENCE + 1, every=0)  # one of them, but which?
    assert build(run.finish()).submits["done_ns"].isna().all()
    wait(run, FENCE, FENCE + 1)
    assert build(run.finish()).submits["done_by"].tolist() == ["vkWaitForFences"] * 2


def test_idle_queue_or_device_is_an_answer() -> None:
    run = SyntheticTrace()
    run.submit(QUEUE, CB)
    run.submit(0x77, CB)
    run.call("vkQueueWaitIdle", QUEUE)
    run.submit(QUEUE, CB)
    assert build(run.finish()).submits["done_by"].tolist() == ["vkQueueWaitIdle", "", ""]
    run.call("vkDeviceWaitIdle", 1)
    done = build(run.finish()).submits["done_by"].tolist()
    assert done == ["vkQueueWaitIdle", "vkDeviceWaitIdle", "vkDeviceWaitIdle"]


def test_submit_of_the_kernel_alone_is_a_row_of_its_own() -> None:
    run = SyntheticTrace()
    run.ioctl("GROUP_SUBMIT", {"group_handle": 1, "queue_submits_count": 3}, ret=-22)
    submit = build(run.finish()).submits.iloc[0]
    assert (submit["kind"], submit["result"], submit["group_submits"]) == ("kernel", "EINVAL", 1)
    assert submit["streams"] == 3


def test_cut_list_of_command_buffers_is_marked() -> None:
    run = SyntheticTrace()
    run.submit(QUEUE, CB)
    run.records[RecordType.VULKAN][-1]["head"]["flags"] = Flag.ARRAY_CUT
    assert build(run.finish()).submits["cut"].tolist() == [True]


def test_memory_follows_every_change_and_ends_with_the_process() -> None:
    run = SyntheticTrace()
    run.process(ProcessEvent.EXEC, "/bin/gpu")
    first = run.bo_create(MIB)
    run.bo_create(1 << 40, error=ENOMEM)
    run.vm_bind((first, MIB), va=0x1000_0000)
    run.vm_bind((first, MIB), va=0x2000_0000)
    run.ioctl(
        "TILER_HEAP_CREATE",
        {"vm_id": 1, "initial_chunk_count": 5, "chunk_size": 2 * MIB, "max_chunks": 64},
        {"handle": 3},
    )
    run.vm_bind((0, MIB), unmap=True, va=0x1000_0000)
    run.bo_close(first)  # bound memory lives on without a handle
    run.ioctl("TILER_HEAP_DESTROY", {"handle": 3})
    run.process(ProcessEvent.EXIT)
    tables = build(run.finish())
    memory = tables.memory
    assert (memory["pid"] == run.pid).all()
    assert (memory["live_bo_bytes"] // MIB).tolist() == [1, 1, 1, 1, 1, 0, 0, 0]
    assert memory["live_bos"].tolist() == [1, 1, 1, 1, 1, 0, 0, 0]
    assert (memory["bound_bytes"] // MIB).tolist() == [0, 1, 1, 1, 1, 1, 1, 0]
    assert (memory["va_bytes"] // MIB).tolist() == [0, 1, 2, 2, 1, 1, 1, 0]
    assert (memory["heap_bytes"] // MIB).tolist() == [0, 0, 0, 10, 10, 10, 0, 0]
    assert tables.heaps["destroyed_ns"].tolist() == [memory["time_ns"].iloc[-2]]


def test_group_knows_its_queues_submits_and_last_state() -> None:
    run = SyntheticTrace()
    asked = {"queues_count": 3, "priority": 1, "compute_core_mask": 0x50005, "vm_id": 1}
    run.ioctl("GROUP_CREATE", asked, {"group_handle": 1})
    run.submit(QUEUE, CB, groups=2)
    run.ioctl("GROUP_GET_STATE", {"group_handle": 1}, {"state": 0})
    run.ioctl("GROUP_GET_STATE", {"group_handle": 1}, {"state": 2, "fatal_queues": 1})
    run.ioctl("GROUP_DESTROY", {"group_handle": 1})
    run.ioctl("GROUP_CREATE", asked, ret=-16)
    groups = build(run.finish()).groups
    assert groups["queues"].tolist() == [3, 3]
    assert groups["priority"].tolist() == ["medium", "medium"]
    assert groups["submits"].tolist() == [2, 0]
    assert groups["state"].fillna(99).tolist() == [2, 99]
    assert groups["errno"].tolist() == ["", "EBUSY"]
    assert groups["destroyed_ns"].notna().tolist() == [True, False]
