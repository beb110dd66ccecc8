# SPDX-License-Identifier: MIT
"""What is said of the way out: what would have been enough, how it grows, what to do."""

from __future__ import annotations

import errno

import pytest

from panthor_trace.model import build
from panthor_trace.trace.schema import ProcessEvent
from panthor_trace.verdict import Cause, Verdict, judge
from panthor_trace.verdict.remedies import NO_REMEDY, REMEDIES
from panthor_trace.verdict.wording import ordinal

from .synthetic import EBUSY, ENOMEM, OUT_OF_DEVICE_MEMORY, SyntheticTrace, cgroup

ABORTED = 134
CB = 0xCB0
MIB = 1 << 20
TIGHT = "/sys/fs/cgroup/tight"


def verdict_of(run: SyntheticTrace, exit_code: int = ABORTED) -> Verdict:
    trace = run.finish(exit_code)
    return judge(build(trace), trace.meta, trace.end)


def test_every_cause_has_a_remedy_or_a_reason_for_none() -> None:
    assert {row.cause for row in REMEDIES} | set(NO_REMEDY) == set(Cause)
    assert not {row.cause for row in REMEDIES} & set(NO_REMEDY)


def test_no_two_remedies_are_about_the_same() -> None:
    keys = [(row.cause, row.about) for row in REMEDIES]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("ioctl", "number", "said"),
    [
        ("VM_CREATE", 32, "32 VMs per open file were allowed; the 33rd was asked for"),
        ("GROUP_CREATE", 128, "128 scheduling groups per open file were allowed; the 129th was asked for"),
        ("TILER_HEAP_CREATE", 128, "128 tiler heaps per VM were allowed; the 129th was asked for"),
    ],
)
def test_a_full_table_says_the_number_that_was_one_too_many(ioctl: str, number: int, said: str) -> None:
    run = SyntheticTrace()
    for _ in range(number):
        run.ioctl(ioctl)
    run.ioctl(ioctl, ret=-EBUSY)
    verdict = verdict_of(run)
    assert verdict.enough == (said,)
    assert verdict.remedy is not None
    assert "no option raises the limit" in verdict.remedy


def test_chunk_size_says_what_was_allowed() -> None:
    run = SyntheticTrace()
    asked = {"vm_id": 1, "chunk_size": 16 * MIB, "initial_chunk_count": 1, "max_chunks": 1}
    run.ioctl("TILER_HEAP_CREATE", asked, ret=-errno.EINVAL)
    assert verdict_of(run).enough == ("chunks of at most 8 MiB were allowed; 16 MiB was asked for",)


def tight(run: SyntheticTrace, current: int, limit: int, met: int) -> None:
    run.state(cgroups=[cgroup(TIGHT, limit, current, current, max=met)])


def test_a_request_larger_than_the_cgroup_says_by_how_much() -> None:
    run = SyntheticTrace()
    tight(run, 4 * MIB, 64 * MIB, 0)
    run.bo_create(96 * MIB, error=ENOMEM)
    tight(run, 4 * MIB, 64 * MIB, 9)
    verdict = verdict_of(run)
    assert verdict.enough == (
        "BO_CREATE needed 96 MiB, the whole cgroup may have 64 MiB: at least 32 MiB more",
    )
    assert verdict.remedy is not None
    assert f"{TIGHT}/memory.max" in verdict.remedy


def test_a_request_that_the_cgroup_has_no_room_for_says_how_much_it_lacked() -> None:
    run = SyntheticTrace()
    tight(run, 60 * MIB, 64 * MIB, 0)
    run.bo_create(10 * MIB, error=ENOMEM)
    tight(run, 64 * MIB, 64 * MIB, 9)
    (said,) = verdict_of(run).enough
    assert said.startswith(
        "BO_CREATE needed up to 6 MiB more than the cgroup allowed: 10 MiB asked for, 60 MiB of"
    )


