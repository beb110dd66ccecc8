# SPDX-License-Identifier: MIT
"""What pictures are drawn from: bounded, and true at every point that is kept."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panthor_trace.model import Tables, build
from panthor_trace.report import rows, series, spaces
from panthor_trace.report.series import Subject
from panthor_trace.trace.reader import Trace
from panthor_trace.verdict import judge

from .synthetic import ENOMEM, SyntheticTrace
from .test_report import CB, MIB, refused


def looked_at(trace: Trace) -> tuple[Tables, Subject]:
    tables = build(trace)
    return tables, series.subject(tables, judge(tables, trace.meta, trace.end), trace.meta)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=400), st.integers(1, 20), st.data())
def test_thinning_keeps_ends_extremes_and_what_it_is_told(
    amounts: list[int], stretches: int, data: st.DataObject
) -> None:
    array = np.array(amounts, np.int64)
    keep = np.array(data.draw(st.lists(st.integers(-1, len(amounts) - 1), max_size=5)), np.int64)
    chosen = series.thinned(array, keep, stretches)
    assert list(chosen) == sorted(set(chosen))
    assert {0, len(amounts) - 1} | set(keep[keep >= 0]) <= set(chosen)
    assert array[chosen].max() == array.max()
    assert array[chosen].min() == array.min()
    assert len(chosen) <= 2 * stretches + len(keep) + 2


def test_a_moment_of_a_peak_survives_a_million() -> None:
    amounts = np.zeros(1_000_000, np.int64)
    amounts[777_777] = 5
    chosen = series.thinned(amounts, np.array([123_456]))
    assert {777_777, 123_456} <= set(chosen)
    assert len(chosen) <= 2 * series.STRETCHES + 3


def test_the_subject_is_the_process_that_failed() -> None:
    tables, about = looked_at(refused())
    assert about.pid == 100
    assert about.at_ns is not None
    assert about.seconds([about.start_ns + 1_500_000_000]) == [1.5]
    assert series.memory_lines(tables, about)[0].amounts[-1] == 48 * MIB


def test_pools_add_up_to_what_is_live() -> None:
    tables, about = looked_at(refused())
    lines = series.stacked_pools(tables, about)
    assert {line.name for line in lines} == {"application memory", "descriptors"}
    live = dict(zip(tables.memory["time_ns"], tables.memory["live_bo_bytes"], strict=True))
    by_second = dict(zip(about.seconds(list(live)), live.values(), strict=True))
    for moment, seconds in enumerate(lines[0].seconds):
        assert sum(line.amounts[moment] for line in lines) == by_second[seconds]
    assert max(sum(line.amounts[moment] for line in lines) for moment in range(len(lines[0].seconds))) == (
        200 * MIB
    )


def test_more_pools_than_colours_become_one() -> None:
    run = SyntheticTrace()
    for number in range(20):
        run.bo_create((number + 1) * MIB)
    tables, about = looked_at(run.finish(0))
    tables.bos["label"] = [f"label {number}" for number in range(20)]
    lines = series.stacked_pools(tables, about)
    assert len(lines) == series.POOLS + 1
    assert lines[0].name == "label 19"
    assert lines[-1].name == series.OTHER
    assert sum(line.amounts[-1] for line in lines) == sum(range(1, 21)) * MIB


def test_a_failure_stands_at_what_was_live_and_says_what_was_asked_for() -> None:
    tables, about = looked_at(refused())
    marks = series.failure_marks(tables, about)
    assert [mark.words for mark in marks] == [
        "VM_BIND → ENOMEM",
        "vkEndCommandBuffer → VK_ERROR_OUT_OF_DEVICE_MEMORY",
        "__cxa_throw → vk::OutOfDeviceMemoryError",
    ]
    assert [mark.asked for mark in marks] == [152 * MIB, 0, 0]
    assert [mark.amount for mark in marks] == [200 * MIB, 48 * MIB, 48 * MIB]


def test_dispatches_alike_are_one_point_and_the_refused_comes_first() -> None:
    run = SyntheticTrace()
    run.call("vkBeginCommandBuffer", CB)
    for _ in range(5):
        with run.vulkan("vkCmdDispatch", CB, 8, 2, 1):
            run.vm_bind((run.bo_create(MIB, flags=1), MIB))
    run.call("vkCmdDispatch", CB, 8, 2, 1)
    with run.vulkan("vkCmdDispatch", CB, 64, 1, 1):
        run.bo_create(32 * MIB, flags=1, error=ENOMEM)
    tables, about = looked_at(run.finish(0))
    points = series.dispatch_points(tables, about)
    assert [(p.workgroups, p.size, p.pool, p.refused, p.count, p.number) for p in points] == [
        (64, 32 * MIB, "WLS", True, 1, 7),
        (16, MIB, "WLS", False, 5, 1),
        (16, 0, "", False, 1, 6),
    ]


def test_very_many_dispatches_are_marked_by_stretches() -> None:
    run = SyntheticTrace()
    run.bo_create(MIB)
    run.call("vkBeginCommandBuffer", CB)
    for _ in range(series.MARKS + 500):
        run.call("vkCmdDispatch", CB, 1, 1, 1)
    marks = series.dispatch_marks(*looked_at(run.finish(0)))
    assert len(marks) == series.MARKS
    assert sum(mark.count for mark in marks) == series.MARKS + 500


def test_address_spaces_are_whole_and_in_order() -> None:
    run = SyntheticTrace()
    run.vm_create(0xFFFF_0000_0001_0000)
    with run.vulkan("vkAllocateMemory", 1):
        for number in range(3):
            run.vm_bind((run.bo_create(MIB), MIB), va=0x1000_0000 + number * MIB)
        run.vm_bind((run.bo_create(4096), 4096), va=1 << 40)
    run.vm_bind((run.bo_create(MIB), MIB), va=0x2000_0000)
    tables, about = looked_at(run.finish(0))
    (space,) = spaces.spaces(tables, replace(about, at_ns=run.now))
    assert (space.mapped, space.of) == (4 * MIB + 4096, 1 << 47)
    stretches = space.stretches
    assert [(one.pool, one.size, one.buffers) for one in stretches] == [
        ("application memory", 3 * MIB, 3),
        (spaces.FREE, 0x1000_0000 - 3 * MIB, 0),
        ("unknown", MIB, 1),
        (spaces.FREE, (1 << 40) - 0x2000_0000 - MIB, 0),
        ("application memory", 4096, 1),
    ]
    for before, after in pairwise(stretches):
        assert before.va + before.size == after.va
        assert before.left + before.width == pytest.approx(after.left, abs=1e-5)
    assert stretches[-1].left + stretches[-1].width == pytest.approx(1, abs=1e-5)
    assert min(one.width for one in stretches) > 0.001


def test_a_space_in_very_many_pieces_is_drawn_in_some() -> None:
    run = SyntheticTrace()
    run.vm_create(0xFFFF_0000_0001_0000)
    for number in range(spaces.STRETCHES + 300):
        run.vm_bind((run.bo_create(4096), 4096), va=0x1000_0000 + number * 24576 + number % 3 * 4096)
    tables, about = looked_at(run.finish(0))
    (space,) = spaces.spaces(tables, replace(about, at_ns=run.now))
    assert len(space.stretches) <= 2 * spaces.STRETCHES + 1
    assert sum(one.buffers for one in space.stretches) == spaces.STRETCHES + 300


def test_rows_lead_to_each_other() -> None:
    tables, about = looked_at(refused())
    by_name = {listing.name: listing for listing in rows.listings(tables, about)}
    names = {row.name for listing in by_name.values() for row in listing.rows}
    links = {cell.link for listing in by_name.values() for row in listing.rows for cell in row.cells}
    assert links - {""} <= names
    bind = by_name["failures"].rows[0]
    assert bind.name == "failure-0"
    assert {"bo-4", "dispatch-3"} <= {cell.link for cell in bind.cells}
    buffer = next(row for row in by_name["buffers"].rows if row.name == "bo-4")
    assert buffer.failed
    assert {"failure-0", "dispatch-3"} <= {cell.link for cell in buffer.cells}


def test_a_link_to_a_row_that_is_not_shown_is_only_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MOST", 2)
    tables, about = looked_at(refused())
    found = rows.listings(tables, about)
    names = {row.name for listing in found for row in listing.rows}
    cells = [cell for listing in found for row in listing.rows for cell in row.cells]
    assert {cell.link for cell in cells} - {""} <= names
    assert [len(listing.rows) for listing in found] == [2, 2, 2]
    assert [listing.total for listing in found] == [3, 4, 5]
    assert "bo-4" in names  # the refused one


def test_nothing_recorded_is_nothing_drawn() -> None:
    tables, about = looked_at(replace(SyntheticTrace().finish(None), meta={}))
    assert about.pid is None
    assert series.memory_lines(tables, about) == []
    assert series.stacked_pools(tables, about) == []
    assert series.dispatch_points(tables, about) == []
    assert rows.listings(tables, about) == []
