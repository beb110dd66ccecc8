# SPDX-License-Identifier: MIT
"""Requests with their decoded arguments, from which the tables of what they made are built."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..trace.reader import Records
from ..uapi import ioctls
from .arguments import decode
from .lookup import answered

#: What a row takes over from the ioctl that made it.
FROM_IOCTL = ["ioctl_id", "pid", "tid", "file", "fd", "enter_ns", "exit_ns", "ret", "errno", "vulkan_id"]


def arguments(calls: pd.DataFrame, records: Records, name: str, which: str) -> pd.DataFrame:
    """Decoded arguments of all ioctls ``name``, ``before`` or ``after`` the call; index as in ``calls``."""
    rows = np.asarray((calls["name"] == name).to_numpy())
    sizes = calls.loc[rows, "argument_size"].to_numpy()
    frame = decode(ioctls.BY_NAME[name], records[which][rows], sizes)
    frame.index = calls.index[rows]
    return frame


def events(calls: pd.DataFrame, records: Records, name: str, handle: str) -> pd.DataFrame:
    """The successful ioctls ``name`` with what they asked for and got: ``handle`` as ``handle``."""
    before = arguments(calls, records, name, "before")
    after = arguments(calls, records, name, "after")
    frame = calls.loc[before.index, ["ioctl_id", "pid", "file", "enter_ns", "exit_ns", "ret"]]
    frame = frame.join(after.drop(columns=[handle])).assign(handle=before[handle].astype("Int64"))
    done = answered(frame["ret"])
    return frame[done & frame["handle"].notna()]
