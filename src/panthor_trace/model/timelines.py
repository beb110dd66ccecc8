# SPDX-License-Identifier: MIT
"""Submits that the program was told to be done by a point of a timeline sync object.

panvk signals a sync object of its own queue and transfers that, inside vkQueueSubmit, to the point that the
program's semaphore is to reach; vkWaitSemaphores is a SYNCOBJ_TIMELINE_WAIT for that point [measured: panvk
26.1.6 under llama-bench].
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..trace.reader import Records, Trace
from ..uapi import ioctls
from .buffers import arrays_of
from .lifetimes import latest
from .lookup import answered, look_up
from .requests import arguments

#: How many points an array record of a wait has room for; POINTS of bpf/ioctl.c.
POINTS = 16
#: Requests by which a file comes to a handle of a sync object.
_MAKING = ("SYNCOBJ_CREATE", "SYNCOBJ_FD_TO_HANDLE")
_OBJECT = ["file", "handle", "object"]


def by_timeline(
    trace: Trace, calls: pd.DataFrame, ioctl_table: pd.DataFrame, records: Records, submits: pd.DataFrame
) -> pd.DataFrame:
    """Rows of ``submit_id``, ``done_ns`` and ``done_by``: a point that it, or a later submit, was to reach.

    A timeline reaches its points in order: of those up to the one waited for, the last tells whose it is.
    """
    made = _made(ioctl_table, records)
    given = _given(ioctl_table, records, submits, made)
    reached = _reached(trace, calls, ioctl_table, records, made)
    if given.empty or reached.empty:
        return pd.DataFrame(columns=["submit_id", "done_ns", "done_by"])
    found = pd.merge_asof(
        reached.sort_values("point", kind="stable"),
        given.sort_values(["point", "enter_ns"], kind="stable")[[*_OBJECT, "point", "submit_id", "enter_ns"]],
        on="point",
        by=_OBJECT,
    )
    found = found[found["submit_id"].notna() & (found["enter_ns"] < found["done_ns"])]
    return found[["submit_id", "done_ns", "done_by"]].astype({"submit_id": "int64", "done_ns": "int64"})


def _made(ioctl_table: pd.DataFrame, records: Records) -> pd.DataFrame:
    """When a handle came to stand for a sync object: handles are given out again."""
    parts = []
    for name in _MAKING:
        after = arguments(ioctl_table, records, name, "after")
        frame = ioctl_table.loc[after.index, ["file", "exit_ns", "ret"]].assign(handle=after["handle"])
        parts.append(frame[answered(frame["ret"])])
    return pd.concat(parts).rename(columns={"exit_ns": "created_ns"}).astype({"handle": "int64"})


def _which(frame: pd.DataFrame, made: pd.DataFrame) -> pd.DataFrame:
    """``frame`` with the ``object`` that ``handle`` stood for at ``enter_ns``; -1: made before all."""
    return frame.assign(object=latest(made, frame, ["file", "handle"], "enter_ns").fillna(-1).astype("int64"))


def _given(
    ioctl_table: pd.DataFrame, records: Records, submits: pd.DataFrame, made: pd.DataFrame
) -> pd.DataFrame:
    """The points that submits are to reach: transferred inside one, or after one of the kernel's."""
    before = arguments(ioctl_table, records, "SYNCOBJ_TRANSFER", "before")
    frame = ioctl_table.loc[before.index, ["tid", "file", "enter_ns", "ret", "vulkan_id"]].assign(
        handle=before["dst_handle"].astype("int64"),
        point=before["dst_point"].astype("uint64").astype("int64"),
    )
    frame = frame[answered(frame["ret"]) & (frame["point"] > 0)]
    called = submits[submits["kind"] == "vulkan"].set_index("vulkan_id")["submit_id"]
    alone = submits[submits["kind"] == "kernel"]
    before_it = latest(alone, frame, ["tid"], "enter_ns", made_at="enter_ns")
    outside = look_up(before_it, alone["submit_id"]).mask(frame["vulkan_id"].notna())
    frame["submit_id"] = look_up(frame["vulkan_id"], called).fillna(outside)
    return _which(frame[frame["submit_id"].notna()], made)


def _reached(
    trace: Trace, calls: pd.DataFrame, ioctl_table: pd.DataFrame, records: Records, made: pd.DataFrame
) -> pd.DataFrame:
    """The points that the program was told to be reached, when, and by which call."""
    after = arguments(ioctl_table, records, "SYNCOBJ_TIMELINE_WAIT", "after")
    waits = ioctl_table.loc[after.index].join(after)
    waits = waits[
        answered(waits["ret"]) & (waits["flags"].astype("int64") & ioctls.SYNCOBJ_WAIT_AVAILABLE == 0)
    ]
    arrays, owners = arrays_of(trace, waits)
    waits = waits.loc[owners]
    count = waits["count_handles"].to_numpy(np.int64)[:, None]
    every = waits["flags"].to_numpy(np.int64)[:, None] & ioctls.SYNCOBJ_WAIT_ALL != 0
    place = np.arange(POINTS)[None, :]
    first = waits["first_signaled"].to_numpy(np.int64)[:, None]
    row, column = np.nonzero((place < count) & (every | (count == 1) | (place == first)))
    raw = np.ascontiguousarray(arrays["bytes"])
    frame = waits.iloc[row][["file", "enter_ns", "exit_ns", "vulkan_id"]].reset_index(drop=True)
    frame["point"] = raw[:, : 8 * POINTS].copy().view("<u8").astype(np.int64)[row, column]
    frame["handle"] = raw[:, 8 * POINTS : 12 * POINTS].copy().view("<u4").astype(np.int64)[row, column]
    succeeded = calls[answered(calls["result"])].set_index("vulkan_id")
    told = look_up(frame["vulkan_id"], succeeded["exit_ns"])
    frame["done_ns"] = told.fillna(frame["exit_ns"]).astype("int64")
    frame["done_by"] = look_up(frame["vulkan_id"], succeeded["function"]).fillna("SYNCOBJ_TIMELINE_WAIT")
    return _which(frame, made)[[*_OBJECT, "point", "done_ns", "done_by"]]