def test_memory_of_the_machine_says_how_much_it_lacked() -> None:
    run = SyntheticTrace()
    run.state(available=100 * MIB, total=1 << 30)
    run.bo_create(300 * MIB, error=ENOMEM)
    (said,) = verdict_of(run).enough
    assert "needed 300 MiB, 100 MiB were available" in said
    assert "at least 200 MiB more" in said


def test_growth_with_workgroups_is_told_from_the_refused_buffers_pool() -> None:
    run = SyntheticTrace()
    run.call("vkBeginCommandBuffer", CB)
    for groups in (8, 16):
        with run.vulkan("vkCmdDispatch", CB, groups, 1, 1):
            size = groups * MIB
            run.vm_bind((run.bo_create(size, flags=1), size), va=groups << 26)
    with run.vulkan("vkCmdDispatch", CB, 64, 1, 1):
        run.bo_create(64 * MIB, error=ENOMEM, flags=1)
    run.call("vkEndCommandBuffer", CB, result=OUT_OF_DEVICE_MEMORY)
    verdict = verdict_of(run)
    assert verdict.buffer is not None
    assert (verdict.buffer.size, verdict.buffer.pool) == (64 * MIB, "WLS")
    assert verdict.growth[0].endswith("3 buffers, 88 MiB of the 88 MiB asked for until then")
    assert verdict.growth[1:] == (
        "3 dispatches took from it, 8 MiB to 64 MiB each",
        "with more workgroups it grew: 8 MiB at 8 workgroups, 64 MiB at 64",
    )


def driver_out_of_addresses(run: SyntheticTrace) -> Verdict:
    """Below 4 GiB there are two buffers, then a third one finds no address."""
    run.vm_create(0xFFFF_0000_0000_2000)
    run.call("vkBeginCommandBuffer", CB)
    for place in (0x4000_0000, 0x8000_0000):
        with run.vulkan("vkCmdDispatch", CB, 8, 1, 1):
            run.vm_bind((run.bo_create(MIB, flags=1), MIB), va=place)
    with run.vulkan("vkCmdDispatch", CB, 8, 1, 1):
        run.bo_close(run.bo_create(3 << 30, flags=1))
    run.call("vkEndCommandBuffer", CB, result=OUT_OF_DEVICE_MEMORY)
    return verdict_of(run)


def test_drivers_addresses_say_how_much_was_left_in_one_piece() -> None:
    verdict = driver_out_of_addresses(SyntheticTrace())
    assert verdict.cause is Cause.DRIVER_VA
    assert verdict.enough == (
        "3 GiB were wanted in one piece; 2 MiB of 4 GiB are in use, the largest piece left is 2 GiB",
    )


def test_options_of_llama_are_named_to_its_users_only() -> None:
    other = driver_out_of_addresses(SyntheticTrace()).remedy
    run = SyntheticTrace()
    run.process(ProcessEvent.EXEC, "/usr/bin/llama-bench")
    llama = driver_out_of_addresses(run).remedy
    assert other is not None
    assert llama is not None
    assert "-ub" not in other
    assert llama.startswith(other)
    assert "-ub" in llama


def test_ggmls_own_limit_names_the_variable_that_overrides_it() -> None:
    run = SyntheticTrace()
    run.process(ProcessEvent.EXEC, "/usr/bin/llama-bench")
    run.call("vkCreateDevice")
    run.throw("N2vk22OutOfDeviceMemoryErrorE")
    verdict = verdict_of(run)
    assert verdict.cause is Cause.APPLICATION
    assert verdict.remedy is not None
    assert "GGML_VK_FORCE_MAX_BUFFER_SIZE" in verdict.remedy


def test_where_nothing_is_known_nothing_is_said() -> None:
    run = SyntheticTrace()
    run.call("vkCreateDevice")
    run.throw("St9bad_alloc")
    verdict = verdict_of(run)
    assert (verdict.cause, verdict.remedy, verdict.enough) == (Cause.APPLICATION, None, ())


@pytest.mark.parametrize(
    ("number", "text"), [(1, "1st"), (2, "2nd"), (13, "13th"), (33, "33rd"), (112, "112th"), (65, "65th")]
)
def test_ordinals(number: int, text: str) -> None:
    assert ordinal(number) == text
