# SPDX-License-Identifier: MIT
"""Tables of what happened inside the driver, and what the rules make of them."""

from __future__ import annotations

import errno

import pandas as pd

from panthor_trace.model import build
from panthor_trace.verdict import Cause, Confidence, KernelCap, Verdict, judge

from .synthetic import ENOMEM, SyntheticTrace

ENOSPC, EINVAL, EBUSY = errno.ENOSPC, errno.EINVAL, errno.EBUSY
VM = 0xFFFF_0000_1234_0000
HEAP_VA = 0x8000_0001_5000
ABORTED = 134


def verdict_on(trace: SyntheticTrace, exit_code: int = ABORTED) -> Verdict:
    finished = trace.finish(exit_code)
    return judge(build(finished), finished.meta, finished.end)


def first_row(table: pd.DataFrame) -> pd.Series:
    assert len(table) == 1
    return table.iloc[0]


def with_heap(trace: SyntheticTrace, *, chunks: int = 2, max_chunks: int = 4, target: int = 16) -> None:
    trace.vm_create(VM)
    heap = {
        "vm_id": 1,
        "initial_chunk_count": chunks,
        "chunk_size": 2 << 20,
        "max_chunks": max_chunks,
        "target_in_flight": target,
    }
    trace.ioctl("TILER_HEAP_CREATE", heap, {"handle": 1 << 16, "tiler_heap_ctx_gpu_va": HEAP_VA})


def grow(trace: SyntheticTrace, ret: int = 0, *, passes: int = 1) -> None:
    values = {"vm": VM, "heap_va": HEAP_VA, "renderpasses_in_flight": passes}
    trace.driver("panthor_heap_grow", ret, **values)


# Where an errno came from.


def test_origin_is_the_innermost_function_that_returned_the_errno() -> None:
    trace = SyntheticTrace()
    chain = [
        ("panthor_vm_alloc_va", -ENOSPC, 100),
        ("panthor_kernel_bo_create", -ENOSPC, 200),
        ("panthor_alloc_heap_chunk", -ENOSPC, 300),
        ("panthor_heap_create", -ENOSPC, 400),
        ("panthor_ioctl_tiler_heap_create", -ENOSPC, 500),
    ]
    trace.ioctl("TILER_HEAP_CREATE", ret=-ENOSPC, inside=chain)
    row = first_row(build(trace.finish()).ioctls)
    assert row["origin"] == "panthor_vm_alloc_va"
    assert row["origin_chain"] == " < ".join(name for name, _, _ in chain)


def test_a_failure_the_driver_got_over_is_not_the_origin() -> None:
    """The first attempt's function had returned to the same caller before the second was called."""
    trace = SyntheticTrace()
    trace.ioctl(
        "VM_BIND",
        ret=-ENOMEM,
        inside=[
            ("drm_gem_get_pages", -ENOMEM, 100),
            ("panthor_gem_pin", -ENOMEM, 200),
            ("panthor_vm_op_ctx_prealloc_pts", -ENOMEM, 200),
            ("panthor_vm_prepare_map_op_ctx", -ENOMEM, 300),
            ("panthor_ioctl_vm_bind", -ENOMEM, 400),
        ],
    )
    row = first_row(build(trace.finish()).ioctls)
    assert row["origin"] == "panthor_vm_op_ctx_prealloc_pts"
    assert "panthor_gem_pin" not in row["origin_chain"]


def test_an_errno_that_was_translated_on_the_way() -> None:
    trace = SyntheticTrace()
    inside = [("panthor_gem_pin", -ENOMEM, 100), ("panthor_vm_prepare_map_op_ctx", -EINVAL, 200),
              ("panthor_ioctl_vm_bind", -EINVAL, 300)]  # fmt: skip
    trace.ioctl("VM_BIND", ret=-EINVAL, inside=inside)
    row = first_row(build(trace.finish()).ioctls)
    assert row["origin"] == "panthor_vm_prepare_map_op_ctx"
    assert row["origin_chain"].startswith("panthor_gem_pin (ENOMEM) < ")


def test_no_origin_where_no_probed_function_returned_the_errno() -> None:
    trace = SyntheticTrace()
    trace.ioctl("BO_CREATE", ret=-EINVAL)
    trace.ioctl("BO_CREATE", ret=-EINVAL, inside=[("drm_gem_object_init", -ENOMEM, 100)])
    trace.ioctl("BO_CREATE", inside=[("drm_gem_object_init", -ENOMEM, 100)])
    assert build(trace.finish()).ioctls["origin"].isna().all()


def test_driver_calls_belong_to_their_ioctl_and_process() -> None:
    trace = SyntheticTrace()
    trace.vm_create(VM)
    trace.driver("panthor_device_reset_work", owner=0)
    kernel = build(trace.finish()).kernel
    assert kernel["ioctl_id"].tolist() == [0, pd.NA]
    assert kernel["pid"].tolist() == [trace.pid, pd.NA]
    assert kernel["kernel_va_size"].isna().tolist() == [False, True]


# VMs and heaps.


