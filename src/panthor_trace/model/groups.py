# SPDX-License-Identifier: MIT
"""Table of scheduling groups."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..trace.reader import Records
from .lifetimes import destroyed, latest
from .lookup import answered, look_up
from .requests import FROM_IOCTL, arguments, events

#: ``enum drm_panthor_group_priority``.
_PRIORITIES = {0: "low", 1: "medium", 2: "high", 3: "realtime"}
_KEY = ["file", "handle"]


def groups(calls: pd.DataFrame, records: Records) -> pd.DataFrame:
    """One row a GROUP_CREATE; see docs/tables.md."""
    before = arguments(calls, records, "GROUP_CREATE", "before")
    after = arguments(calls, records, "GROUP_CREATE", "after")
    frame = calls.loc[before.index, FROM_IOCTL].rename(columns={"exit_ns": "created_ns"})
    made = answered(frame["ret"])
    frame = frame.join(before).rename(columns={"queues_count": "queues"})
    frame["handle"] = pd.Series(after["group_handle"], dtype="Int64").where(made)
    frame = frame.reset_index(drop=True)
    live = frame[frame["handle"].notna()]
    frame["destroyed_ns"] = destroyed(frame, "handle", calls, records, "GROUP_DESTROY", "group_handle")
    asked = events(calls, records, "GROUP_GET_STATE", "group_handle")
    about = latest(live, asked, _KEY, "exit_ns")
    numbers = pd.Series(frame.index, index=frame.index)
    for name in ("state", "fatal_queues"):
        frame[name] = look_up(numbers, asked.groupby(about)[name].last())
    submits = events(calls, records, "GROUP_SUBMIT", "group_handle")
    counts = latest(live, submits, _KEY, "enter_ns").value_counts()
    frame["submits"] = look_up(numbers, counts).fillna(0).astype("int64")
    priority = frame["priority"].astype("Int64")
    known = priority.map(lambda value: _PRIORITIES.get(int(value), str(value)), na_action="ignore")
    frame["priority"] = known.astype(object)
    frame.insert(0, "group_id", np.arange(len(frame), dtype=np.int64))
    columns = ["group_id", "ioctl_id", "pid", "tid", "fd", "file", "handle", "vm_id", "queues", "priority"]
    columns += ["compute_core_mask", "fragment_core_mask", "tiler_core_mask", "max_compute_cores"]
    columns += ["max_fragment_cores", "max_tiler_cores", "submits", "state", "fatal_queues"]
    return frame[[*columns, "created_ns", "destroyed_ns", "ret", "errno", "vulkan_id"]]
