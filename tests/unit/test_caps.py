# SPDX-License-Identifier: MIT
"""How much of each limit was in use at the failure; what is not known is never 0."""

from __future__ import annotations

import pytest

from panthor_trace.model import build
from panthor_trace.trace.reader import Trace
from panthor_trace.trace.schema import RecordType
from panthor_trace.verdict import CapUse, Cause, Verdict, judge

from .synthetic import EBUSY, ENOMEM, OUT_OF_DEVICE_MEMORY, SyntheticTrace, cgroup

MIB = 1 << 20
RANGE = 1 << 47


def verdict_of(trace: Trace) -> Verdict:
    return judge(build(trace), trace.meta, trace.end)


def cap(verdict: Verdict, name: str) -> CapUse:
    (found,) = [use for use in verdict.caps if use.name == name]
    return found


def vm(run: SyntheticTrace, number: int) -> None:
    run.ioctl("VM_CREATE", {"user_va_range": 0}, {"id": number, "user_va_range": RANGE})


def heap(run: SyntheticTrace, vm_id: int, number: int, chunks: int = 64) -> None:
    run.ioctl(
        "TILER_HEAP_CREATE",
        {"vm_id": vm_id, "initial_chunk_count": 5, "chunk_size": 2 * MIB, "max_chunks": chunks},
        {"handle": vm_id << 16 | number},
    )


def refuse(run: SyntheticTrace) -> None:
    with run.vulkan("vkAllocateMemory", 1, result=OUT_OF_DEVICE_MEMORY):
        run.bo_create(64 * MIB, error=ENOMEM)


def test_full_table_has_no_headroom() -> None:
    run = SyntheticTrace()
    for number in range(1, 33):
        vm(run, number)
    run.ioctl("VM_CREATE", ret=-EBUSY)
    use = cap(verdict_of(run.finish(1)), "vms")
    assert (use.used, use.limit, use.headroom) == (32, 32, 0)
    assert use.scope == "file 5 of process 100"


def test_only_what_lives_at_the_failure_counts() -> None:
    run = SyntheticTrace()
    vm(run, 1)
    vm(run, 2)
    run.ioctl("VM_DESTROY", {"id": 2})
    refuse(run)
    vm(run, 2)
    verdict = verdict_of(run.finish(134))
    assert cap(verdict, "vms").used == 1
    assert any("1 of 32 VMs" in fact for fact in verdict.ruled_out)


def test_id_given_out_again_means_the_file_was_closed_with_all_it_had() -> None:
    run = SyntheticTrace()
    for _ in range(3):
        for number in range(1, 24):
            vm(run, number)
            run.ioctl("GROUP_CREATE", {"vm_id": number}, {"group_handle": number})
    refuse(run)
    verdict = verdict_of(run.finish(134))
    assert cap(verdict, "vms").used == 23
    assert cap(verdict, "groups").used == 23


def test_heaps_go_with_their_vm_and_tell_nothing_of_the_file() -> None:
    run = SyntheticTrace()
    for _ in range(2):
        vm(run, 1)
        heap(run, 1, 0)
        run.ioctl("GROUP_CREATE", {"vm_id": 1}, {"group_handle": 1 + len(run.records[RecordType.IOCTL])})
        run.ioctl("VM_DESTROY", {"id": 1})
    vm(run, 1)
    heap(run, 1, 0)
    refuse(run)
    verdict = verdict_of(run.finish(134))
    assert [cap(verdict, name).used for name in ("vms", "heaps", "groups")] == [1, 1, 2]
    heaps = build(run.finish(134)).heaps
    assert heaps["destroyed_ns"].isna().tolist() == [False, False, True]


def test_two_openings_have_their_own_limits() -> None:
    run = SyntheticTrace()
    for number in range(1, 6):
        vm(run, number)
    run.file, run.fd = run.file + 0x100, 9
    for number in range(1, 4):
        vm(run, number)
    refuse(run)
    use = cap(verdict_of(run.finish(134)), "vms")
    assert (use.used, use.scope) == (5, "file 5 of process 100")