def test_vm_ids_and_objects() -> None:
    trace = SyntheticTrace()
    trace.vm_create(VM, vm_id=1, user_va_range=1 << 32)
    trace.ioctl("VM_DESTROY", {"id": 1})
    trace.vm_create(VM + 0x1000, vm_id=1)
    trace.ioctl("VM_CREATE", ret=-EBUSY)
    vms = build(trace.finish()).vms
    assert vms["vm"].tolist() == [VM, VM + 0x1000, pd.NA]
    assert vms["vm_id"].tolist() == [1, 1, pd.NA]
    assert vms["user_va_range"].tolist() == [1 << 32, 1 << 47, pd.NA]
    assert vms["destroyed_ns"].isna().tolist() == [False, True, True]


def grow_until_refused(trace: SyntheticTrace) -> None:
    """A heap of 2 chunks grows to 4, the most it may have, by way of one given back."""
    with_heap(trace, chunks=2, max_chunks=4)
    grow(trace)
    grow(trace)
    trace.driver("panthor_heap_return_chunk", vm=VM, heap_va=HEAP_VA)
    grow(trace)
    grow(trace, -ENOMEM)


def test_heap_growth_counts_chunks() -> None:
    trace = SyntheticTrace()
    grow_until_refused(trace)
    growth = build(trace.finish()).heap_growth
    assert growth["operation"].tolist() == ["grow", "grow", "return", "grow", "grow"]
    assert growth["chunks"].tolist() == [2, 3, 4, 3, 4]
    assert growth["added"].tolist() == [1, 1, -1, 1, 0]
    assert growth["errno"].tolist() == ["", "", "", "", "ENOMEM"]
    assert growth["limit"].tolist() == ["", "", "", "", "heap_max_chunks"]


