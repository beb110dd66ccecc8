# SPDX-License-Identifier: MIT
"""A verdict on a damaged trace keeps its truth, or says that it does not know: never another cause.

Every way to fail (stories.py) is told, then records are shuffled, cut off, lost or made ambiguous.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panthor_trace.model import build
from panthor_trace.trace.reader import Trace, parse_events
from panthor_trace.trace.records import BLOCK
from panthor_trace.trace.schema import (
    BLOCK_MAGIC,
    NO_DESCRIPTOR,
    RecordType,
)
from panthor_trace.uapi.ioc import IOC_READ, IOC_WRITE, ioc
from panthor_trace.verdict import Cause, Verdict, judge

from ..damage import LOST, RANK, left_out, losing, wrong
from .stories import STORIES, Story
from .synthetic import SyntheticTrace

#: Told once in each example: all tables are built anew, which takes some tenths of a second.
stories = st.sampled_from(STORIES)
#: Where there is more to draw: twice as many examples as the profile has (conftest.py).
MORE = settings(max_examples=2 * settings().max_examples)
story = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)


def told(story: Story) -> Trace:
    run = SyntheticTrace()
    story.tell(run)
    return finished(run, story.exit_code, vulkan=bool(run.records[RecordType.VULKAN]))


def finished(run: SyntheticTrace, exit_code: int, *, vulkan: bool) -> Trace:
    """The trace, with what the recorder knows of machine and libraries."""
    trace = run.finish(exit_code)
    names = ("libvulkan.so.1", "libstdc++.so.6") if vulkan else ()
    modules = [
        {"pid": run.pid, "seen_ns": 0, "start": 0, "end": 0, "offset": 0, "device": 0, "inode": 0,
         "path": f"/usr/lib/{name}", "soname": name, "build_id": ""}
        for name in names
    ]  # fmt: skip
    machine = {"max_map_count": 65530, "page_size": 4096}
    return replace(trace, meta={**trace.meta, "machine": machine}, side={**trace.side, "modules": modules})


@functools.cache
def whole(story: Story) -> Verdict:
    """The verdict on the undamaged trace."""
    return verdict_of(told(story))


def verdict_of(trace: Trace) -> Verdict:
    return judge(build(trace), trace.meta, trace.end)


def assert_true_or_open(verdict: Verdict, story: Story) -> None:
    """The truth, not surer than with all records there, or no answer."""
    assert verdict.cause in (story.truth, Cause.INCONCLUSIVE), verdict.headline
    if verdict.cause is story.truth:
        assert RANK[verdict.confidence] <= RANK[whole(story).confidence]


@story
def test_stories_are_judged_right_when_whole(story: Story) -> None:
    assert whole(story).cause is story.truth


@given(story=stories, seed=st.integers(0, 2**32 - 1))
def test_order_of_arrival_does_not_matter(story: Story, seed: int) -> None:
    """Each CPU has a ring's order of its own: records come in any order."""
    trace, chance = told(story), np.random.default_rng(seed)
    shuffled = {kind: chance.permutation(records) for kind, records in trace.records.items()}
    assert verdict_of(replace(trace, records=shuffled)) == whole(story)


def as_file(trace: Trace, blocks: int) -> bytes:
    """events.bin as the recorder would have written it in ``blocks`` flushes: a block a type and flush."""
    times = np.concatenate([records["head"]["enter_ns"] for records in trace.records.values()])
    edges = np.linspace(times.min(), times.max() + 1, blocks + 1).astype(np.uint64)
    raw = b""
    for first, last in itertools.pairwise(edges):
        for kind, records in sorted(trace.records.items()):
            when = records["head"]["enter_ns"]
            part = records[(when >= first) & (when < last)]
            if len(part):
                head = np.array([(BLOCK_MAGIC, kind, part.dtype.itemsize, len(part))], BLOCK)
                raw += head.tobytes() + part.tobytes()
    return raw


@MORE
@given(story=stories, ended=st.booleans(), share=st.floats(0, 1), blocks=st.integers(1, 12))
def test_truncated_anywhere(story: Story, ended: bool, share: float, blocks: int) -> None:
    """The tracer was killed (no end.json), or the end of a whole recording's file is gone."""
    trace = told(story)
    raw = as_file(trace, blocks)
    records, torn = parse_events(raw[: int(share * len(raw))])
    # A cut between two blocks leaves no torn bytes: only a file system loses those of a whole recording.
    cut = replace(
        trace, records=records, torn_bytes=max(torn, 1) if ended else torn, end=trace.end if ended else None
    )
    assert_true_or_open(verdict_of(cut), story)


