# SPDX-License-Identifier: MIT
"""Which call something happened inside of, by thread and time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int = npt.NDArray[np.int64]

#: "In no call."
NONE = -1


def parents(tid: Int, enter: Int, exit_: Int) -> Int:
    """Index of the call each call is nested in, or NONE.

    The calls are sorted by (tid, enter). Calls of one thread are nested or apart, never overlapping.
    """
    count = len(tid)
    parent = np.full(count, NONE, np.int64)
    if not count:
        return parent
    candidate = np.arange(count) - 1
    same = np.zeros(count, bool)
    same[1:] = tid[1:] == tid[:-1]
    # The latest exit of all earlier calls of the thread: where that is past, nothing encloses the call.
    starts = np.flatnonzero(~same)
    latest = np.zeros(count, np.int64)
    for start, stop in zip(starts, [*starts[1:], count], strict=True):
        latest[start + 1 : stop] = np.maximum.accumulate(exit_[start : stop - 1])
    searching = np.flatnonzero(same & (latest > enter))
    while len(searching):
        found = exit_[candidate[searching]] >= exit_[searching]
        parent[searching[found]] = candidate[searching[found]]
        searching = searching[~found]
        candidate[searching] -= 1
        searching = searching[candidate[searching] >= 0]
        searching = searching[tid[candidate[searching]] == tid[searching]]
    return parent


def enclosing(tid: Int, enter: Int, exit_: Int, parent: Int, at_tid: Int, at: Int) -> Int:
    """Index of the innermost call that was under way on thread ``at_tid`` at time ``at``, or NONE."""
    result = np.full(len(at), NONE, np.int64)
    if not len(tid) or not len(at):
        return result
    threads = np.unique(tid)
    for thread in np.intersect1d(threads, at_tid):
        first, last = np.searchsorted(tid, [thread, thread + 1])
        rows = np.flatnonzero(at_tid == thread)
        result[rows] = first + np.searchsorted(enter[first:last], at[rows], side="right") - 1
        result[rows[result[rows] < first]] = NONE
    open_ = np.flatnonzero(result != NONE)
    while len(open_):
        open_ = open_[exit_[result[open_]] < at[open_]]
        result[open_] = parent[result[open_]]
        open_ = open_[result[open_] != NONE]
    return result