def test_heaps_are_counted_by_vm() -> None:
    run = SyntheticTrace()
    for number in range(2):
        heap(run, 1, number)
    for number in range(5):
        heap(run, 2, number, chunks=16)
    refuse(run)
    verdict = verdict_of(run.finish(134))
    use = cap(verdict, "heaps")
    assert (use.used, use.headroom) == (5, 123)
    assert use.scope == "VM 2, file 5 of process 100"


@pytest.mark.parametrize(("live", "used", "headroom"), [(True, 5, 11), (False, None, None)])
def test_chunks_are_unknown_without_the_driver_layer(
    live: bool, used: int | None, headroom: int | None
) -> None:
    run = SyntheticTrace()
    heap(run, 1, 0)
    heap(run, 1, 1, chunks=16)
    run.layers["driver"] = {"live": live, "why": ""}
    refuse(run)
    chunks = cap(verdict_of(run.finish(134)), "heap-chunks")
    assert (chunks.used, chunks.limit, chunks.headroom) == (used, 16, headroom)


def test_chunks_are_those_the_heap_had_at_the_failure() -> None:
    run = SyntheticTrace()
    heap(run, 1, 0)
    run.layers["driver"] = {"live": True, "why": ""}
    for _ in range(3):
        run.driver("panthor_heap_grow", heap_va=0)
    run.driver("panthor_heap_return_chunk", heap_va=0)
    refuse(run)
    run.driver("panthor_heap_grow", heap_va=0)
    chunks = cap(verdict_of(run.finish(134)), "heap-chunks")
    assert (chunks.used, chunks.headroom) == (7, 57)


def test_addresses_mapped_less_unmapped_of_each_vm() -> None:
    run = SyntheticTrace()
    vm(run, 1)
    handle = run.bo_create(8 * MIB)
    run.vm_bind((handle, 8 * MIB), va=0)
    run.vm_bind((handle, 4 * MIB), va=6 * MIB)  # half of it over the end of the first
    run.vm_bind((0, 2 * MIB), unmap=True, va=0)
    run.vm_bind((handle, MIB), error=ENOMEM)
    refuse(run)
    run.vm_bind((handle, MIB), va=64 * MIB)
    use = cap(verdict_of(run.finish(134)), "va")
    assert (use.used, use.limit) == (8 * MIB, RANGE)
    assert use.headroom == RANGE - 8 * MIB


def test_machine_side_comes_from_the_nearest_snapshot() -> None:
    run = SyntheticTrace()
    run.state("start", maps=10)
    run.now += 2_000_000_000
    refuse(run)
    run.state("failure", maps=812, available=2 << 30, cgroups=[cgroup("/c", 250 * MIB, 100 * MIB, 120 * MIB)])
    run.now += 2_000_000_000
    run.state("end", maps=None)
    verdict = verdict_of(run.finish(134))
    maps = cap(verdict, "mappings")
    assert (maps.used, maps.limit, maps.headroom, maps.note) == (812, 65530, 64718, "")
    group = cap(verdict, "memory-cgroup")
    assert (group.scope, group.used, group.limit, group.peak) == ("/c", 100 * MIB, 250 * MIB, 120 * MIB)
    memory = cap(verdict, "memory")
    assert (memory.headroom, memory.limit) == (2 << 30, 32 << 30)


@pytest.mark.parametrize(
    ("by", "note"), [("tracer", ""), ("deadline", "1.0 s later"), ("somebody else", "1.0 s later")]
)
def test_state_of_a_held_process_is_that_of_the_failure(by: str, note: str) -> None:
    run = SyntheticTrace()
    run.state("start", maps=10)
    run.now += 5_000_000_000
    with run.vulkan("vkAllocateMemory", 1, result=OUT_OF_DEVICE_MEMORY):
        run.bo_create(64 * MIB, error=ENOMEM)
        run.now += 1_000_000_000
        run.state("failure", maps=812, cgroups=[cgroup("/c", 250 * MIB, 249 * MIB, 250 * MIB)], held=by)
    trace = run.finish(134)
    for name in ("mappings", "memory-cgroup", "memory"):
        assert cap(verdict_of(trace), name).note == note
    assert cap(verdict_of(trace), "mappings").used == 812
    held = build(trace).states.iloc[-1]
    assert (held["hold"], held["held_ns"]) == ("held", 7_000_000)