@MORE
@given(story=stories, kind=st.sampled_from(list(LOST)), data=st.data())
def test_lost_records_that_are_counted(story: Story, kind: RecordType, data: st.DataObject) -> None:
    trace = told(story)
    records = trace.of(kind)
    if not len(records):
        return
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(records), max_size=len(records))))
    lost = int((~keep).sum())
    if not lost:
        return
    assert_true_or_open(verdict_of(losing(trace, kind, keep)), story)


@MORE
@given(story=stories, data=st.data())
def test_any_part_left_out(story: Story, data: st.DataObject) -> None:
    """A layer, a function or an event that is not probed, types that are not known, no snapshot, no end."""
    parts = dict(left_out(told(story)))
    assert wrong(verdict_of(parts[data.draw(st.sampled_from(sorted(parts)))]), whole(story)) == ""


@given(story=stories, grain=st.integers(2, 3000), phase=st.integers(0, 3000))
def test_clock_ties(story: Story, grain: int, phase: int) -> None:
    """A coarse clock gives neighbours the same time; records of a type still come in their order."""
    trace = told(story)
    records = {}
    for kind, rows in trace.records.items():
        coarse = rows.copy()
        for times in (
            coarse["head"]["enter_ns"],
            *([coarse["exit_ns"]] if "exit_ns" in rows.dtype.names else []),
        ):
            times[...] = (times + np.uint64(phase)) // np.uint64(grain) * np.uint64(grain)
        if "ioctl_ns" in rows.dtype.names:
            inside = coarse["ioctl_ns"] != 0
            coarse["ioctl_ns"][inside] = (
                (coarse["ioctl_ns"][inside] + np.uint64(phase)) // np.uint64(grain) * grain
            )
        records[kind] = coarse
    assert_true_or_open(verdict_of(replace(trace, records=records)), story)


@given(
    story=stories,
    seed=st.integers(0, 2**32 - 1),
    number=st.integers(0x60, 0xFF),
    size=st.sampled_from([0, 8, 64, 4095]),
)
def test_unknown_ioctls(story: Story, seed: int, number: int, size: int) -> None:
    """A later kernel's requests, granted and in between."""
    trace, chance = told(story), np.random.default_rng(seed)
    ioctls = trace.of(RecordType.IOCTL)
    if not len(ioctls):
        return
    strange = ioctls[chance.integers(0, len(ioctls), 5)].copy()
    strange["cmd"], strange["ret"], strange["fd"] = (
        ioc(IOC_READ | IOC_WRITE, "d", number, size),
        0,
        NO_DESCRIPTOR,
    )
    strange["head"]["enter_ns"] += np.uint64(1)
    strange["exit_ns"] = strange["head"]["enter_ns"] + np.uint64(1)
    told_more = replace(trace, records={**trace.records, RecordType.IOCTL: np.concatenate([ioctls, strange])})
    assert verdict_of(told_more).cause is story.truth


@given(story=stories, longer=st.integers(1, 40))
def test_longer_structs(story: Story, longer: int) -> None:
    """A later uAPI's structs have more members at their ends."""
    trace = told(story)
    ioctls = trace.of(RecordType.IOCTL).copy()
    size = (ioctls["cmd"] >> 16) & 0x3FFF
    ioctls["cmd"] = (ioctls["cmd"] & np.uint32(0xC000FFFF)) | ((size + np.uint32(8 * longer)) & 0x3FFF) << 16
    longer_ones = replace(trace, records={**trace.records, RecordType.IOCTL: ioctls})
    assert verdict_of(longer_ones).cause is story.truth


def _then(first: Story, second: Story, between: Callable[[SyntheticTrace], None]) -> Trace:
    """Two stories of one trace, one after the other."""
    run = SyntheticTrace()
    first.tell(run)
    between(run)
    second.tell(run)
    return finished(run, first.exit_code or second.exit_code, vulkan=bool(run.records[RecordType.VULKAN]))


def _as_another_process(run: SyntheticTrace) -> None:
    """The number is given out again: the shell's next child has the pid and tids of the one before."""
    run.pid, run.tid, here = 1, 1, run.pid
    run.fork(here)
    run.pid = run.tid = here
    run.file += 0x1000


def _as_another_opening(run: SyntheticTrace) -> None:
    """The node is closed and opened again: the same descriptor, and all handles begin anew."""
    run.file += 0x1000
    run.restart_handles()


CLEAN = next(story for story in STORIES if story.name == "clean")


@given(story=stories, between=st.sampled_from([_as_another_process, _as_another_opening]))
def test_numbers_given_out_again_after_a_clean_run(
    story: Story, between: Callable[[SyntheticTrace], None]
) -> None:
    assert_true_or_open(verdict_of(_then(CLEAN, story, between)), story)


@given(story=stories)
def test_number_of_a_failed_process_given_out_again(story: Story) -> None:
    """What its successor under the same pid was granted does not make good what it was refused."""
    assert_true_or_open(verdict_of(_then(story, CLEAN, _as_another_process)), story)
