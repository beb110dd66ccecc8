# SPDX-License-Identifier: MIT
"""One row a recorded dispatch: what it asked of the kernel, which submit carried it, how that ended."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..uapi import vulkan
from .lookup import look_up


def dispatches(calls: pd.DataFrame) -> pd.DataFrame:
    """The dispatches by themselves: where, when, how many workgroups."""
    columns = ["vulkan_id", "pid", "tid", "enter_ns", "exit_ns", "function", "command_buffer", "recording_id"]
    columns += ["groups_x", "groups_y", "groups_z"]
    frame = calls.loc[calls["function"].isin(vulkan.DISPATCHES), columns].reset_index(drop=True)
    frame.insert(0, "dispatch_id", np.arange(len(frame), dtype=np.int64))
    frame["number"] = frame.groupby("pid").cumcount() + 1
    frame["ordinal"] = frame.groupby("recording_id", dropna=False).cumcount() + 1
    return frame


def with_requests(
    frame: pd.DataFrame, ioctl_table: pd.DataFrame, bos: pd.DataFrame, binds: pd.DataFrame
) -> pd.DataFrame:
    """What happened inside each: requests, failures, bytes allocated and bound.

    What panvk allocates when the command buffer ends belongs to vkEndCommandBuffer, not to a dispatch.
    """

    def total(table: pd.DataFrame, column: str | None = None) -> np.ndarray:
        grouped = table[table["vulkan_id"].notna()].groupby("vulkan_id")
        sums = grouped.size() if column is None else grouped[column].sum()
        return np.asarray(sums.reindex(frame["vulkan_id"], fill_value=0).astype(np.int64).to_numpy())

    made = bos[bos["handle"].notna()]
    frame["ioctls"] = total(ioctl_table)
    frame["failed_ioctls"] = total(ioctl_table[ioctl_table["failed"]])
    frame["bos_created"] = total(made)
    frame["bytes_allocated"] = total(made, "size")
    frame["bytes_bound"] = total(binds[binds["done"] & (binds["operation"] == "map")], "size")
    return frame


def with_submits(
    frame: pd.DataFrame, spans: pd.DataFrame, submits: pd.DataFrame, carried: pd.DataFrame
) -> pd.DataFrame:
    """How the recording of each ended, the first submit that carried it, and when that was done."""
    recording = frame["recording_id"]
    frame["end_id"] = look_up(recording, spans["end_id"])
    end_result = look_up(recording, spans["end_result"])
    frame["end_result"] = end_result.map(vulkan.result_name, na_action="ignore").astype(object)
    known = carried[carried["recording_id"].notna()]
    by_recording = known.groupby(known["recording_id"].astype("int64"))["submit_id"]
    frame["submit_id"] = look_up(recording, by_recording.min())
    frame["submits"] = look_up(recording, by_recording.size()).fillna(0).astype("int64")
    given = submits.set_index("submit_id")
    for column, source in (
        ("submitted_ns", "enter_ns"),
        ("group_submits", "group_submits"),
        ("first_group_submit", "first_group_submit"),
        ("done_ns", "done_ns"),
    ):
        frame[column] = look_up(frame["submit_id"], given[source])
    frame["submit_result"] = look_up(frame["submit_id"], given["result"])
    frame["done_by"] = look_up(frame["submit_id"], given["done_by"])
    frame["submit_to_done_ns"] = frame["done_ns"] - frame["submitted_ns"]
    return frame
