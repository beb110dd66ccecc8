# SPDX-License-Identifier: MIT
"""The verdict on runs that differ in one thing each."""

from __future__ import annotations

import errno
import time

import numpy as np
import pytest

from panthor_trace.model import build
from panthor_trace.trace.reader import Trace
from panthor_trace.trace.schema import Counter, ProcessEvent, RecordType
from panthor_trace.verdict import Cause, Confidence, KernelCap, Verdict, judge

from .synthetic import EBUSY, ENOMEM, OUT_OF_DEVICE_MEMORY, SyntheticTrace

ABORTED = 134
CB = 0xCB0


def verdict_of(trace: Trace) -> Verdict:
    return judge(build(trace), trace.meta, trace.end)


def begun() -> SyntheticTrace:
    """A run that has begun to record a command buffer."""
    run = SyntheticTrace()
    run.call("vkCreateInstance")
    run.call("vkCreateDevice")
    run.call("vkBeginCommandBuffer", CB)
    return run


def test_refused_bind_inside_the_failing_call_is_the_kernels_memory() -> None:
    run = begun()
    with run.vulkan("vkAllocateMemory", 1, result=OUT_OF_DEVICE_MEMORY):
        handle = run.bo_create(64 << 20)
        run.vm_bind((handle, 64 << 20), error=ENOMEM)
        run.bo_close(handle)
    run.throw("N2vk22OutOfDeviceMemoryErrorE")
    verdict = verdict_of(run.finish(ABORTED))
    assert (verdict.cause, verdict.kernel_cap) == (Cause.KERNEL_MEMORY, KernelCap.NO)
    assert verdict.refused_by == "kernel"
    assert verdict.confidence is Confidence.HIGH
    assert verdict.refusal is not None
    assert (verdict.refusal.ioctl, verdict.refusal.errno) == ("VM_BIND", "ENOMEM")
    assert (verdict.refusal.inside, verdict.refusal.size) == ("vkAllocateMemory", 64 << 20)


def test_error_of_a_dispatch_is_found_behind_the_end_that_reports_it() -> None:
    run = begun()
    run.call("vkCmdDispatch", CB, 8, 1, 1)
    with run.vulkan("vkCmdDispatch", CB, 64, 2, 1):
        run.bo_create(152 << 20, error=ENOMEM)
    run.call("vkCmdDispatch", CB, 9, 1, 1)
    run.call("vkEndCommandBuffer", CB, result=OUT_OF_DEVICE_MEMORY)
    run.throw("N2vk22OutOfDeviceMemoryErrorE")
    verdict = verdict_of(run.finish(ABORTED))
    assert verdict.cause is Cause.KERNEL_MEMORY
    call = verdict.failing_call
    assert call is not None
    assert (call.name, call.error) == ("vkEndCommandBuffer", "VK_ERROR_OUT_OF_DEVICE_MEMORY")
    assert (call.dispatch_number, call.workgroups, call.command_buffer) == (2, (64, 2, 1), CB)
    assert verdict.refusal is not None
    assert verdict.refusal.size == 152 << 20


def test_failure_of_another_command_buffer_does_not_explain_this_one() -> None:
    run = begun()
    run.call("vkBeginCommandBuffer", 0xCB1)
    with run.vulkan("vkCmdDispatch", 0xCB1, 1, 1, 1):
        run.bo_create(4096, error=ENOMEM)
    run.call("vkEndCommandBuffer", CB, result=OUT_OF_DEVICE_MEMORY)
    assert verdict_of(run.finish(ABORTED)).cause is Cause.DRIVER_INTERNAL


def test_failure_of_an_earlier_recording_does_not_explain_a_later_one() -> None:
    run = begun()
    with run.vulkan("vkCmdDispatch", CB, 1, 1, 1):
        run.bo_create(4096, error=ENOMEM)
    run.call("vkEndCommandBuffer", CB)
    run.call("vkBeginCommandBuffer", CB)
    run.call("vkEndCommandBuffer", CB, result=OUT_OF_DEVICE_MEMORY)
    assert verdict_of(run.finish(ABORTED)).cause is Cause.DRIVER_INTERNAL


