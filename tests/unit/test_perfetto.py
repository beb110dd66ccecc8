# SPDX-License-Identifier: MIT
"""The timeline: whatever happened, it obeys the format's rules and says what the tables say."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from panthor_trace.analysis import Analysis
from panthor_trace.cli import main
from panthor_trace.export.perfetto import export_perfetto
from panthor_trace.export.timeline import COUNTERS, Slice, Track, nested
from panthor_trace.model import build
from panthor_trace.trace.schema import Flag, ProcessEvent, RecordType
from panthor_trace.verdict import judge

from .perfetto_reader import Drawn, Timeline, read
from .stories import CB, MIB, STORIES, begin
from .synthetic import ENOMEM, OUT_OF_DEVICE_MEMORY, SyntheticTrace, save
from .test_parquet import ran


def drawn(run: SyntheticTrace, tmp_path: Path, exit_code: int = 0) -> tuple[Timeline, Analysis]:
    trace = run.finish(exit_code)
    tables = build(trace)
    analysis = Analysis(trace, tables, judge(tables, trace.meta, trace.end))
    path = tmp_path / "timeline.perfetto-trace"
    assert export_perfetto(analysis, path) == [path]
    return read(path), analysis


THREAD = ("process 100", "thread 100")
PROCESS = "engine 100"


def names(slices: list[Drawn]) -> list[str]:
    return [one.name for one in slices]


def test_everything_that_can_happen_is_drawn_as_the_tables_have_it(tmp_path: Path) -> None:
    run = SyntheticTrace()
    for story in STORIES:
        story.tell(run)
        run.restart_handles()
        run.file += 0x1000
    run.state(held="tracer")
    timeline, analysis = drawn(run, tmp_path)
    tables = analysis.tables
    by_id = {one.notes["vulkan_id"]: one for one in timeline.slices[THREAD] if "vulkan" in one.categories}
    assert len(by_id) == len(tables.vulkan) > 50
    for row in tables.vulkan.itertuples():
        one = by_id[row.vulkan_id]
        assert (one.start, one.end) == (row.enter_ns, row.exit_ns)
        assert one.name.startswith(row.function)
    requests = {one.notes["ioctl_id"]: one for one in timeline.slices[THREAD] if "ioctl" in one.categories}
    assert len(requests) == len(tables.ioctls) > 50
    for row in tables.ioctls.itertuples():
        one = requests[row.ioctl_id]
        assert (one.start, one.end) == (row.enter_ns, row.exit_ns)
        assert ("failed" in one.categories) == row.failed == ("→" in one.name)
        inside = one.parent and one.parent.notes["vulkan_id"]
        assert inside == (None if pd.isna(row.vulkan_id) else row.vulkan_id)
    for column, name in COUNTERS.items():
        changes = timeline.counters[PROCESS, name]
        assert (
            dict(changes).items()
            <= dict(zip(tables.memory["time_ns"], tables.memory[column], strict=True)).items()
        )
        assert max(value for _, value in changes) == tables.memory[column].max()
    failures = timeline.slices[PROCESS, "failures"]
    killed = tables.processes["oom_killed_ns"].count()
    assert len(failures) == len(tables.failures) + killed
    assert len(timeline.slices[PROCESS, "GPU"]) == len(tables.gpu_faults) + len(tables.heap_growth)
    snapshot = timeline.slices[PROCESS, "snapshots"][0]
    assert snapshot.notes["maps"] == 500
    assert snapshot.start == tables.states["failed_ns"].iloc[0]
    assert timeline.arrows()


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_every_story_obeys_the_format(story: object, tmp_path: Path) -> None:
    run = SyntheticTrace()
    story.tell(run)  # type: ignore[attr-defined]
    timeline, analysis = drawn(run, tmp_path, story.exit_code)  # type: ignore[attr-defined]
    timeline.arrows()
    (verdict,) = timeline.slices["panthor-trace",]
    assert verdict.notes["cause"] == analysis.verdict.cause.value
    assert analysis.verdict.headline in verdict.name


def test_arrows_lead_from_dispatch_over_submit_to_the_fence(tmp_path: Path) -> None:
    run = SyntheticTrace()
    run.process(ProcessEvent.EXEC, "/usr/bin/engine")
    run.call("vkBeginCommandBuffer", CB)
    run.call("vkCmdDispatch", CB, 8, 1, 1)
    run.call("vkCmdDispatch", CB, 4, 2, 1)
    run.call("vkEndCommandBuffer", CB)
    run.submit(7, CB, fence=0xF)
    run.submit(7, fence=0xE)
    run.call("vkWaitForFences", 1, 1, 0xABC, 1, 0)
    run.call("vkQueueWaitIdle", 7)
    timeline, analysis = drawn(run, tmp_path)
    told = analysis.tables.submits["done_by"].tolist()
    arrows = [(source.name, target.name) for source, target in timeline.arrows()]
    assert arrows.count(("vkCmdDispatch", "vkQueueSubmit")) == 2
    first, second = (one for one in timeline.slices[THREAD] if one.name == "vkQueueSubmit")
    assert len(first.arriving) == 2
    assert not second.arriving
    (done,) = (one for one in timeline.slices[THREAD] if one.name == "2 submits done")
    assert done.parent is not None
    assert done.parent.name == "vkQueueWaitIdle" == told[-1]
    assert done.start == done.parent.end
    assert sorted(done.arriving) == sorted(first.leaving + second.leaving)
    dispatch = next(one for one in timeline.slices[THREAD] if one.name == "vkCmdDispatch")
    assert dispatch.notes["workgroups"] == "8x1x1"


def test_a_failure_is_marked_where_it_began(tmp_path: Path) -> None:
    run = SyntheticTrace()
    begin(run)
    with run.vulkan("vkAllocateMemory", 1, result=OUT_OF_DEVICE_MEMORY):
        run.ioctl(
            "BO_CREATE",
            {"size": 64 * MIB},
            ret=-ENOMEM,
            inside=[("drm_gem_get_pages", -ENOMEM, 100), ("panthor_ioctl_bo_create", -ENOMEM, 200)],
        )
    timeline, _ = drawn(run, tmp_path, 134)
    allocate, create, origin = timeline.slices[THREAD][-3:]
    assert names([allocate, create, origin]) == [
        "vkAllocateMemory → VK_ERROR_OUT_OF_DEVICE_MEMORY",
        "BO_CREATE → ENOMEM",
        "origin: drm_gem_get_pages → ENOMEM",
    ]
    assert origin.parent is create
    assert create.parent is allocate
    assert origin.instant
    assert all("failed" in one.categories for one in (allocate, create, origin))
    assert create.notes["size"] == 64 * MIB


def test_a_call_that_never_returned_does_not_end(tmp_path: Path) -> None:
    run = SyntheticTrace()
    run.call("vkCreateInstance")
    with run.vulkan("vkWaitForFences", 1, 1, 0xABC, 1, 0):
        run.ioctl("SYNCOBJ_WAIT")
    run.records[RecordType.VULKAN][-1]["head"]["flags"] = Flag.UNFINISHED
    timeline, _ = drawn(run, tmp_path)
    made, wait, inside = timeline.slices["process 100", "thread 100"]
    assert made.end is not None
    assert wait.end is None
    assert inside.parent is wait
    assert inside.end is not None


def test_overlapping_calls_of_a_damaged_trace_end_within_one_another() -> None:
    track = Track(1, 1)
    calls = [Slice(track, start, end, str(start), "ioctl") for start, end in ((1, 5), (3, 9), (9, 7), (9, 9))]
    events = [(time, begins, one.name) for time, begins, one in nested(calls)]
    assert [time for time, _, _ in events] == sorted(time for time, _, _ in events)
    open_: list[str] = []
    for _, begins, name in events:
        if begins:
            open_.append(name)
        else:
            assert open_.pop() == name
    assert not open_


def test_names_of_a_process_fit_for_a_screen(tmp_path: Path) -> None:
    run = SyntheticTrace()
    run.process(
        ProcessEvent.EXEC, "/tmp/\x1b[31mred\udcff".encode(errors="surrogateescape").decode("latin-1")
    )
    run.call("vkCreateInstance")
    path = tmp_path / "timeline.perfetto-trace"
    drawn(run, tmp_path)
    assert b"\\x1b[31mred" in path.read_bytes()
    assert b"\x1b[" not in path.read_bytes()


def test_the_command_and_its_missing_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = save(SyntheticTrace().finish(), tmp_path / "trace")
    with pytest.raises(SystemExit) as ended:
        main(["export", "--format", "perfetto", str(trace)])
    assert not ended.value.code
    assert capsys.readouterr().out == f"{trace}/timeline.perfetto-trace\n"
    assert read(trace / "timeline.perfetto-trace").slices["panthor-trace",]
    program = "import sys; sys.modules['perfetto'] = None; from panthor_trace.cli import main; main()"
    done = ran(program, "export", "--format", "perfetto", str(trace))
    assert done.returncode == 125
    assert done.stderr.startswith("panthor-trace: Perfetto files need perfetto, which is not installed")
    assert done.stderr.count("\n") == 1
