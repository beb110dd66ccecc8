# SPDX-License-Identifier: MIT
"""Which memory ran out: a cgroup's, the machine's, or it is not known."""

from __future__ import annotations

from typing import Any

import pytest

from panthor_trace.model import build
from panthor_trace.verdict import Cause, Memory, Verdict, judge

from .synthetic import ENOMEM, OUT_OF_DEVICE_MEMORY, SyntheticTrace, cgroup

MIB = 1 << 20
LIMIT = 250 * MIB
DIRECTORY = "/sys/fs/cgroup/tight"


def refused(
    before: dict[str, Any] | None = None, after: dict[str, Any] | None = None, size: int = 152 * MIB
) -> Verdict:
    """A refused buffer between two snapshots."""
    run = SyntheticTrace()
    if before is not None:
        run.state("process", **before)
    with run.vulkan("vkAllocateMemory", 1, result=OUT_OF_DEVICE_MEMORY):
        run.bo_create(size, error=ENOMEM)
    if after is not None:
        run.state("failure", **after)
    trace = run.finish(134)
    return judge(build(trace), trace.meta, trace.end)


def memory(verdict: Verdict) -> Memory:
    assert verdict.cause is Cause.KERNEL_MEMORY
    assert verdict.memory is not None
    return verdict.memory


def tight(current: int, peak: int, **events: int) -> dict[str, Any]:
    above = cgroup("/sys/fs/cgroup", 8 << 30, 1 << 30, 2 << 30)
    return {"cgroups": [cgroup(DIRECTORY, LIMIT, current, peak, **events), above]}


def test_cgroup_whose_limit_was_met_is_named_with_limit_and_peak() -> None:
    verdict = refused(tight(90 * MIB, 90 * MIB, max=0), tight(200 * MIB, LIMIT, max=60))
    found = memory(verdict)
    assert (found.which, found.cgroup, found.limit, found.peak) == ("cgroup", DIRECTORY, LIMIT, LIMIT)
    assert "limit 250 MiB, peak 250 MiB; the limit was met 60 times" in found.ground
    assert verdict.headline == (
        "the kernel refused, a memory cgroup is full (limit 250 MiB), no cap is reached: "
        "BO_CREATE of 152 MiB → ENOMEM inside vkAllocateMemory"
    )
    assert any(DIRECTORY in fact for fact in verdict.evidence)


def test_limit_met_only_before_the_run_is_not_this_runs() -> None:
    found = memory(refused(tight(9 * MIB, 90 * MIB, max=60), tight(9 * MIB, 90 * MIB, max=60), MIB))
    assert found.which == "unknown"


def test_peak_at_the_limit_is_enough_without_counters() -> None:
    found = memory(refused(None, tight(10 * MIB, LIMIT)))
    assert (found.which, found.cgroup) == ("cgroup", DIRECTORY)


def test_limit_of_a_group_above_counts() -> None:
    own = cgroup("/sys/fs/cgroup/user/job", None, 100 * MIB, 100 * MIB)
    above = cgroup("/sys/fs/cgroup/user", LIMIT, LIMIT, LIMIT)
    found = memory(refused(None, {"cgroups": [own, above]}))
    assert (found.which, found.cgroup) == ("cgroup", "/sys/fs/cgroup/user")


def test_request_larger_than_its_cgroup() -> None:
    found = memory(refused(None, tight(10 * MIB, 20 * MIB), 300 * MIB))
    assert found.which == "cgroup"
    assert "the request alone, 300 MiB, is larger" in found.ground


@pytest.mark.parametrize(
    ("available", "size"), [(100 * MIB, 152 * MIB), (4 * MIB, 4096), (800 * MIB, 8 << 30)]
)
def test_machine_out_of_memory(available: int, size: int) -> None:
    state = {"available": available, "total": 1 << 30}
    verdict = refused(state, state, size)
    assert memory(verdict).which == "machine"
    assert "the machine is out of memory" in verdict.headline


def test_full_cgroup_comes_before_a_scarce_machine() -> None:
    state = {**tight(LIMIT, LIMIT), "available": 4 * MIB, "total": 1 << 30}
    assert memory(refused(None, state)).which == "cgroup"


def test_neither_full_is_unknown_and_says_what_is_known() -> None:
    verdict = refused(None, tight(10 * MIB, 20 * MIB), MIB)
    found = memory(verdict)
    assert found.which == "unknown"
    assert "30 GiB were available" in found.ground
    assert f"{DIRECTORY} had not met its limit" in found.ground


def test_without_snapshots_it_is_unknown_and_that_is_what_would_raise_confidence() -> None:
    verdict = refused()
    assert memory(verdict).which == "unknown"
    assert any("state.jsonl" in hint for hint in verdict.would_raise)


def test_out_of_memory_killer_of_a_cgroup_is_named_as_its() -> None:
    run = SyntheticTrace()
    run.call("vkCreateInstance")
    run.state("process", **tight(90 * MIB, 90 * MIB, oom_kill=0))
    run.oom_kill()
    run.state("failure", **tight(1 * MIB, LIMIT, oom_kill=1))
    trace = run.finish(137)
    verdict = judge(build(trace), trace.meta, trace.end)
    found = memory(verdict)
    assert (found.which, found.killed) == ("cgroup", (100,))
    assert "its out-of-memory killer ended 1 process" in found.ground


def test_out_of_memory_killer_without_a_full_cgroup_is_the_machines() -> None:
    run = SyntheticTrace()
    run.call("vkCreateInstance")
    run.oom_kill()
    run.driver("oom_kill_process", victim=run.pid, memory_cgroup=0)
    run.state("end")
    trace = run.finish(137)
    assert memory(judge(build(trace), trace.meta, trace.end)).which == "machine"