def test_request_between_probed_calls_belongs_to_the_open_recording() -> None:
    """A recording function without a probe of its own (vkCmdPushConstants) asks the kernel, too."""
    run = begun()
    run.bo_create(4096, error=ENOMEM)
    run.call("vkEndCommandBuffer", CB, result=OUT_OF_DEVICE_MEMORY)
    assert verdict_of(run.finish(ABORTED)).cause is Cause.KERNEL_MEMORY


@pytest.mark.parametrize("ioctl", ["VM_CREATE", "GROUP_CREATE", "TILER_HEAP_CREATE"])
def test_full_table_of_the_driver_is_a_cap(ioctl: str) -> None:
    run = SyntheticTrace()
    with run.vulkan("vkCreateDevice", result=-3):
        run.ioctl(ioctl, ret=-EBUSY)
    verdict = verdict_of(run.finish(1))
    assert (verdict.cause, verdict.kernel_cap) == (Cause.KERNEL_CAP, KernelCap.YES)


def test_rejected_request_is_not_a_cap() -> None:
    run = begun()
    with run.vulkan("vkAllocateMemory", 1, result=OUT_OF_DEVICE_MEMORY):
        run.vm_bind((run.bo_create(4096), 4097), error=errno.EINVAL)
    verdict = verdict_of(run.finish(ABORTED))
    assert (verdict.cause, verdict.kernel_cap) == (Cause.KERNEL_REJECTED, KernelCap.NO)


def test_buffer_closed_without_bind_is_panvks_address_space() -> None:
    run = begun()
    with run.vulkan("vkAllocateMemory", 1, result=OUT_OF_DEVICE_MEMORY):
        run.bo_close(run.bo_create(8 << 20))
    verdict = verdict_of(run.finish(ABORTED))
    assert (verdict.cause, verdict.refused_by) == (Cause.DRIVER_VA, "panvk")
    assert verdict.kernel_cap is KernelCap.NO


def test_failing_call_without_any_refusal_is_the_drivers_own() -> None:
    run = begun()
    run.vm_bind((run.bo_create(4096), 4096))
    run.call("vkAllocateMemory", 1, result=OUT_OF_DEVICE_MEMORY)
    verdict = verdict_of(run.finish(ABORTED))
    assert verdict.cause is Cause.DRIVER_INTERNAL
    assert verdict.ruled_out


def test_lost_device_is_a_gpu_fault() -> None:
    run = begun()
    run.call("vkQueueSubmit", 1, 1, result=-4)
    assert verdict_of(run.finish(ABORTED)).cause is Cause.GPU_FAULT


def test_exception_without_failing_call_is_the_programs_own() -> None:
    run = begun()
    run.throw("N2vk22OutOfDeviceMemoryErrorE")
    verdict = verdict_of(run.finish(ABORTED))
    assert (verdict.cause, verdict.refused_by) == (Cause.APPLICATION, "program")


def test_retry_that_succeeds_is_recovered() -> None:
    run = begun()
    with run.vulkan("vkAllocateMemory", 1, result=OUT_OF_DEVICE_MEMORY):
        run.bo_create(4096, error=ENOMEM)
    with run.vulkan("vkAllocateMemory", 1):
        run.vm_bind((run.bo_create(4096), 4096))
    run.call("vkQueueSubmit", 1, 1)
    verdict = verdict_of(run.finish(0))
    assert (verdict.cause, verdict.kernel_cap) == (Cause.RECOVERED, KernelCap.NO)
    assert "got over it" in verdict.headline


def test_running_on_without_the_gpu_is_said() -> None:
    run = SyntheticTrace()
    run.call("vkCreateInstance")
    with run.vulkan("vkCreateDevice", result=-1):
        run.ioctl("DEV_QUERY")
    verdict = verdict_of(run.finish(0))
    assert verdict.cause is Cause.RECOVERED
    assert "without the GPU" in verdict.headline


def test_program_that_talks_to_panthor_itself() -> None:
    run = SyntheticTrace()
    for _ in range(32):
        run.ioctl("VM_CREATE")
    run.ioctl("VM_CREATE", ret=-EBUSY)
    verdict = verdict_of(run.finish(0))
    assert (verdict.cause, verdict.kernel_cap) == (Cause.KERNEL_CAP, KernelCap.YES)


