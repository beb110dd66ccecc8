# SPDX-License-Identifier: MIT
"""Which of the objects that had a handle it meant at a given time: handles are given out again.

GEM handles, VM, group and heap ids count within one opening of the node (``struct drm_file``), so every key
begins with ``file``. All of it a column at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from ..trace.reader import Records
from .lookup import answered, look_up, numbered
from .requests import events


def files(records: Records) -> np.ndarray:
    """A number for the opening of the node that each ioctl record was made on.

    The kernel's file, where the trace has it. Else the process and the node: descriptors duplicated from one
    opening are then one, but two openings of one process cannot be told apart.
    """
    columns = [records["head"]["tgid"].astype(np.uint64), records["rdev"].astype(np.uint64)]
    if "file" in (records.dtype.names or ()):
        known = records["file"] != 0
        columns = [np.where(known, 0, column) for column in columns] + [records["file"]]
    return numbered(*columns)


def latest(
    made: pd.DataFrame, events: pd.DataFrame, keys: Sequence[str], at: str, *, made_at: str = "created_ns"
) -> pd.Series:
    """Index in ``made`` of the object each event speaks of: the last one made before under the same key.

    ``<NA>`` where none had been made. Objects without a key (their creation failed) must not be in ``made``.
    """
    result = pd.Series(pd.NA, index=events.index, dtype="Int64")
    if made.empty or events.empty:
        return result
    names = [f"key{position}" for position in range(len(keys))]
    left = events[list(keys)].set_axis(names, axis=1).astype("int64").assign(at=events[at].astype("int64"))
    right = made[list(keys)].set_axis(names, axis=1).astype("int64").assign(at=made[made_at].astype("int64"))
    left, right = left.sort_values("at", kind="stable"), right.sort_values("at", kind="stable")
    matched = pd.merge_asof(left, right.assign(found=right.index), on="at", by=names)
    result[left.index] = matched["found"].astype("Int64").to_numpy()
    return result


def first_time(objects: pd.Series, times: pd.Series, index: pd.Index) -> pd.Series:
    """The earliest of ``times`` for each object of ``index``, ``objects`` naming whose each is."""
    known = objects.notna()
    earliest = times[known].groupby(objects[known].astype("int64")).min()
    return earliest.reindex(index).astype("Int64")


def not_after(objects: pd.Series, at: pd.Series, ended: pd.Series) -> pd.Series:
    """``objects`` without those that had ended before the event, which was about something unseen."""
    end = look_up(objects, ended)
    late = (end < at).fillna(False).astype(bool)
    return objects.mask(late)


def destroyed(
    made: pd.DataFrame, key: str, calls: pd.DataFrame, records: Records, ioctl: str, argument: str
) -> pd.Series:
    """When each object of ``made`` was destroyed by the ``ioctl`` whose ``argument`` is its id, ``key``."""
    ends = events(calls, records, ioctl, argument).rename(columns={"handle": key})
    whose = latest(made[made[key].notna()], ends, ["file", key], "enter_ns")
    return first_time(whose, ends["exit_ns"], made.index)


def end_with_files(*tables: tuple[pd.DataFrame, str]) -> list[pd.DataFrame]:
    """``tables`` (each with the column of its ids) with the end of what went when its file was closed.

    The kernel gives out the lowest free id (xa_alloc), so an id given out again without having been destroyed
    tells that the file was closed in between, with all that it had: the kernel's next file may lie at the
    same address. ``destroyed_ns`` is then the time the id came again.
    """
    parts = [
        table[table[key].notna()].assign(kind=kind, row=table.index[table[key].notna()], id=table[key])
        for kind, (table, key) in enumerate(tables)
    ]
    columns = ["kind", "row", "file", "id", "created_ns", "destroyed_ns"]
    frame = pd.concat([part[columns].astype("Int64") for part in parts], ignore_index=True)
    frame = frame.sort_values("created_ns", kind="stable", ignore_index=True)
    again = frame.groupby(["kind", "file", "id"])["created_ns"].shift(-1)
    open_ = frame["destroyed_ns"].isna()
    spans = frame[open_ & again.notna()].assign(again=again).sort_values("again", kind="stable")
    for file, span in spans.groupby("file"):
        closings = _fewest_moments(zip(span["created_ns"], span["again"], strict=True))
        rows = frame.index[(frame["file"] == file) & open_]
        place = np.searchsorted(closings, frame.loc[rows, "created_ns"].astype("int64"), side="right")
        ended = place < len(closings)
        frame.loc[rows[ended], "destroyed_ns"] = closings[place[ended]]
    whole = []
    for kind, (table, _) in enumerate(tables):
        ends = frame[frame["kind"] == kind].set_index("row")["destroyed_ns"]
        whole.append(table.assign(destroyed_ns=ends.reindex(table.index).astype("Int64")))
    return whole


def _fewest_moments(intervals: Iterable[tuple[int, int]]) -> np.ndarray:
    """The fewest moments of which one lies in each interval (first, last]; these sorted by ``last``."""
    moments: list[int] = []
    for first, last in intervals:
        if not moments or moments[-1] <= first:
            moments.append(last)
    return np.array(moments, np.int64)


def living(table: pd.DataFrame, at_ns: int) -> pd.DataFrame:
    """Objects (VMs, heaps, groups) that were there at ``at_ns``: one made at that very moment is."""
    there = answered(table["ret"]) & (table["created_ns"] <= at_ns)
    there &= table["destroyed_ns"].gt(at_ns).fillna(True).astype(bool)
    chosen: pd.DataFrame = table[there]
    return chosen