def test_mapping_count_at_the_failure_beats_an_older_snapshot() -> None:
    run = SyntheticTrace()
    run.state(maps=7)
    run.now += 1_500_000_000
    with run.vulkan("vkMapMemory", 1, result=-1):
        run.mmap(MIB, error=ENOMEM, maps=65530)
    run.state(maps=6000)
    run.now += 1_500_000_000
    verdict = verdict_of(run.finish(134))
    assert verdict.cause is Cause.PROCESS_LIMIT
    maps = cap(verdict, "mappings")
    assert (maps.used, maps.limit, maps.headroom, maps.note) == (65530, 65530, 0, "")
    assert maps.scope == "process 100"


def test_mapping_count_that_the_kernel_did_not_give_is_not_zero() -> None:
    run = SyntheticTrace()
    run.state(maps=7)
    run.now += 1_500_000_000
    with run.vulkan("vkMapMemory", 1, result=-1):
        run.mmap(MIB, error=ENOMEM)
    maps = cap(verdict_of(run.finish(134)), "mappings")
    assert (maps.used, maps.note) == (7, "1.5 s before")


def test_snapshot_of_another_moment_says_so() -> None:
    run = SyntheticTrace()
    run.state(maps=7)
    run.now += 1_500_000_000
    refuse(run)
    assert cap(verdict_of(run.finish(134)), "mappings").note == "1.5 s before"


@pytest.mark.parametrize("name", ["mappings", "memory-cgroup", "memory"])
def test_what_was_not_recorded_is_unknown_not_nothing(name: str) -> None:
    run = SyntheticTrace()
    run.state(maps=None, available=None)
    refuse(run)
    verdict = verdict_of(run.finish(134))
    use = cap(verdict, name)
    assert (use.used, use.headroom) == (None, None)
    (content,) = [use for use in verdict.as_json()["caps"] if use["name"] == name]
    assert content["used"] is None


def test_driver_limits_are_left_out_on_a_machine_without_panthor() -> None:
    run = SyntheticTrace()
    with run.vulkan("vkCreateInstance"):
        pass
    names = {use.name for use in verdict_of(run.finish(0, nodes=())).caps}
    assert not names & {"vms", "groups", "heaps"}


def test_no_limit_is_not_an_unknown_limit() -> None:
    run = SyntheticTrace()
    refuse(run)
    run.state("failure", cgroups=[cgroup("/free", None, 5 * MIB, 6 * MIB)])
    use = cap(verdict_of(run.finish(134)), "memory-cgroup")
    assert (use.used, use.limit, use.note) == (5 * MIB, None, "no limit")


def test_clean_run_shows_its_fullest_moment() -> None:
    run = SyntheticTrace()
    vm(run, 1)
    handle = run.bo_create(8 * MIB)
    run.vm_bind((handle, 8 * MIB))
    run.bo_create(64 * MIB)
    run.vm_bind((0, 8 * MIB), unmap=True)
    run.bo_close(handle)
    run.ioctl("VM_DESTROY", {"id": 1})
    verdict = verdict_of(run.finish(0))
    assert verdict.cause is Cause.CLEAN
    assert cap(verdict, "va").used == 8 * MIB
    assert cap(verdict, "vms").used == 1


def test_root_group_has_no_limit_and_no_use_to_read() -> None:
    run = SyntheticTrace()
    refuse(run)
    run.state("failure")
    run.states[-1]["cgroup"] = "/sys/fs/cgroup"
    use = cap(verdict_of(run.finish(134)), "memory-cgroup")
    assert (use.used, use.limit, use.note) == (None, None, "the root group: no limit")
