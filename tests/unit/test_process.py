# SPDX-License-Identifier: MIT
"""One process of several, as a trace of its own."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from panthor_trace.errors import TraceError
from panthor_trace.model import build
from panthor_trace.trace.process import only_process
from panthor_trace.trace.schema import ProcessEvent
from panthor_trace.verdict import Cause, judge

from .synthetic import EBUSY, SyntheticTrace, cgroup

ABORTED = 134
VM = 0xFFFF_0000_1234_0000


def test_one_process_and_its_children_as_a_trace_of_its_own() -> None:
    trace = SyntheticTrace(pid=100)
    trace.fork(200)
    trace.pid = trace.tid = 200
    trace.process(ProcessEvent.EXEC, "/usr/bin/simfail")
    trace.fork(201)
    trace.pid = trace.tid = 201
    trace.ioctl("VM_CREATE", ret=-EBUSY)
    trace.process(ProcessEvent.EXIT)
    trace.pid = trace.tid = 200
    trace.process(ProcessEvent.EXIT)
    trace.pid = trace.tid = 100
    trace.driver("panthor_device_reset_work", owner=0)
    trace.fork(300)
    trace.pid = trace.tid = 300
    trace.ioctl("GROUP_SUBMIT")
    trace.process(ProcessEvent.EXIT)
    whole = trace.finish(1)
    first, second = only_process(whole, 200, ABORTED), only_process(whole, 300, 0)
    assert judge(build(first), first.meta, first.end).cause is Cause.KERNEL_CAP
    assert judge(build(second), second.meta, second.end).cause is Cause.CLEAN
    assert build(first).kernel.empty


def test_side_tables_of_one_process_say_nothing_of_another() -> None:
    trace = SyntheticTrace(pid=100)
    for child in (200, 300):
        trace.fork(child)
    for child, name in ((200, "one"), (300, "two")):
        trace.pid = trace.tid = child
        trace.process(ProcessEvent.EXEC, f"/usr/bin/{name}")
        trace.state("failure", maps=child, cgroups=[cgroup(f"/sys/fs/cgroup/{name}", 1 << 20, 0, 1 << 20)])
        trace.states[-1] |= {"what": "BO_CREATE", "failed_ns": child, "hold": "held"}
        trace.vm_create(VM + child)
        trace.vm_bind((trace.bo_create(child << 12), child << 12))
        with trace.vulkan("vkCmdDispatch", 0xCB, 1, 1, 1):
            trace.driver("panthor_heap_grow", heap_va=child)
        trace.mmap(child << 12, maps=child)
        trace.throw("St9bad_alloc")
        trace.process(ProcessEvent.EXIT)
    whole = trace.finish(0)
    region = {"start": 0, "end": 4096, "offset": 0, "device": 1, "soname": "libvulkan.so.1", "build_id": ""}
    attached = trace.now
    side = {
        "modules": [
            {"pid": pid, "seen_ns": pid, "inode": pid, "path": f"/lib/{pid}.so", **region}
            for pid in (200, 300)
        ],
        "libraries": [
            {"layer": "vulkan", "path": f"/lib/{pid}.so", "build_id": "", "pid": pid, "mapped_ns": 0,
             "attached_ns": attached, "probes": 30}
            for pid in (200, 300)
        ],
        "taskstats": [{"pid": pid, "group": False, "peak_rss_bytes": pid} for pid in (200, 300)],
        "uevents": [{"time_ns": at, "variables": {}} for at in (trace.now - 1, trace.now + 1)],
    }  # fmt: skip
    tables = build(only_process(replace(whole, side={**whole.side, **side}), 300, 0))
    owned = (
        "ioctls",
        "bos",
        "binds",
        "ranges",
        "vms",
        "vulkan",
        "dispatches",
        "mappings",
        "memory",
        "modules",
    )
    for name in (*owned, "failures", "heap_growth", "processes"):
        assert getattr(tables, name)["pid"].unique().tolist() == [300], name
    assert tables.states["pid"].tolist() == [pd.NA, 300]
    assert tables.states["maps"].tolist() == [pd.NA, 300]
    assert tables.states["cgroup"].fillna("").tolist() == ["", "/sys/fs/cgroup/two"]
    assert tables.states["failed_ns"].tolist() == [pd.NA, 300]
    assert tables.states[["memory_total", "max_map_count"]].notna().all().all()
    assert tables.libraries["pid"].tolist() == [pd.NA, 300]
    assert tables.libraries["late_ns"].isna().tolist() == [True, False]
    assert tables.processes["peak_rss_bytes"].tolist() == [300]
    assert len(tables.uevents) == 1


def test_process_that_has_not_ended_keeps_what_came_last() -> None:
    trace = SyntheticTrace(pid=100)
    trace.fork(200)
    trace.pid = trace.tid = 200
    trace.process(ProcessEvent.EXEC, "/usr/bin/gpu")
    trace.driver("panthor_device_reset_work", owner=0)
    trace.message("panthor fb000000.gpu: [drm] CS_FAULT")
    assert len(build(only_process(trace.finish(None), 200, None)).gpu_faults) == 2


def test_process_attached_to_is_in_the_trace_without_a_record_of_its_own() -> None:
    trace = SyntheticTrace(pid=100)
    trace.bo_create(4096)
    whole = trace.finish(0)
    whole = replace(whole, meta={**whole.meta, "attached_pid": 100})
    assert build(only_process(whole, 100, 0)).processes["pid"].tolist() == [100]
    with pytest.raises(TraceError):
        only_process(whole, 101, 0)
