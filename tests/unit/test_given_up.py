# SPDX-License-Identifier: MIT
"""The verdict on programs that went on after a failure, or never came to use the GPU."""

from __future__ import annotations

import errno

import pytest

from panthor_trace.model import build
from panthor_trace.trace.schema import MappingKind, ProcessEvent
from panthor_trace.verdict import Cause, KernelCap, Verdict, judge

from .synthetic import ENOMEM, OUT_OF_DEVICE_MEMORY, SyntheticTrace

INCOMPATIBLE_DRIVER = -9


def verdict_of(run: SyntheticTrace, exit_code: int) -> Verdict:
    trace = run.finish(exit_code)
    return judge(build(trace), trace.meta, trace.end)


def without_driver(*, inside: bool) -> SyntheticTrace:
    """A loader that could not map its driver, when it was asked for extensions or for an instance."""
    run = SyntheticTrace()
    run.state(max_map_count=100)
    run.mmap(1 << 16, kind=MappingKind.LIBRARY, maps=90)
    if not inside:
        run.mmap(1 << 24, kind=MappingKind.LIBRARY, maps=101, error=ENOMEM)
    with run.vulkan("vkCreateInstance", result=INCOMPATIBLE_DRIVER):
        if inside:
            run.mmap(1 << 24, kind=MappingKind.LIBRARY, maps=101, error=ENOMEM)
    return run


@pytest.mark.parametrize("inside", [True, False])
def test_going_on_without_a_driver_says_why_it_was_not_loaded(inside: bool) -> None:
    verdict = verdict_of(without_driver(inside=inside), 0)
    assert (verdict.cause, verdict.kernel_cap) == (Cause.RECOVERED, KernelCap.NO)
    assert verdict.headline == "1 failure, and the program went on without the GPU"
    assert verdict.evidence[:3] == (
        "last failure: vkCreateInstance → VK_ERROR_INCOMPATIBLE_DRIVER",
        "the kernel refused to map a library of 16 MiB: ENOMEM",
        "mappings of the process: 101 of vm.max_map_count = 100",
    )


def test_ending_without_a_driver_is_the_limit_that_kept_it_from_loading() -> None:
    verdict = verdict_of(without_driver(inside=True), 1)
    assert (verdict.cause, verdict.refused_by) == (Cause.PROCESS_LIMIT, "kernel")
    assert verdict.failing_call is not None
    assert verdict.failing_call.name == "vkCreateInstance"
    assert verdict.refusal is not None
    assert verdict.refusal.limit is not None
    assert (verdict.refusal.limit.name, verdict.refusal.limit.value) == ("vm.max_map_count", 100)


def test_library_refused_before_another_call_is_not_its_reason() -> None:
    run = SyntheticTrace()
    run.call("vkCreateDevice")
    run.mmap(1 << 24, kind=MappingKind.LIBRARY, maps=101, error=ENOMEM)
    run.call("vkAllocateMemory", 1, result=OUT_OF_DEVICE_MEMORY)
    assert verdict_of(run, 1).cause is Cause.DRIVER_INTERNAL


def test_getting_over_a_refusal_names_it() -> None:
    run = SyntheticTrace()
    run.call("vkCreateDevice")
    with run.vulkan("vkAllocateMemory", 1, result=OUT_OF_DEVICE_MEMORY):
        run.bo_create(64 << 20, error=ENOMEM)
    run.call("vkQueueSubmit", 1, 1)
    verdict = verdict_of(run, 0)
    assert verdict.cause is Cause.RECOVERED
    assert "its reason: BO_CREATE of 64 MiB → ENOMEM inside vkAllocateMemory" in verdict.evidence


def test_vulkan_without_a_device_is_no_clean_run() -> None:
    run = SyntheticTrace()
    run.call("vkCreateInstance")
    verdict = verdict_of(run, 0)
    assert (verdict.cause, verdict.kernel_cap) == (Cause.INCONCLUSIVE, KernelCap.INCONCLUSIVE)
    assert "made no Vulkan device" in verdict.headline
    assert verdict.missing[0] == "why: no opening of a device node was refused"


def test_vulkan_without_a_device_while_openings_went_unseen() -> None:
    """A render node without permission: opening it fails."""
    run = SyntheticTrace()
    run.layers["mmap"] = {"live": False, "why": "no tracepoints"}
    run.call("vkCreateInstance")
    verdict = verdict_of(run, 0)
    assert verdict.cause is Cause.INCONCLUSIVE
    assert "may the command's user open /dev/dri/renderD128?" in verdict.missing[0]


def test_node_that_may_not_be_opened_is_named() -> None:
    run = SyntheticTrace()
    run.call("vkCreateInstance")
    run.mmap(0, kind=MappingKind.OPEN, error=errno.EACCES)
    verdict = verdict_of(run, 0)
    assert verdict.cause is Cause.RECOVERED
    assert "without the GPU" in verdict.headline
    assert "may the command's user open /dev/dri/renderD128?" in verdict.evidence


def test_another_drivers_device_is_a_clean_run() -> None:
    run = SyntheticTrace()
    run.call("vkCreateInstance")
    run.call("vkCreateDevice")
    assert verdict_of(run, 0).cause is Cause.CLEAN


@pytest.mark.parametrize(("status", "said"), [(139, "(SIGSEGV)"), (None, "the recording ended early, with")])
def test_nothing_to_judge_says_how_it_ended(status: int | None, said: str) -> None:
    run = SyntheticTrace()
    run.process(ProcessEvent.EXEC, "/bin/x")
    trace = run.finish(status)
    verdict = judge(build(trace), trace.meta, trace.end)
    assert verdict.cause is Cause.INCONCLUSIVE
    assert said in " ".join((verdict.headline, *verdict.evidence))


def test_want_of_descriptors_is_named_where_nothing_else_failed() -> None:
    run = SyntheticTrace()
    run.call("vkCreateInstance")
    run.mmap(5, kind=MappingKind.FILE, error=errno.EMFILE)
    verdict = verdict_of(run, 1)
    assert (verdict.cause, verdict.kernel_cap) == (Cause.PROCESS_LIMIT, KernelCap.NO)
    assert "open of a file → EMFILE" in verdict.headline
    assert verdict.refusal is not None
    assert verdict.refusal.limit is not None
    assert (verdict.refusal.limit.name, verdict.refusal.limit.value) == ("RLIMIT_NOFILE", 5)
    assert "open descriptors of the process: RLIMIT_NOFILE = 5" in verdict.evidence
    assert verdict.remedy is not None
    assert "ulimit -n" in verdict.remedy


def test_want_of_descriptors_of_a_program_that_ended_well_is_no_failure() -> None:
    run = SyntheticTrace()
    run.call("vkCreateInstance")
    run.call("vkCreateDevice")
    run.vm_create(0xFFFF_0000_0001_0000)
    run.mmap(5, kind=MappingKind.FILE, error=errno.EMFILE)
    assert verdict_of(run, 0).cause is Cause.CLEAN


def test_driver_that_could_not_be_opened_for_want_of_descriptors() -> None:
    run = SyntheticTrace()
    with run.vulkan("vkCreateInstance", result=INCOMPATIBLE_DRIVER):
        run.mmap(5, kind=MappingKind.FILE, error=errno.EMFILE)
    verdict = verdict_of(run, 1)
    assert verdict.cause is Cause.PROCESS_LIMIT
    assert "the kernel refused to open a file: EMFILE" in verdict.evidence