def test_nothing_failed_is_clean() -> None:
    run = begun()
    run.vm_bind((run.bo_create(4096), 4096))
    run.call("vkEndCommandBuffer", CB)
    verdict = verdict_of(run.finish(0))
    assert (verdict.cause, verdict.kernel_cap) == (Cause.CLEAN, KernelCap.NO)


def test_polling_is_not_a_failure() -> None:
    run = begun()
    run.ioctl("SYNCOBJ_WAIT", ret=-errno.ETIME)
    assert verdict_of(run.finish(0)).cause is Cause.CLEAN


@pytest.mark.parametrize(
    ("status", "said"), [(3, "exit status is 3,"), (139, "exit status is 139 (SIGSEGV)")]
)
def test_clean_says_that_the_command_failed_all_the_same(status: int, said: str) -> None:
    verdict = verdict_of(begun().finish(status))
    assert verdict.cause is Cause.CLEAN
    assert verdict.headline.startswith("the command failed, but nothing on the GPU's path did")
    assert any(said in line for line in verdict.evidence)


def test_clean_on_another_driver_says_that_panthor_was_not_used() -> None:
    verdict = verdict_of(begun().finish(0, nodes=()))
    assert verdict.cause is Cause.CLEAN
    assert "no panthor device" in verdict.headline


def test_run_that_never_used_the_gpu_is_not_clean() -> None:
    verdict = verdict_of(SyntheticTrace().finish(0))
    assert (verdict.cause, verdict.kernel_cap) == (Cause.INCONCLUSIVE, KernelCap.INCONCLUSIVE)


@pytest.mark.parametrize("counter", [Counter.LOST_IOCTL, Counter.MISSED_IOCTL, Counter.LOST_VULKAN])
def test_losses_make_absence_inconclusive(counter: Counter) -> None:
    run = begun()
    run.bo_create(4096)
    run.lose(counter, 3)
    verdict = verdict_of(run.finish(0))
    assert verdict.cause is Cause.INCONCLUSIVE
    assert verdict.losses == ((counter.name.lower(), 3),)


def test_losses_do_not_hide_a_refusal_that_was_seen() -> None:
    run = begun()
    with run.vulkan("vkAllocateMemory", 1, result=OUT_OF_DEVICE_MEMORY):
        run.bo_create(4096, error=ENOMEM)
    run.lose(Counter.LOST_IOCTL, 3)
    verdict = verdict_of(run.finish(ABORTED))
    assert (verdict.cause, verdict.confidence) == (Cause.KERNEL_MEMORY, Confidence.MEDIUM)


def test_missing_layer_makes_absence_inconclusive() -> None:
    run = begun()
    run.layers["vulkan"] = {"live": False, "why": "no libvulkan"}
    verdict = verdict_of(run.finish(0))
    assert verdict.cause is Cause.INCONCLUSIVE
    assert any("no libvulkan" in reason for reason in verdict.missing)


def test_recording_cut_short_is_inconclusive() -> None:
    assert verdict_of(begun().finish(None)).cause is Cause.INCONCLUSIVE


def test_verdict_is_plain_json() -> None:
    content = verdict_of(begun().finish(0)).as_json()
    assert (content["cause"], content["kernel_cap"]) == ("clean", "no")


def test_out_of_memory_killer_is_the_kernels_memory() -> None:
    run = begun()
    run.oom_kill()
    verdict = verdict_of(run.finish(137))
    assert (verdict.cause, verdict.kernel_cap) == (Cause.KERNEL_MEMORY, KernelCap.NO)
    assert "out-of-memory killer" in verdict.headline


def test_refusal_before_the_out_of_memory_killer_is_named_with_it() -> None:
    run = begun()
    run.vm_bind((run.bo_create(4096), 4096), error=ENOMEM)
    run.oom_kill()
    verdict = verdict_of(run.finish(137))
    assert verdict.refusal is not None
    assert verdict.refusal.ioctl == "VM_BIND"
    assert any("out-of-memory killer" in fact for fact in verdict.evidence)


