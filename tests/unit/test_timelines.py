# SPDX-License-Identifier: MIT
"""Submits whose end the program learns of by a timeline semaphore."""

from __future__ import annotations

import errno

import pytest

from panthor_trace.model import build

from .synthetic import SyntheticTrace

CB, QUEUE, OTHER = 0xCB0, 0x9000_0000_0000_0001, 0x77
ALL, AVAILABLE = 1, 4


def done_by(run: SyntheticTrace) -> list[str]:
    return build(run.finish()).submits["done_by"].tolist()


def test_semaphore_tells_of_its_submit_and_those_before_on_the_queue() -> None:
    run = SyntheticTrace()
    run.call("vkBeginCommandBuffer", CB)
    run.call("vkCmdDispatch", CB, 4, 1, 1)
    run.call("vkEndCommandBuffer", CB)
    run.submit(QUEUE)
    run.submit(OTHER)
    run.submit(QUEUE, CB, signals=[(6, 8)])
    run.submit(QUEUE, signals=[(6, 9)])
    with run.vulkan("vkWaitSemaphores", 1, 0xABC, 0):
        run.wait_points((6, 8))
    assert done_by(run) == ["a later submit", "", "vkWaitSemaphores", ""]
    tables = build(run.finish())
    told = tables.vulkan["exit_ns"].iloc[-1]
    assert tables.submits["done_ns"].fillna(0).tolist() == [told, 0, told, 0]
    took = told - tables.submits["enter_ns"].iloc[2]
    assert tables.dispatches["submit_to_done_ns"].tolist() == [took]


def test_later_point_tells_of_the_earlier_ones() -> None:
    run = SyntheticTrace()
    run.submit(QUEUE, signals=[(6, 1)])
    run.submit(OTHER, signals=[(6, 2)])
    run.submit(OTHER, signals=[(6, 4)])
    run.wait_points((6, 3))
    # Of the first, on a queue of its own, a point of another queue says nothing by itself.
    assert done_by(run) == ["", "SYNCOBJ_TIMELINE_WAIT", ""]


@pytest.mark.parametrize(
    ("flags", "first", "told"),
    [(ALL, 0, [True, True]), (0, 1, [False, True]), (ALL | AVAILABLE, 0, [False] * 2)],
)
def test_wait_for_one_of_several_tells_of_that_one(flags: int, first: int, told: list[bool]) -> None:
    run = SyntheticTrace()
    run.submit(QUEUE, signals=[(6, 1)])
    run.submit(OTHER, signals=[(7, 1)])
    run.wait_points((6, 1), (7, 1), flags=flags, first=first)
    assert [bool(name) for name in done_by(run)] == told


def test_wait_that_timed_out_tells_nothing() -> None:
    run = SyntheticTrace()
    run.submit(QUEUE, signals=[(6, 1)])
    run.wait_points((6, 1), error=errno.ETIME)
    assert done_by(run) == [""]


def test_handle_that_was_given_out_again_is_another_timeline() -> None:
    run = SyntheticTrace()
    run.submit(QUEUE, signals=[(6, 5)])
    run.ioctl("SYNCOBJ_DESTROY", {"handle": 6})
    run.ioctl("SYNCOBJ_CREATE", {}, {"handle": 6})
    run.submit(OTHER, signals=[(6, 1)])
    run.wait_points((6, 5))
    assert done_by(run) == ["", "SYNCOBJ_TIMELINE_WAIT"]


def test_handle_means_something_in_its_file_only() -> None:
    run = SyntheticTrace()
    run.submit(QUEUE, signals=[(6, 1)])
    run.file += 0x100
    run.wait_points((6, 1))
    assert done_by(run) == [""]


def test_submits_of_the_kernel_alone_are_followed_too() -> None:
    run = SyntheticTrace()
    for point in (1, 2, 3):
        run.group_submit()
        run.signal(6, point)
    run.wait_points((6, 2))
    tables = build(run.finish())
    assert tables.submits["kind"].tolist() == ["kernel"] * 3
    assert tables.submits["done_by"].tolist() == ["", "SYNCOBJ_TIMELINE_WAIT", ""]
    assert tables.submits["done_ns"].fillna(0).tolist() == [0, tables.ioctls["exit_ns"].iloc[-1], 0]
