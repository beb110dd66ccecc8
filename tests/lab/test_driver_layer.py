# SPDX-License-Identifier: MIT
"""Every way to fail, traced on the real driver: the verdict against what simfail made go wrong.

One guest a kernel, one recording for all scenarios: starting BCC is what takes long under emulation. Each
scenario's process is then judged by itself, as ``panthor-trace report --json --process PID`` does.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from board.simfail import Scenario, scenarios
from panthor_trace.commands.report import report
from panthor_trace.model import Tables, build
from panthor_trace.trace.process import only_process
from panthor_trace.trace.reader import Trace, read_trace

from .conftest import BoardRun

#: Scenarios whose failing call is none of DRM's ioctls (of bo-mmap-refused's, on 6.12): mmap() and open()
#: are not the driver layer's.
ELSEWHERE = frozenset({"mmap-map-count", "mmap-address-space", "bo-mmap-refused", "open-nofile"})

#: Not run here: with the whole machine's memory gone, the out-of-memory killer of 7.3 at times ends the shell
#: that runs the scenarios. A memory cgroup's limit (cgroup-bind) comes to the same in the driver.
MACHINE_WIDE = frozenset({"retry-smaller", "bo-larger-than-memory"})
TRACED = tuple(scenario for scenario in scenarios() if scenario.name not in MACHINE_WIDE)

#: The function each refusal comes from; where kernels differ, all that are right.
ORIGINS: dict[str, tuple[str, ...]] = {
    "vm-33rd": ("panthor_vm_pool_create_vm",),
    "vm-range": ("panthor_vm_pool_create_vm",),
    "bind-past-range": ("panthor_vm_bind_prepare_op_ctx",),
    "heap-129th": ("panthor_heap_create",),
    "group-129th": ("panthor_group_create",),
    "heap-chunk-size": ("panthor_heap_create",),
    "heap-max-chunks": ("panthor_heap_grow",),
    "heap-in-flight": ("panthor_heap_grow",),
    "kernel-va": ("panthor_vm_alloc_va",),
    "cgroup-bind": ("drm_gem_get_pages",),
    "cgroup-heap": ("drm_gem_get_pages",),
    "bo-flags": ("panthor_ioctl_bo_create",),
    "bo-size-zero": ("panthor_ioctl_bo_create",),
    "bo-export-exclusive": ("panthor_gem_prime_export",),
    "bind-misaligned": ("panthor_vm_bind_prepare_op_ctx",),
    "bind-exclusive": ("panthor_vm_prepare_map_op_ctx",),
    "bind-closed-bo": ("panthor_vm_prepare_map_op_ctx",),
    "bind-destroyed-vm": ("panthor_ioctl_vm_bind",),
    "bind-array-sync": ("panthor_vm_bind_prepare_op_ctx",),
    "bind-array-async": ("panthor_vm_bind_prepare_op_ctx",),
    "heap-initial": ("panthor_heap_create",),
    "group-core-mask": ("panthor_group_create",),
    "group-ring-size": ("group_create_queue", "panthor_group_create"),
    "group-priority": ("panthor_ioctl_group_create",),
    "submit-queue": ("panthor_job_create",),
    "submit-alignment": ("panthor_job_create",),
    "processes-one-fails": ("panthor_vm_pool_create_vm",),
    "threads-one-fails": ("panthor_vm_bind_prepare_op_ctx",),
    "child-fails": ("panthor_vm_pool_create_vm",),
}
#: How simfail calls what no ioctl asks for.
NAMES = {"heap-grow": "heap growth"}

EACH = """
out=$1; shift
for name in "$@"; do
    simfail --as-program "$name" > "$out/$name.log" 2>&1 &
    pid=$!; status=0; wait $pid || status=$?
    echo "$name $pid $status" >> "$out/runs"
done
"""
SCRIPT = """
set -u
cd /tmp
panthor-trace --no-csv -o /share/trace -- sh /share/each.sh /share $(cat /share/names) \\
    > /share/out 2> /share/err
