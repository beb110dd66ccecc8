# SPDX-License-Identifier: MIT
"""The verdict where panvk's own addresses are used up, and what was in them."""

from __future__ import annotations

from panthor_trace.model import build
from panthor_trace.model.addresses import LOWEST, OwnAddresses, own_addresses
from panthor_trace.verdict import Cause, Confidence, KernelCap, Verdict, judge

from .synthetic import OUT_OF_DEVICE_MEMORY, SyntheticTrace

ABORTED = 134
MIB = 1 << 20
TLS = 152 * MIB
NO_MMAP = 1
TOP = 1 << 32


def recorded(buffers: int, *, application_va: int = TOP) -> SyntheticTrace:
    """Command buffers recorded one after the other, each with a TLS buffer bound below the last one."""
    run = SyntheticTrace()
    run.vm_create(0xFFFF_0000_0000_2000)
    with run.vulkan("vkAllocateMemory", 1):
        run.vm_bind((run.bo_create(64 * MIB), 64 * MIB), va=application_va)
    for number in range(1, buffers + 1):
        run.call("vkBeginCommandBuffer", number)
        with run.vulkan("vkEndCommandBuffer", number):
            run.vm_bind((run.bo_create(TLS, flags=NO_MMAP), TLS), va=TOP - number * TLS)
    return run


def refused(run: SyntheticTrace) -> Verdict:
    """One more command buffer, whose TLS finds no address."""
    run.call("vkBeginCommandBuffer", 0xCB)
    with run.vulkan("vkEndCommandBuffer", 0xCB, result=OUT_OF_DEVICE_MEMORY):
        run.bo_close(run.bo_create(TLS, flags=NO_MMAP))
    trace = run.finish(ABORTED)
    return judge(build(trace), trace.meta, trace.end)


def addresses(run: SyntheticTrace) -> OwnAddresses | None:
    tables = build(run.finish(0))
    return own_addresses(tables.bos, tables.vms.iloc[0], run.now)


def test_full_range_is_told_with_pool_size_and_gap() -> None:
    verdict = refused(recorded(26))
    assert (verdict.cause, verdict.kernel_cap) == (Cause.DRIVER_VA, KernelCap.NO)
    assert (verdict.refused_by, verdict.confidence) == ("panvk", Confidence.HIGH)
    assert "no room for 152 MiB" in verdict.headline
    story = " ".join(verdict.evidence)
    assert "a buffer of 152 MiB (TLS: made inside vkEndCommandBuffer" in story
    assert "3.9 GiB used by 26 buffers (TLS 3.9 GiB in 26)" in story
    assert "the largest gap there, 112 MiB, does not hold the buffer" in story
    own = next(use for use in verdict.caps if use.name == "panvk-va")
    assert (own.used, own.limit) == (26 * TLS, TOP - LOWEST)


def test_room_that_was_there_makes_the_answer_doubtful() -> None:
    verdict = refused(recorded(3))
    assert (verdict.cause, verdict.confidence) == (Cause.DRIVER_VA, Confidence.LOW)
    assert any("a gap of 3.5 GiB was there for 152 MiB" in reason for reason in verdict.missing)


def test_reset_command_buffer_gives_its_addresses_back() -> None:
    run = recorded(2)
    before = addresses(run)
    run.call("vkResetCommandBuffer", 2)
    run.vm_bind((0, TLS), unmap=True, va=TOP - 2 * TLS)
    after = addresses(run)
    assert before is not None
    assert after is not None
    assert (before.used, after.used) == (2 * TLS, TLS)
    assert after.largest_gap - before.largest_gap == TLS
    assert after.pools == {"TLS": (1, TLS)}


def test_gap_between_buffers_counts() -> None:
    run = recorded(0)
    for low in (LOWEST, 3 << 30):
        run.call("vkBeginCommandBuffer", low)
        with run.vulkan("vkEndCommandBuffer", low):
            run.vm_bind((run.bo_create(MIB, flags=NO_MMAP), MIB), va=low)
    own = addresses(run)
    assert own is not None
    assert own.largest_gap == (3 << 30) - LOWEST - MIB
    assert own.has_room(2 << 30)
    assert not own.has_room(own.largest_gap), "its alignment does not fit"


def test_application_memory_among_panvks_own_leaves_the_range_unknown() -> None:
    """Another way of giving out addresses than the one that is known: say no more than was seen."""
    run = recorded(2, application_va=1 << 30)
    assert addresses(run) is None
    verdict = refused(run)
    assert (verdict.cause, verdict.confidence) == (Cause.DRIVER_VA, Confidence.MEDIUM)
    assert "panvk-va" not in {use.name for use in verdict.caps}


def test_program_without_vulkan_has_no_range_of_panvks() -> None:
    run = SyntheticTrace()
    run.vm_create(0xFFFF_0000_0000_2000)
    run.vm_bind((run.bo_create(MIB), MIB), va=1 << 30)
    assert addresses(run) is None
