# SPDX-License-Identifier: MIT
"""Refusals whose errno alone does not tell what they met."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from panthor_trace.model import build
from panthor_trace.trace.schema import ARRAY_BYTES, RecordType
from panthor_trace.verdict import Cause, KernelCap, Verdict, judge

from .synthetic import SyntheticTrace

TIB = 1 << 40
VM = 0xFFFF_0000_0001_0000
ABORTED = 134
OOM_KILLED = 137


def verdict_of(run: SyntheticTrace, exit_code: int = ABORTED) -> Verdict:
    trace = run.finish(exit_code)
    return judge(build(trace), trace.meta, trace.end)


def test_buffer_beyond_all_mmap_offsets_meets_drms_limit() -> None:
    """Its size tells, whether or not the function that answered was seen."""
    run = SyntheticTrace()
    run.bo_create(64 * TIB, error=errno.ENOSPC)
    run.state("end", available=8 << 30)
    verdict = verdict_of(run)
    assert (verdict.cause, verdict.kernel_cap) == (Cause.KERNEL_CAP, KernelCap.YES)
    assert "a fixed limit of DRM: BO_CREATE of 64 TiB → ENOSPC" in verdict.headline
    assert verdict.refusal is not None
    assert verdict.refusal.limit is not None
    assert (verdict.refusal.limit.name, verdict.refusal.limit.value) == ("mmap_offsets", TIB - (1 << 20))
    assert "64 TiB were asked for in one piece" in verdict.enough[0]
    assert "memory would not have been enough either: 8 GiB" in verdict.enough[1]


def test_no_space_for_a_small_buffer_is_open_without_its_origin() -> None:
    run = SyntheticTrace()
    run.bo_create(4096, error=errno.ENOSPC)
    verdict = verdict_of(run)
    assert verdict.cause is Cause.INCONCLUSIVE
    assert "ENOSPC was not seen" in verdict.missing[0]


def test_bind_of_a_vm_made_before_the_recording_is_open() -> None:
    run = SyntheticTrace()
    run.vm_bind((run.bo_create(4096), 4096), error=errno.EINVAL)
    assert verdict_of(run).cause is Cause.KERNEL_REJECTED  # of a VM there is not
    trace = run.finish(ABORTED)
    meta = {**trace.meta, "attached_pid": run.pid}
    verdict = judge(build(trace), meta, trace.end)
    assert verdict.cause is Cause.INCONCLUSIVE
    assert "not seen made" in verdict.missing[0]
    assert {use.name: use.used for use in verdict.caps}["vms"] is None


def test_growth_of_a_heap_not_seen_made_is_open() -> None:
    run = SyntheticTrace()
    run.vm_create(VM)
    run.driver("panthor_heap_grow", -errno.ENOMEM, owner=run.pid, vm=VM, heap_va=0x1000)
    verdict = verdict_of(run)
    assert verdict.cause is Cause.INCONCLUSIVE
    assert "which heap it was is not known" in verdict.missing[0]


@pytest.mark.parametrize(("pages", "limit"), [(16384, 64 << 20), (0, None)])
def test_the_killers_cgroup_is_known_by_its_limit(pages: int, limit: int | None) -> None:
    run = SyntheticTrace()
    run.vm_create(VM)
    run.oom_kill()
    run.driver("oom_kill_process", victim=run.pid, memory_cgroup=VM, limit_pages=pages)
    verdict = verdict_of(run, OOM_KILLED)
    assert verdict.memory is not None
    assert (verdict.memory.which, verdict.memory.limit) == ("cgroup", limit)
    assert ("64 MiB" if limit else "limit is not known") in verdict.memory.ground


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_operations_keep_their_places_when_part_of_an_array_is_lost(lost: int) -> None:
    """Each record holds four operations of 48 bytes; those of the others are told by their numbers."""
    run = SyntheticTrace()
    run.vm_create(VM)
    sizes = [4096 * (number + 1) for number in range(12)]
    run.vm_bind(*((run.bo_create(size), size) for size in sizes), error=errno.EINVAL, failing=9)
    arrays = run.records[RecordType.ARRAY]
    assert [int(record["length"]) for record in arrays] == [ARRAY_BYTES] * 3
    del arrays[lost]
    binds = build(run.finish(ABORTED)).binds
    kept = [number for number in range(12) if number // 4 != lost]
    assert binds["index"].tolist() == kept
    assert binds["size"].tolist() == [sizes[number] for number in kept]
    assert binds.loc[binds["refused"], "index"].tolist() == ([9] if 9 in kept else [])
    assert np.array_equal(binds["done"], binds["index"] < 9)