def test_heap_memory_follows_its_growth() -> None:
    trace = SyntheticTrace()
    grow_until_refused(trace)
    trace.driver("panthor_heap_grow", vm=VM, heap_va=HEAP_VA + 1)  # of a heap nobody saw made
    trace.ioctl("VM_DESTROY", {"id": 1})
    tables = build(trace.finish())
    assert (tables.memory["heap_bytes"] // (2 << 20)).tolist() == [2, 3, 4, 3, 4, 0]
    assert (tables.memory["pid"] == trace.pid).all()


def test_refused_return_of_a_chunk_is_no_refused_growth() -> None:
    trace = SyntheticTrace()
    with_heap(trace)
    trace.driver("panthor_heap_return_chunk", -EINVAL, vm=VM, heap_va=HEAP_VA)
    assert build(trace.finish()).heap_growth["added"].tolist() == [0]
    assert verdict_on(trace, exit_code=1).cause is Cause.CLEAN


def test_growth_that_memory_or_passes_in_flight_refused() -> None:
    trace = SyntheticTrace()
    with_heap(trace, chunks=1, max_chunks=4, target=16)
    grow(trace, -ENOMEM, passes=17)
    grow(trace, -ENOMEM, passes=1)
    assert build(trace.finish()).heap_growth["limit"].tolist() == ["heap_target_in_flight", "memory"]


def test_growth_of_another_vms_heap_at_the_same_address() -> None:
    trace = SyntheticTrace()
    with_heap(trace)
    trace.driver("panthor_heap_grow", vm=VM + 0x1000, heap_va=HEAP_VA)
    assert build(trace.finish()).heap_growth["heap_id"].isna().all()


# Faults.


def test_groups_that_were_destroyed_are_no_fault() -> None:
    trace = SyntheticTrace()
    trace.driver("group_term_work", vm=VM, destroyed=1)
    assert build(trace.finish()).gpu_faults.empty
    trace.driver("group_term_work", vm=VM, destroyed=1, fatal_queues=1, vm_fault=1)
    fault = first_row(build(trace.finish()).gpu_faults)
    assert fault["fault"] == "group lost"
    assert fault["detail"] == "its VM had a page fault, fatal fault in its queues"


def test_messages_name_the_process_where_the_kernel_does() -> None:
    trace = SyntheticTrace()
    trace.message("panthor fb000000.gpu: [drm] CS_FAULT: pid=100, comm=simfail\n")
    trace.message("panthor fb000000.gpu: [drm] CSG slot 0 CS slot: 0\nCS_FATAL.EXCEPTION_TYPE: 0x44 (X)\n")
    trace.message("panthor fb000000.gpu: [drm] clock rate = 0\n")
    faults = build(trace.finish()).gpu_faults
    assert faults["fault"].tolist() == ["command-stream fault", "command-stream fatal"]
    assert faults["pid"].tolist() == [100, pd.NA]


def test_group_is_lost_to_what_the_log_says_just_before() -> None:
    """The log of 6.12 does not say whose the fault is."""
    trace = SyntheticTrace()
    trace.message("panthor fb000000.gpu: [drm] CSG slot 0 progress timeout\n")
    trace.now += 1_000_000_000
    trace.ioctl("GROUP_SUBMIT")
    trace.message("panthor fb000000.gpu: [drm] CSG slot 0 CS slot: 0\nCS_FATAL.EXCEPTION_TYPE: 0x44 (X)\n")
    trace.driver("group_term_work", vm=VM, fatal_queues=1)
    verdict = verdict_on(trace)
    assert verdict.headline.startswith("the GPU failed first: command-stream fatal (")
    assert verdict.confidence is Confidence.HIGH


def test_gpu_fault_comes_before_the_refusals_it_causes() -> None:
    trace = SyntheticTrace()
    trace.ioctl("GROUP_SUBMIT")
    trace.driver("group_term_work", vm=VM, timed_out=1)
    trace.ioctl("GROUP_SUBMIT", ret=-EINVAL)
    verdict = verdict_on(trace)
    assert (verdict.cause, verdict.confidence) == (Cause.GPU_FAULT, Confidence.HIGH)
    assert verdict.failing_call is not None
    assert verdict.failing_call.name == "GROUP_SUBMIT"


def test_a_refusal_before_the_fault_is_the_cause() -> None:
    trace = SyntheticTrace()
    trace.bo_create(1 << 30, error=ENOMEM)
    trace.driver("group_term_work", vm=VM, timed_out=1)
    assert verdict_on(trace).cause is Cause.KERNEL_MEMORY


def test_a_fault_of_nobody_in_particular_is_told_apart() -> None:
    trace = SyntheticTrace()
    trace.ioctl("GROUP_SUBMIT")
    trace.driver("panthor_device_reset_work", owner=0)
    verdict = verdict_on(trace)
    assert (verdict.cause, verdict.confidence) == (Cause.GPU_FAULT, Confidence.MEDIUM)
    assert any("which process" in text for text in verdict.missing)


def test_a_fault_the_program_survives_is_not_its_end() -> None:
    trace = SyntheticTrace()
    trace.ioctl("GROUP_SUBMIT")
    trace.driver("group_term_work", vm=VM, timed_out=1)
    assert verdict_on(trace, exit_code=0).cause is Cause.RECOVERED


def test_heap_that_may_not_grow_is_a_cap() -> None:
    trace = SyntheticTrace()
    with_heap(trace, chunks=4, max_chunks=4)
    grow(trace, -ENOMEM)
    verdict = verdict_on(trace)
    assert (verdict.cause, verdict.kernel_cap) == (Cause.KERNEL_CAP, KernelCap.YES)
    assert verdict.refusal is not None
    assert verdict.refusal.limit is not None
    assert (verdict.refusal.limit.name, verdict.refusal.limit.value) == ("heap_max_chunks", 4)


def test_heap_that_may_not_grow_explains_the_fault_that_follows() -> None:
    trace = SyntheticTrace()
    with_heap(trace, chunks=4, max_chunks=4)
    grow(trace, -ENOMEM)
    trace.driver("group_term_work", vm=VM, fatal_queues=1)
    assert verdict_on(trace).cause is Cause.KERNEL_CAP


def test_heap_that_may_not_grow_is_nothing_to_a_program_that_ends_well() -> None:
    trace = SyntheticTrace()
    with_heap(trace, chunks=4, max_chunks=4)
    grow(trace, -ENOMEM)
    assert verdict_on(trace, exit_code=0).cause is Cause.CLEAN


# Limits that only the request itself shows.


def test_bind_beyond_the_vms_range_is_a_cap() -> None:
    for size, cause in ((1 << 20, Cause.KERNEL_CAP), (1 << 12, Cause.KERNEL_REJECTED)):
        trace = SyntheticTrace()
        trace.vm_create(VM, user_va_range=0x1000_0000 + (1 << 16))
        trace.vm_bind((1, size), error=EINVAL)
        verdict = verdict_on(trace)
        assert verdict.cause is cause


def test_chunk_size_out_of_bounds_is_a_cap_but_bad_counts_are_not() -> None:
    for size, limit in ((16 << 20, 8 << 20), (64 << 10, 128 << 10), (2 << 20, None)):
        trace = SyntheticTrace()
        trace.ioctl("TILER_HEAP_CREATE", {"vm_id": 1, "chunk_size": size}, ret=-EINVAL)
        refusal = verdict_on(trace).refusal
        assert refusal is not None
        assert (refusal.limit.value if refusal.limit else None) == limit


def test_origin_is_in_the_verdict() -> None:
    trace = SyntheticTrace()
    inside = [("panthor_vm_pool_create_vm", -EBUSY, 100), ("panthor_ioctl_vm_create", -EBUSY, 200)]
    trace.ioctl("VM_CREATE", ret=-EBUSY, inside=inside)
    verdict = verdict_on(trace)
    assert verdict.refusal is not None
    assert verdict.refusal.origin == "panthor_vm_pool_create_vm"
    assert "origin: panthor_vm_pool_create_vm() returned EBUSY" in verdict.evidence
    assert verdict.confidence is Confidence.HIGH


def test_unbinding_does_not_make_good_a_bind_that_failed() -> None:
    trace = SyntheticTrace()
    trace.vm_create(VM, user_va_range=1 << 20)
    trace.vm_bind((1, 1 << 12), error=EINVAL)
    trace.vm_bind((0, 1 << 12), unmap=True)
    assert verdict_on(trace).cause is Cause.KERNEL_CAP
