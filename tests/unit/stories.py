# SPDX-License-Identifier: MIT
"""Runs whose cause is known, one for each way to fail: what the property tests then damage."""

from __future__ import annotations

import errno
import signal
from collections.abc import Callable
from dataclasses import dataclass

from panthor_trace.trace.schema import MappingKind, ProcessEvent, RecordType
from panthor_trace.verdict import Cause

from .synthetic import EBUSY, ENOMEM, NODE, OUT_OF_DEVICE_MEMORY, SyntheticTrace

ABORTED, KILLED = 134, 137
CB = 0xCB0
MIB = 1 << 20
DEVICE_LOST = -4
OUT_OF_HOST_MEMORY = -1
#: The allocation failed in the program's eyes: vulkan.hpp throws.
OUT_OF_MEMORY = "N2vk22OutOfDeviceMemoryErrorE"


@dataclass(frozen=True)
class Story:
    """What happened, how the command ended, and what that was."""

    name: str
    tell: Callable[[SyntheticTrace], None]
    exit_code: int
    truth: Cause


def begin(run: SyntheticTrace) -> None:
    """A device, a few buffers that are well, a command buffer being recorded."""
    run.process(ProcessEvent.EXEC, "/usr/bin/engine")
    run.call("vkCreateInstance")
    with run.vulkan("vkCreateDevice"):
        run.vm_create(0xFFFF_0000_0001_0000)
        run.ioctl("TILER_HEAP_CREATE", {"vm_id": 1, "chunk_size": 2 * MIB, "max_chunks": 64})
    with run.vulkan("vkAllocateMemory", 1):
        run.vm_bind((run.bo_create(MIB), MIB))
    run.call("vkBeginCommandBuffer", CB)
    with run.vulkan("vkCmdDispatch", CB, 8, 1, 1):
        run.vm_bind((run.bo_create(MIB, flags=1), MIB), va=0x2000_0000)


def end(run: SyntheticTrace, *, status: int = 0, by: int = signal.SIGABRT) -> None:
    """The program ends with ``status``, or by a signal."""
    run.process(ProcessEvent.EXIT, status=status, signal=by)


def _memory_in_the_call(run: SyntheticTrace) -> None:
    begin(run)
    with run.vulkan("vkAllocateMemory", 1, result=OUT_OF_DEVICE_MEMORY):
        handle = run.bo_create(64 * MIB)
        run.vm_bind((handle, 64 * MIB), error=ENOMEM)
        run.bo_close(handle)
    run.throw(OUT_OF_MEMORY)
    end(run)


def _memory_while_recording(run: SyntheticTrace) -> None:
    begin(run)
    with run.vulkan("vkCmdDispatch", CB, 64, 1, 1):
        run.bo_create(152 * MIB, error=ENOMEM)
    run.call("vkCmdDispatch", CB, 8, 1, 1)
    run.call("vkEndCommandBuffer", CB, result=OUT_OF_DEVICE_MEMORY)
    run.throw(OUT_OF_MEMORY)
    end(run)


def _cap(run: SyntheticTrace) -> None:
    run.call("vkCreateInstance")
    for number in range(4):
        with run.vulkan("vkCreateDevice"):
            run.vm_create(0xFFFF_0000_0001_0000 + (number << 12), vm_id=number + 1)
    with run.vulkan("vkCreateDevice", result=-3):
        run.ioctl("VM_CREATE", ret=-EBUSY)
    end(run, status=1, by=0)


def _cap_without_vulkan(run: SyntheticTrace) -> None:
    for _ in range(4):
        run.ioctl("GROUP_CREATE")
    run.ioctl("GROUP_CREATE", ret=-EBUSY)
    end(run)


def _rejected(run: SyntheticTrace) -> None:
    begin(run)
    with run.vulkan("vkAllocateMemory", 1, result=OUT_OF_DEVICE_MEMORY):
        run.vm_bind((run.bo_create(4096), 4097), error=errno.EINVAL)
    run.throw(OUT_OF_MEMORY)
    end(run)


def _drivers_addresses(run: SyntheticTrace) -> None:
    begin(run)
    with run.vulkan("vkAllocateMemory", 1, result=OUT_OF_DEVICE_MEMORY):
        run.bo_close(run.bo_create(8 * MIB))
    run.throw(OUT_OF_MEMORY)
    end(run)


def _drivers_own(run: SyntheticTrace) -> None:
    begin(run)
    with run.vulkan("vkAllocateMemory", 1, result=OUT_OF_DEVICE_MEMORY):
        run.vm_bind((run.bo_create(4096), 4096))
    run.throw(OUT_OF_MEMORY)
    end(run)


def _programs_own(run: SyntheticTrace) -> None:
    begin(run)
    run.throw(OUT_OF_MEMORY)
    end(run)


