# SPDX-License-Identifier: MIT
"""Which of the objects that had a handle it meant at a given time: handles are given out again.

GEM handles, VM, group and heap ids count within one opening of the node (``struct drm_file``), so every key
begins with ``file``. All of it a column at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..trace.reader import Records
from .lookup import look_up, numbered


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