echo $? > /share/status
cat /sys/kernel/tracing/kprobe_events > /share/left_over
"""


@dataclass(frozen=True)
class Recorded:
    """All scenarios' trace, and the process and exit status of each."""

    path: Path
    trace: Trace
    processes: dict[str, tuple[int, int]]

    def tables(self, name: str) -> Tables:
        """The tables of one scenario's processes."""
        pid, status = self.processes[name]
        return build(only_process(self.trace, pid, status))

    def verdict(self, name: str) -> dict[str, Any]:
        """What the command line prints for one scenario."""
        pid, status = self.processes[name]
        words = ["--json", "--process", str(pid), "--exit-status", str(status), str(self.path)]
        done = CliRunner().invoke(report, words, catch_exceptions=False)
        answer: dict[str, Any] = json.loads(done.output)
        return answer


@pytest.fixture(scope="module")
def recorded(board: BoardRun, kernel: str, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """One guest of ``kernel`` with every scenario in it, the one that loses the device last."""
    share: Path = tmp_path_factory.mktemp(f"driver-layer-{kernel}")
    (share / "each.sh").write_text(EACH)
    (share / "names").write_text("\n".join(scenario.name for scenario in TRACED))
    began = time.monotonic()
    done = board(SCRIPT, kernel=kernel, memory_mib=1536, share=share, timeout=900)
    assert done.returncode == 0, done.stderr
    assert (share / "status").read_text().strip() == "0", (share / "err").read_text()
    runs = [line.split() for line in (share / "runs").read_text().splitlines()]
    print(f"\n{kernel}: {len(runs)} scenarios in {time.monotonic() - began:.0f} s")
    processes = {name: (int(pid), int(status)) for name, pid, status in runs}
    assert set(processes) == {scenario.name for scenario in TRACED}
    return Recorded(share / "trace", read_trace(share / "trace"), processes)


def expected_failures(scenario: Scenario) -> set[tuple[str, str]]:
    """The first failure of each acceptable outcome."""
    return {
        (NAMES.get(outcome.failures[0].call, outcome.failures[0].call), outcome.failures[0].errno)
        for outcome in scenario.outcomes
        if outcome.failures
    }


@pytest.mark.parametrize(
    "scenario", [s for s in TRACED if s.name not in ELSEWHERE], ids=lambda scenario: scenario.name
)
def test_verdict_names_what_went_wrong(recorded: Recorded, kernel: str, scenario: Scenario) -> None:
    verdict = recorded.verdict(scenario.name)
    refusal = verdict["refusal"] or {}
    limit = refusal.get("limit") or {}
    print(
        f"\n{kernel:5}{scenario.name:22}{verdict['cause']:16}{verdict['confidence']:7}"
        f"{refusal.get('ioctl') or '-':19}{refusal.get('errno') or '-':8}"
        f"{refusal.get('origin') or '-':32}{limit.get('name', '-')}={limit.get('value', '-')}"
    )
    assert verdict["cause"] == scenario.cause, verdict["headline"]
    assert verdict["losses"] == {}
    assert verdict["kernel_cap"] == ("yes" if scenario.cause == "kernel-cap" else "no")
    if scenario.cause in ("kernel-cap", "kernel-rejected") or scenario.name in ORIGINS:
        assert (refusal["ioctl"], refusal["errno"]) in expected_failures(scenario)
    if scenario.name in ORIGINS:
        assert refusal["origin"] in ORIGINS[scenario.name]
    if scenario.cause == "kernel-cap":
        assert scenario.limit is not None
        assert limit["name"] == scenario.limit.name
        assert scenario.limit.value in (None, limit["value"])


def test_a_refusal_comes_with_its_kernel_stack(recorded: Recorded) -> None:
    verdict = recorded.verdict("kernel-va")
    stack = verdict["refusal"]["kernel_stack"]
    assert "drm_ioctl" in stack
    assert verdict["refusal"]["origin_chain"].split(" < ") == [
        "panthor_vm_alloc_va",
        "panthor_kernel_bo_create",
        "panthor_alloc_heap_chunk",
        "panthor_heap_create",
        "panthor_ioctl_tiler_heap_create",
    ]


def test_heap_growth_is_seen_with_its_counts(recorded: Recorded) -> None:
    grown = recorded.tables("heap-grows").heap_growth
    assert grown["errno"].eq("").all()
    assert len(grown) == 3
    refused = recorded.tables("heap-max-chunks").heap_growth
    assert refused["errno"].tolist() == ["", "", "ENOMEM"]
    assert refused["chunks"].tolist() == [2, 3, 4]
    assert refused["limit"].tolist() == ["", "", "heap_max_chunks"]
    assert recorded.tables("heap-in-flight").heap_growth["limit"].tolist() == ["heap_target_in_flight"]


def test_heap_counts_agree_with_the_kernels_own(recorded: Recorded) -> None:
    """What the model counts is what panthor_alloc_heap_chunk leaves in the heap."""
    tables = recorded.tables("heap-grows")
    chunks = tables.kernel[tables.kernel["function"] == "panthor_alloc_heap_chunk"]
    assert chunks["chunk_count"].tolist() == list(range(1, len(chunks) + 1))
    assert int(chunks["chunk_count"].iloc[-1]) == int(tables.heap_growth["chunks"].iloc[-1]) + 1
    heap_bytes = tables.memory["heap_bytes"]
    assert int(heap_bytes.max()) == int(chunks["chunk_size"].sum())
    assert int(heap_bytes.iloc[-1]) == 0


def test_vm_objects_are_known_by_id(recorded: Recorded) -> None:
    vms = recorded.tables("vm-33rd").vms
    made = vms[vms["vm_id"].notna()]
    assert made["vm_id"].tolist() == list(range(1, 33))
    assert made["vm"].nunique() == 32


def test_work_of_kernel_threads_belongs_to_the_process(recorded: Recorded) -> None:
    for name in ("mmu-fault", "cs-fatal", "job-hang"):
        faults = recorded.tables(name).gpu_faults
        lost = faults[faults["fault"] == "group lost"]
        # Its end is worked on once for the fault, and may be again when the program destroys it.
        assert set(lost["pid"]) == {recorded.processes[name][0]}, (name, faults)


def test_out_of_memory_kill_names_the_memory_cgroup(recorded: Recorded) -> None:
    killed = recorded.tables("cgroup-oom-kill").processes
    killed = killed[killed["oom_killed_ns"].notna()]
    assert killed["oom_in_cgroup"].tolist() == [True]


def test_ioctls_were_caught_on_the_drm_path_and_no_return_was_missed(recorded: Recorded) -> None:
    meta = recorded.trace.meta
    assert meta["ioctl_hook"] == "drm"
    assert meta["layers"]["driver"]["live"]
    assert recorded.tables("burst").losses.empty
    assert (recorded.tables("burst").ioctls["name"] == "BO_CREATE").sum() == 1009
    assert (recorded.path.parent / "left_over").read_text() == ""


def test_both_hooks_give_the_same_records(board: BoardRun, kernel: str, tmp_path: Path) -> None:
    script = "\n".join(
        f"panthor-trace --no-csv --ioctl-hook {hook} -o /share/{hook} -- simfail all-well > /dev/null 2>&1"
        for hook in ("drm", "syscall")
    )
    done = board(script, kernel=kernel, memory_mib=1536, share=tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr
    columns: Callable[[Tables], list[Any]] = lambda tables: (  # noqa: E731
        tables.ioctls[["fd", "node", "name", "argument_size", "ret", "errno"]].to_numpy().tolist()
    )
    drm, syscall = (build(read_trace(tmp_path / hook)) for hook in ("drm", "syscall"))
    assert columns(drm) == columns(syscall)
    assert drm.bos["size"].tolist() == syscall.bos["size"].tolist()
    assert drm.binds["va"].tolist() == syscall.binds["va"].tolist()