def _mapping_refused(run: SyntheticTrace) -> None:
    begin(run)
    with run.vulkan("vkAllocateMemory", 1, result=OUT_OF_HOST_MEMORY):
        handle = run.bo_create(MIB)
        refuse_mapping(run, MIB, errno.ENOMEM)
        run.bo_close(handle)
    run.throw("N2vk20OutOfHostMemoryErrorE")
    end(run)


def refuse_mapping(run: SyntheticTrace, size: int, error: int) -> None:
    """An mmap() of the node that is refused, with all the mappings there may be in use."""
    record = run.new(RecordType.MAPPING)
    record["kind"], record["length"], record["ret"] = MappingKind.NODE, size, -error
    record["fd"], record["device"] = run.fd, NODE["rdev"]
    record["maps"], record["address_space"] = 65531, 100_000
    record["exit_ns"] = run.tick()


def _lost_group(run: SyntheticTrace) -> None:
    begin(run)
    run.driver("panthor_sched_report_mmu_fault", owner=run.pid)
    run.driver("group_term_work", owner=run.pid, vm_fault=1)
    with run.vulkan("vkQueueSubmit", 1, 1, result=DEVICE_LOST):
        run.ioctl("GROUP_SUBMIT", ret=-errno.EINVAL)
    end(run)


def _lost_group_without_vulkan(run: SyntheticTrace) -> None:
    run.vm_create(0xFFFF_0000_0001_0000)
    run.driver("panthor_sched_report_mmu_fault", owner=run.pid)
    run.driver("group_term_work", owner=run.pid, vm_fault=1)
    run.ioctl("GROUP_SUBMIT", ret=-errno.EINVAL)
    end(run)


def _heap_full(run: SyntheticTrace) -> None:
    vm = 0xFFFF_0000_0001_0000
    run.vm_create(vm)
    made = {
        "vm_id": 1,
        "initial_chunk_count": 2,
        "chunk_size": 2 * MIB,
        "max_chunks": 2,
        "target_in_flight": 16,
    }
    run.ioctl("TILER_HEAP_CREATE", made, {"handle": 1 << 16, "tiler_heap_ctx_gpu_va": 0x8000_0000_0000})
    run.driver(
        "panthor_heap_grow",
        -ENOMEM,
        owner=run.pid,
        vm=vm,
        heap_va=0x8000_0000_0000,
        renderpasses_in_flight=1,
        pending_frag_count=1,
    )
    end(run)


def _killed(run: SyntheticTrace) -> None:
    begin(run)
    run.oom_kill()
    end(run, by=signal.SIGKILL)


def _recovered(run: SyntheticTrace) -> None:
    begin(run)
    with run.vulkan("vkAllocateMemory", 1, result=OUT_OF_DEVICE_MEMORY):
        run.bo_create(64 * MIB, error=ENOMEM)
    with run.vulkan("vkAllocateMemory", 1):
        run.vm_bind((run.bo_create(4096), 4096), va=0x3000_0000)
    run.call("vkEndCommandBuffer", CB)
    run.submit(1, CB)
    end(run, by=0)


def _clean(run: SyntheticTrace) -> None:
    begin(run)
    run.call("vkEndCommandBuffer", CB)
    run.submit(1, CB)
    end(run, by=0)


STORIES = (
    Story("memory-in-the-call", _memory_in_the_call, ABORTED, Cause.KERNEL_MEMORY),
    Story("memory-while-recording", _memory_while_recording, ABORTED, Cause.KERNEL_MEMORY),
    Story("cap", _cap, 1, Cause.KERNEL_CAP),
    Story("cap-without-vulkan", _cap_without_vulkan, ABORTED, Cause.KERNEL_CAP),
    Story("rejected", _rejected, ABORTED, Cause.KERNEL_REJECTED),
    Story("drivers-addresses", _drivers_addresses, ABORTED, Cause.DRIVER_VA),
    Story("drivers-own", _drivers_own, ABORTED, Cause.DRIVER_INTERNAL),
    Story("programs-own", _programs_own, ABORTED, Cause.APPLICATION),
    Story("mapping-refused", _mapping_refused, ABORTED, Cause.PROCESS_LIMIT),
    Story("lost-group", _lost_group, ABORTED, Cause.GPU_FAULT),
    Story("lost-group-without-vulkan", _lost_group_without_vulkan, ABORTED, Cause.GPU_FAULT),
    Story("heap-full", _heap_full, ABORTED, Cause.KERNEL_CAP),
    Story("killed", _killed, KILLED, Cause.KERNEL_MEMORY),
    Story("recovered", _recovered, 0, Cause.RECOVERED),
    Story("clean", _clean, 0, Cause.CLEAN),
)
