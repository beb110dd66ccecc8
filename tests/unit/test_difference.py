# SPDX-License-Identifier: MIT
"""Two runs side by side: what is bigger, new, failing, slower, and where they first part."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from panthor_trace import cli
from panthor_trace.analysis import Analysis
from panthor_trace.compare.difference import difference
from panthor_trace.compare.measures import nearest_cap
from panthor_trace.model import build
from panthor_trace.report.comparison import parts
from panthor_trace.report.content import Grid, Section
from panthor_trace.report.terminal import show_parts
from panthor_trace.verdict import judge

from .synthetic import ENOMEM, OUT_OF_DEVICE_MEMORY, SyntheticTrace

MIB = 1 << 20
CB, QUEUE, FENCE = 0xCB0, 0x51, 0xFE


def run_of(batch: int, *, dispatches: int = 4, refused: bool = False, late_ns: int = 0) -> Analysis:
    """A run whose dispatches have ``batch`` workgroups and take as many 64 KiB, the third one more."""
    run = SyntheticTrace(pid=100 + batch)
    run.ioctl("VM_CREATE", {}, {"id": 1, "user_va_range": 1 << 47})
    run.call("vkCreateDevice")
    run.call("vkBeginCommandBuffer", CB)
    for number in range(1, dispatches + 1):
        with run.vulkan("vkCmdDispatch", CB, batch, number, 1):
            size = (batch * (3 if number == 3 else 1)) << 16
            run.vm_bind((run.bo_create(size), size), va=0x1000_0000 * number)
    if refused:
        with run.vulkan("vkEndCommandBuffer", CB, result=OUT_OF_DEVICE_MEMORY):
            run.bo_create(512 * MIB, error=ENOMEM)
    else:
        run.call("vkEndCommandBuffer", CB)
        run.submit(QUEUE, CB, fence=FENCE)
        run.now += late_ns
        run.call("vkGetFenceStatus", 1, FENCE)
    trace = run.finish(134 if refused else 0)
    trace = replace(trace, meta={**trace.meta, "command": ["bench", "-ub", str(batch)]})
    tables = build(trace)
    return Analysis(trace, tables, judge(tables, trace.meta, trace.end))


def test_a_run_does_not_differ_from_itself() -> None:
    run = run_of(64)
    found = difference(run, run)
    assert (found.first, found.pools, found.failures, found.bigger, found.slower) == ((), (), (), (), ())
    assert {change.difference for change in found.changes} <= {0, None}
    (section,) = [part for part in parts(run, run, found) if isinstance(part, Section)]
    assert section.facts == ("none: dispatches and buffers are the same",)


def test_more_buffers_of_the_same_are_a_difference_and_two_unknown_drivers_are_not_the_same() -> None:
    def run_with(buffers: int) -> Analysis:
        run = SyntheticTrace()
        for _ in range(buffers):
            run.bo_create(MIB)
        trace = run.finish(0)
        tables = build(trace)
        return Analysis(trace, tables, judge(tables, trace.meta, trace.end))

    runs = run_with(1), run_with(3)
    found = difference(*runs)
    assert found.first == ("the buffers: 1 asked for in A, 3 in B, alike as far as both go",)
    (grid,) = [part for part in parts(*runs, found) if isinstance(part, Grid) and part.title == "runs"]
    assert ("Vulkan driver", "unknown", "unknown") in grid.rows


def test_bigger_by_dispatch_and_by_pool() -> None:
    found = difference(run_of(64), run_of(128))
    assert [pair.number for pair in found.bigger] == [3, 1, 2, 4]
    assert (found.bigger[0].bytes_a, found.bigger[0].bytes_b) == (12 * MIB, 24 * MIB)
    assert (found.bigger[0].workgroups_a, found.bigger[0].workgroups_b) == ("64x3x1", "128x3x1")
    changes = {change.name: change for change in found.changes}
    assert changes["peak of live buffers"].difference == 24 * MIB
    assert changes["largest allocation"].b == 24 * MIB
    (pool,) = found.pools
    assert pool.difference == 24 * MIB
    assert found.first[0] == (
        "the work: from dispatch 1 on, vkCmdDispatch 64x1x1 in A, vkCmdDispatch 128x1x1 in B"
    )


def test_failing_and_where_they_part() -> None:
    found = difference(run_of(64), run_of(64, dispatches=3, refused=True))
    assert {(one.what, one.error): (one.a, one.b) for one in found.failures} == {
        ("BO_CREATE", "ENOMEM"): (0, 1),
        ("vkEndCommandBuffer", "VK_ERROR_OUT_OF_DEVICE_MEMORY"): (0, 1),
    }
    assert "B ends with dispatch 3, A goes on to 4" in found.first
    refused = "512 MiB in vkEndCommandBuffer, ENOMEM in B"
    assert found.first[-1] == f"the buffers: from buffer 4 on, 4 MiB in vkCmdDispatch in A, {refused}"
    assert not found.bigger


def test_slower_is_said_once_a_submit_and_not_of_noise() -> None:
    assert [pair.number for pair in difference(run_of(64), run_of(64, late_ns=9_000_000)).slower] == [1]
    assert not difference(run_of(64), run_of(64, late_ns=900_000)).slower
    assert not difference(run_of(64, late_ns=9_000_000), run_of(64)).slower


def test_runs_without_anything_can_be_compared() -> None:
    trace = SyntheticTrace().finish(0, nodes=())
    tables = build(trace)
    empty = Analysis(trace, tables, judge(tables, trace.meta, trace.end))
    found = difference(empty, run_of(64))
    assert found.dispatches == (0, 4)
    assert json.loads(json.dumps(found.as_json()))["pools"][0]["difference"] is None
    assert nearest_cap(empty) is None


def test_what_is_shown_fits_eighty_columns(capsys: pytest.CaptureFixture[str]) -> None:
    runs = run_of(64), run_of(128, refused=True)
    show_parts(parts(*runs, difference(*runs)))
    shown = capsys.readouterr().out
    assert shown.startswith("clean in A, kernel-memory in B.")
    assert max(map(len, shown.splitlines())) <= 80
    titles = [part.title for part in parts(*runs, difference(*runs)) if isinstance(part, Grid)]
    assert titles[:3] == ["runs", "measured", "failures that are not in both alike"]


def test_a_trace_that_is_none_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["diff", str(tmp_path), str(tmp_path)])
    assert ended.value.code == 125
    assert capsys.readouterr().err.count("\n") == 1
