# SPDX-License-Identifier: MIT
"""Snapshots of limits: which records call for one, and what is read from both cgroup hierarchies."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from panthor_trace.capture.memory_cgroup import Hierarchy, find_hierarchy, read_level
from panthor_trace.capture.process_state import _values, descriptors, process_state
from panthor_trace.capture.state import Failure, StateWatch, mapping_count, memory_info
from panthor_trace.model.states import nearest_limit
from panthor_trace.trace import records
from panthor_trace.trace.schema import Hold, MappingKind, ProcessEvent, RecordType
from panthor_trace.uapi import vulkan

from .synthetic import EBUSY, SyntheticTrace, cgroup

V2 = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
HYBRID = V1 + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"


def raw(run: SyntheticTrace, kind: RecordType) -> list[bytes]:
    return [record.tobytes() for record in run.records[kind]]


def failure(run: SyntheticTrace, of: RecordType, what: int, hold: Hold = Hold.OFF) -> bytes:
    """A failure_record as the BPF side makes it."""
    record = np.zeros((), records.FAILURE)
    record["head"]["type"], record["head"]["tgid"] = RecordType.FAILURE, run.pid
    record["head"]["enter_ns"] = 4000
    record["when_ns"], record["of"], record["what"], record["hold"] = 5000, of, what, hold
    return record.tobytes()


def number_of(name: str) -> int:
    return next(i for i, function in enumerate(vulkan.FUNCTIONS) if function.name == name)


@pytest.mark.parametrize(
    ("of", "what", "name"),
    [
        (RecordType.IOCTL, 0xC0106441, "ioctl VM_CREATE"),
        (RecordType.VULKAN, number_of("vkAllocateMemory"), "vkAllocateMemory"),
        (RecordType.MAPPING, MappingKind.NODE, "mmap"),
        (RecordType.MAPPING, MappingKind.NODE_UNMAP, "munmap"),
        (RecordType.MAPPING, MappingKind.OTHER, "mmap"),
    ],
)
def test_what_failed_is_named(of: RecordType, what: int, name: str) -> None:
    found = Failure.of(failure(SyntheticTrace(), of, what, Hold.TRACED))
    assert found == Failure(100, name, 4000, 5000, Hold.TRACED)


class Ring:
    """Fresh records, by type, once each."""

    def __init__(self, run: SyntheticTrace) -> None:
        self._run = run
        self._taken: dict[int, int] = {}

    def fresh(self, kind: RecordType) -> list[bytes]:
        records = raw(self._run, kind)
        first = self._taken.get(kind, 0)
        self._taken[kind] = len(records)
        return records[first:]


def test_each_process_and_each_failure_told_of_gets_one_snapshot() -> None:
    taken: list[Mapping[str, Any]] = []
    looked_at: list[int] = []
    watch = StateWatch(os.getpid(), taken.append, look_at=looked_at.append)
    run = SyntheticTrace(pid=os.getpid())
    ring = Ring(run)
    run.process(ProcessEvent.EXEC, "/bin/x")
    watch.look(ring.fresh)
    for _ in range(5):
        run.ioctl("VM_CREATE", ret=-EBUSY)
        watch.look(ring.fresh)
    watch.failures([failure(run, RecordType.IOCTL, 0xC0106441), failure(run, RecordType.VULKAN, 0)])
    assert [(state["why"], state["what"]) for state in taken] == [
        ("process", None),
        ("failure", "ioctl VM_CREATE"),
        ("failure", vulkan.FUNCTIONS[0].name),
    ]
    assert taken[0]["pid"] == os.getpid()
    assert taken[0]["maps"] > 10
    assert taken[1]["failed_ns"] == 5000
    assert taken[1]["hold"] == "holding is off"
    assert taken[1]["rollup"]["Rss"] > 1 << 20
    assert taken[1]["descriptors"] >= 3
    assert taken[1]["limits"]["descriptors"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert looked_at == [os.getpid()] * 2


def test_failures_beyond_what_one_recording_keeps_are_looked_at_no_more() -> None:
    taken: list[Mapping[str, Any]] = []
    watch = StateWatch(os.getpid(), taken.append)
    run = SyntheticTrace(pid=os.getpid())
    watch.failures([failure(run, RecordType.IOCTL, 0xC0106441)] * 100)
    assert len(taken) == 64


def test_state_of_a_process_that_has_ended_is_unknown() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    found = process_state(process.pid, ())
    assert found == {"rollup": None, "limits": None, "descriptors": None, "drm": [], "gems": None}


def test_fdinfo_of_panthors_descriptors_only(tmp_path: Path) -> None:
    with open(os.devnull) as null, open("/dev/zero"):  # noqa: PTH123
        count, found = descriptors(os.getpid(), {os.stat(os.devnull).st_rdev})  # noqa: PTH116
        assert {"fd": null.fileno()} in found
    assert count is not None
    assert len(found) < count
    (tmp_path / "fdinfo").write_text("pos:\t0\ndrm-driver:\tpanthor\ndrm-total-memory:\t12 KiB\n")
    assert _values(tmp_path / "fdinfo") == {"pos": 0, "drm-driver": "panthor", "drm-total-memory": 12288}


def test_process_that_has_ended_is_unknown_but_its_cgroup_is_remembered() -> None:
    process = subprocess.Popen(["sleep", "60"])
    taken: list[Mapping[str, Any]] = []
    watch = StateWatch(process.pid, taken.append)
    watch.sample("start")
    process.kill()
    process.wait()
    watch.sample("end")
    assert taken[0]["maps"] is not None
    assert taken[1]["maps"] is None
    assert mapping_count(process.pid) is None
    names = [[level["directory"] for level in state["cgroups"]] for state in taken]
    assert names[0] == names[1]


def test_periodic_snapshots_are_a_second_apart() -> None:
    taken: list[Mapping[str, Any]] = []
    watch = StateWatch(os.getpid(), taken.append)
    now = time.monotonic()
    watch.periodic(now)
    watch.periodic(now + 0.01)
    assert len(taken) == 1
    watch.periodic(now + 60)
    assert len(taken) == 2


@pytest.mark.parametrize(
    ("mountinfo", "mount", "controller"),
    [
        (V2, "/sys/fs/cgroup", ""),
        (HYBRID, "/sys/fs/cgroup/memory", "memory"),
        (V1, "/sys/fs/cgroup/memory", "memory"),
    ],
)
def test_hierarchy_that_has_the_memory_controller(
    tmp_path: Path, mountinfo: str, mount: str, controller: str
) -> None:
    (tmp_path / "mountinfo").write_text(mountinfo)
    found = find_hierarchy(tmp_path / "mountinfo")
    assert found is not None
    assert (str(found.mount), found.controller) == (mount, controller)


def test_no_hierarchy(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
    assert find_hierarchy(tmp_path / "mountinfo") is None


def hierarchy(tmp_path: Path, mountinfo: str) -> Hierarchy:
    (tmp_path / "mountinfo").write_text(mountinfo.replace("/sys/fs/cgroup", f"{tmp_path}/fs"))
    found = find_hierarchy(tmp_path / "mountinfo")
    assert found is not None
    return found


def fill(directory: Path, **files: str) -> None:
    directory.mkdir(parents=True)
    for name, content in files.items():
        (directory / name.replace("__", ".")).write_text(content)


def test_v2_levels_and_their_files(tmp_path: Path) -> None:
    found = hierarchy(tmp_path, V2)
    fill(tmp_path / "proc" / "7", cgroup="0::/user/job\n")
    limits = {"memory__max": "262144000\n", "memory__events": "low 0\nmax 60\noom 1\noom_kill 1\n"}
    fill(tmp_path / "fs" / "user", memory__current="9\n", memory__max="max\n")
    fill(tmp_path / "fs" / "user" / "job", memory__current="5\n", memory__peak="8\n", **limits)
    directory = found.directory(7, tmp_path / "proc")
    assert directory is not None
    levels = [read_level(found, level) for level in found.levels(directory)]
    assert [Path(level["directory"]).name for level in levels] == ["job", "user"]
    assert (levels[0]["current"], levels[0]["max"], levels[0]["peak"]) == (5, 262144000, 8)
    assert levels[0]["events"] == {"max": 60, "oom": 1, "oom_kill": 1}
    assert (levels[1]["max"], levels[1]["peak"]) == (None, None)


def test_v1_files_mean_the_same(tmp_path: Path) -> None:
    found = hierarchy(tmp_path, HYBRID)
    fill(tmp_path / "proc" / "7", cgroup="4:cpu,memory:/job\n0::/elsewhere\n")
    fill(
        tmp_path / "fs" / "memory" / "job",
        memory__usage_in_bytes="5\n",
        memory__limit_in_bytes="9223372036854771712\n",
        memory__max_usage_in_bytes="8\n",
        memory__failcnt="3\n",
        memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
    )
    directory = found.directory(7, tmp_path / "proc")
    assert directory is not None
    level = read_level(found, directory)
    assert (level["current"], level["max"], level["peak"]) == (5, None, 8)
    assert level["events"] == {"max": 3, "oom_kill": 2}


def test_group_outside_of_what_is_mounted_is_unknown(tmp_path: Path) -> None:
    found = hierarchy(tmp_path, V2.replace("0:28 / ", "0:28 /docker/x "))
    fill(tmp_path / "proc" / "7", cgroup="0::/elsewhere\n")
    fill(tmp_path / "proc" / "8", cgroup="0::/docker/x/in\n")
    assert found.directory(7, tmp_path / "proc") is None
    assert found.directory(8, tmp_path / "proc") == tmp_path / "fs" / "in"
    assert found.directory(9, tmp_path / "proc") is None


def test_nearest_limit_is_the_one_with_least_room() -> None:
    levels = [cgroup("own", None, 5, 5), cgroup("mid", 100, 90, 99), cgroup("top", 50, 10, 10)]
    assert nearest_limit(levels)["directory"] == "mid"
    assert nearest_limit(levels[:1])["directory"] == "own"
    assert nearest_limit([]) == {}


def test_memory_of_a_kernel_without_memavailable_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:  1000 kB\nMemFree: 10 kB\n")
    found = memory_info(tmp_path / "meminfo")
    assert (found["total"], found["available"]) == (1024000, None)
    assert memory_info(tmp_path / "none") == dict.fromkeys(found)