def test_command_that_was_not_seen_makes_absence_inconclusive() -> None:
    trace = begun().finish(0)
    assert trace.end is not None
    verdict = judge(build(trace), trace.meta, {**trace.end, "root_pid": 4242})
    assert verdict.cause is Cause.INCONCLUSIVE
    assert any("PID namespace" in reason for reason in verdict.missing)


def test_request_refused_then_granted_is_recovered_and_the_other_is_not() -> None:
    run = SyntheticTrace()
    run.bo_create(4096, error=ENOMEM)
    run.vm_bind((run.bo_create(4096), 4096), error=ENOMEM)
    verdict = verdict_of(run.finish(0))
    assert verdict.refusal is not None
    assert (verdict.refusal.ioctl, verdict.refusal.count) == ("VM_BIND", 1)
    run.vm_bind((1, 4096))
    assert verdict_of(run.finish(0)).cause is Cause.RECOVERED


def test_a_hundred_thousand_refusals_are_judged_at_once() -> None:
    """Each looked at on its own would take minutes."""
    run = SyntheticTrace()
    run.ioctl("VM_CREATE", ret=-EBUSY)
    trace = run.finish(0)
    one = trace.records[RecordType.IOCTL]
    many = np.repeat(one, 100_000)
    many["head"]["enter_ns"] += np.arange(len(many), dtype=np.uint64) * 2
    many["exit_ns"] = many["head"]["enter_ns"] + 1
    start = time.process_time()
    verdict = verdict_of(Trace(trace.meta, {RecordType.IOCTL: many}, trace.end))
    assert verdict.refusal is not None
    assert verdict.refusal.count == 100_000
    assert time.process_time() - start < 10


def in_background(run: SyntheticTrace, pid: int, *, granted_later: bool, status: int) -> None:
    """Another process of the command: a refused allocation, one more that is granted or not, its end."""
    run.fork(pid)
    ours, run.pid, run.tid = run.pid, pid, pid
    with run.vulkan("vkAllocateMemory", 1, result=OUT_OF_DEVICE_MEMORY):
        run.bo_create(4096, error=ENOMEM)
    if granted_later:
        with run.vulkan("vkAllocateMemory", 1):
            run.vm_bind((run.bo_create(4096), 4096))
    run.process(ProcessEvent.EXIT, status=status)
    run.pid = run.tid = ours


def test_process_that_failed_is_judged_though_the_shell_did_not_care() -> None:
    run = begun()
    in_background(run, 101, granted_later=False, status=1)
    verdict = verdict_of(run.finish(0))
    assert verdict.cause is Cause.KERNEL_MEMORY
    assert verdict.failing_call is not None
    assert verdict.failing_call.pid == 101


def test_recovery_of_one_process_does_not_hide_the_failure_of_another() -> None:
    run = begun()
    in_background(run, 101, granted_later=False, status=1)
    in_background(run, 102, granted_later=True, status=0)
    verdict = verdict_of(run.finish(0))
    assert verdict.failing_call is not None
    assert verdict.failing_call.pid == 101


def test_exception_of_a_process_that_ended_well_is_not_the_end() -> None:
    run = begun()
    run.fork(101)
    run.pid = run.tid = 101
    run.throw("N2vk22OutOfDeviceMemoryErrorE")
    run.process(ProcessEvent.EXIT, status=0)
    assert verdict_of(run.finish(0)).cause is Cause.CLEAN
    run.process(ProcessEvent.EXIT, status=1)
    assert verdict_of(run.finish(0)).cause is Cause.APPLICATION


@pytest.mark.parametrize(("lowered_to", "met"), [(500, 500), (1000, None)])
def test_limit_of_mappings_is_the_one_at_the_refusal(lowered_to: int, met: int | None) -> None:
    """A sysctl that was changed while the recording ran: what the first snapshot saw does not matter."""
    run = begun()
    run.state()
    run.state("failure", max_map_count=lowered_to)
    with run.vulkan("vkCreateDescriptorPool", 1, result=-1):
        handle = run.bo_create(1 << 16)
        run.mmap(1 << 16, error=ENOMEM, maps=501)
        run.bo_close(handle)
    refusal = verdict_of(run.finish(1)).refusal
    assert refusal is not None
    assert (refusal.limit.value if refusal.limit else None) == met
