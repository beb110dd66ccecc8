# SPDX-License-Identifier: MIT
"""What was given to the GPU, when it was done, and which recordings went with it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..trace.reader import Records, Trace
from ..trace.schema import RecordType
from ..uapi import ioctls, vulkan
from .arguments import elements, members
from .buffers import arrays_of
from .lifetimes import latest
from .lookup import answered, look_up
from .requests import arguments
from .timelines import by_timeline

SUBMITTING = ("vkQueueSubmit", "vkQueueSubmit2")
#: Calls whose success says that all that was submitted to the queue, or the device, before is done.
_IDLE = ("vkQueueWaitIdle", "vkDeviceWaitIdle")


def submits(
    trace: Trace, calls: pd.DataFrame, ioctl_table: pd.DataFrame, records: Records
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row a vkQueueSubmit(2), and one a GROUP_SUBMIT outside of all of them; see docs/tables.md.

    Second: one row a command buffer handed over, as ``submit_id`` and ``recording_id``.
    """
    called = calls[calls["function"].isin(SUBMITTING)]
    kernel = _group_submits(trace, ioctl_table, records)
    inside = kernel["vulkan_id"].isin(called["vulkan_id"]).fillna(False).astype(bool)
    alone = kernel[~inside]
    columns = ["pid", "tid", "enter_ns", "exit_ns", "vulkan_id"]
    frame = pd.concat(
        [
            called[[*columns, "queue", "fence", "cut"]].assign(kind="vulkan", result=called["result_name"]),
            alone[[*columns, "ioctl_id", "cut"]].assign(kind="kernel", result=alone["errno"]),
        ]
    )
    frame = frame.astype({"vulkan_id": "Int64", "ioctl_id": "Int64", "queue": "UInt64", "fence": "UInt64"})
    frame = frame.sort_values("enter_ns", kind="stable").reset_index(drop=True)
    frame.insert(0, "submit_id", np.arange(len(frame), dtype=np.int64))
    frame["fence"] = frame["fence"].mask(frame["fence"] == 0)
    frame = _with_group_submits(frame, kernel)
    carried = _carried(trace, calls, called, frame)
    frame["command_buffers"] = _count(carried, frame["submit_id"])
    told = [
        _by_fence(trace, calls, frame),
        _by_idle(calls, frame),
        by_timeline(trace, calls, ioctl_table, records, frame),
    ]
    frame = frame.join(_done(frame, pd.concat(told, ignore_index=True)))
    names = ["submit_id", "kind", "pid", "tid", "enter_ns", "exit_ns", "vulkan_id", "ioctl_id", "queue"]
    names += ["fence", "command_buffers", "cut", "result", "group_submits", "first_group_submit"]
    names += ["streams", "stream_bytes", "done_ns", "done_by"]
    return frame[names], carried


def _count(rows: pd.DataFrame, ids: pd.Series) -> np.ndarray:
    return np.asarray(rows.groupby("submit_id").size().reindex(ids, fill_value=0).to_numpy(np.int64))


def _group_submits(trace: Trace, ioctl_table: pd.DataFrame, records: Records) -> pd.DataFrame:
    """The GROUP_SUBMITs with how many command streams they give to the group's queues, and their bytes."""
    before = arguments(ioctl_table, records, "GROUP_SUBMIT", "before")
    frame = ioctl_table.loc[before.index].copy()
    arrays, owners = arrays_of(trace, frame)
    strides = before["queue_submits_stride"].reindex(owners).to_numpy(np.int64)
    owner, _, streams = elements(ioctls.QUEUE_SUBMIT, arrays, owners, strides)
    sizes = pd.Series(streams["stream_size"].to_numpy(np.int64)).groupby(owner).sum()
    frame["streams"] = before["queue_submits_count"].astype("Int64")
    frame["stream_bytes"] = sizes.reindex(frame.index, fill_value=0).to_numpy(np.int64)
    return frame


def _with_group_submits(frame: pd.DataFrame, kernel: pd.DataFrame) -> pd.DataFrame:
    """The GROUP_SUBMITs made inside each row's call, or being the row."""
    by_call = frame.loc[frame["kind"] == "vulkan"].set_index("vulkan_id")["submit_id"]
    by_ioctl = frame.loc[frame["kind"] == "kernel"].set_index("ioctl_id")["submit_id"]
    whose = look_up(kernel["ioctl_id"], by_ioctl).fillna(look_up(kernel["vulkan_id"], by_call))
    grouped = kernel.assign(submit_id=whose).groupby("submit_id")
    ids = frame["submit_id"]
    frame["group_submits"] = grouped.size().reindex(ids, fill_value=0).to_numpy(np.int64)
    frame["first_group_submit"] = look_up(ids, grouped["ioctl_id"].min())
    for name in ("streams", "stream_bytes"):
        frame[name] = look_up(ids, grouped[name].sum()).fillna(0)
    return frame


def _carried(trace: Trace, calls: pd.DataFrame, called: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """Each command buffer of each submit, and the recording that was in it then."""
    parts = []
    for version, (stride, offset) in vulkan.COMMAND_BUFFERS.items():
        names = [function.name for function in vulkan.FUNCTIONS if function.submit == version]
        of_version = called[called["function"].isin(names)]
        arrays, owners = arrays_of(trace, of_version)
        owner, values = members(arrays, owners, stride, offset)
        parts.append(pd.DataFrame({"vulkan_id": owner, "command_buffer": values}))
    handed = pd.concat(parts, ignore_index=True)
    handed["vulkan_id"] = handed["vulkan_id"].astype("int64")
    handed = handed.merge(frame[["vulkan_id", "submit_id", "pid", "enter_ns"]], on="vulkan_id")
    # Handles are addresses: as int64 they sort and join.
    begun = calls[calls["function"] == "vkBeginCommandBuffer"]
    begun = begun.assign(command_buffer=begun["command_buffer"].astype("uint64").astype("int64"))
    handed["command_buffer"] = handed["command_buffer"].astype("uint64").astype("int64")
    place = latest(begun, handed, ["pid", "command_buffer"], "enter_ns", made_at="enter_ns")
    handed["recording_id"] = look_up(place, begun["recording_id"])
    return handed.sort_values("submit_id", kind="stable")[["submit_id", "recording_id"]].reset_index(
        drop=True
    )


def _done(frame: pd.DataFrame, told: pd.DataFrame) -> pd.DataFrame:
    """When each submit was seen to be done, and what said so, by the answers ``told``.

    A fence says so of its submit and of all before it on the queue (Vulkan 1.3, 7.3 "Fence signal
    operations"), and so does a semaphore (7.4.1); so does a wait for the queue or device to be idle.
    ``done_ns`` is when the program was told: the GPU was done some time before. What was submitted to the
    kernel outside of all probed calls has no queue, and only its own answers.
    """
    told = told.sort_values("done_ns", kind="stable").drop_duplicates("submit_id")
    result = pd.DataFrame(
        {"done_ns": pd.Series(pd.NA, index=frame.index, dtype="Int64"), "done_by": pd.Series("", frame.index)}
    )
    for _, rows in frame[frame["kind"] == "vulkan"].groupby(["pid", "queue"]):
        # At each submit of the queue: the earliest of the answers about it or a later one.
        of_queue = told.set_index("submit_id").reindex(rows["submit_id"])
        times = of_queue["done_ns"].fillna(np.inf).to_numpy(float)[::-1]
        earliest = np.minimum.accumulate(times)
        own = times == earliest
        says = np.where(own, of_queue["done_by"].fillna("").to_numpy()[::-1], "a later submit")
        known = np.isfinite(earliest)
        # Floats lose nanoseconds: look the exact time up where the minimum is from.
        source = np.maximum.accumulate(np.where(own, np.arange(len(times)), 0))
        exact = of_queue["done_ns"].to_numpy()[::-1][source]
        result.loc[rows.index, "done_ns"] = pd.array(exact, dtype="Int64")[::-1]
        result.loc[rows.index, "done_by"] = np.where(known, says, "")[::-1]
    alone = told[told["submit_id"].isin(frame.loc[frame["kind"] == "kernel", "submit_id"])]
    for name in ("done_ns", "done_by"):  # a submit's id is its row's number
        result.loc[alone["submit_id"].astype("int64"), name] = alone[name].to_numpy()
    return result


def _by_fence(trace: Trace, calls: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """Answers about a fence: vkGetFenceStatus, and vkWaitForFences for all of its fences or the only one."""
    succeeded = answered(calls["result"])
    asked = calls[(calls["function"] == "vkGetFenceStatus") & succeeded]
    parts = [asked[["pid", "exit_ns", "function", "fence"]]]
    waits = calls[(calls["function"] == "vkWaitForFences") & succeeded]
    raw = trace.of(RecordType.VULKAN)
    raw = raw[np.argsort(raw["head"]["enter_ns"], kind="stable")][waits["vulkan_id"].to_numpy()]
    if len(raw):
        fences = np.ascontiguousarray(raw["pointee"]).view("<u8")
        counts = waits["fences"].to_numpy(np.int64)
        every = (raw["args"][:, 3] & np.uint64(0xFFFFFFFF)) != 0
        kept = (np.arange(fences.shape[1]) < counts[:, None]) & (every | (counts == 1))[:, None]
        rows = waits.iloc[np.nonzero(kept)[0]]
        parts.append(rows[["pid", "exit_ns", "function"]].assign(fence=fences[kept]))
    answers = pd.concat(parts).dropna(subset=["fence"])
    answers["fence"] = answers["fence"].astype("uint64").astype("int64")
    given = frame[frame["fence"].notna()].copy()
    given["fence"] = given["fence"].astype("uint64").astype("int64")
    place = latest(given, answers.reset_index(drop=True), ["pid", "fence"], "exit_ns", made_at="enter_ns")
    told = answers.reset_index(drop=True)[place.notna().to_numpy()]
    ids = given["submit_id"].reindex(place.dropna().astype("int64")).to_numpy(np.int64)
    return pd.DataFrame(
        {"submit_id": ids, "done_ns": told["exit_ns"].to_numpy(), "done_by": told["function"]}
    )


def _by_idle(calls: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """Answers about all of a queue or device: the last submit before such a wait."""
    waits = calls[calls["function"].isin(_IDLE) & answered(calls["result"])]
    parts = []
    submitted = frame[frame["kind"] == "vulkan"]
    for keys, rows in submitted.groupby(["pid", "queue"]):
        pid, queue = keys
        about = waits[(waits["pid"] == pid) & (waits["queue"].isna() | (waits["queue"] == queue))]
        before = np.searchsorted(rows["exit_ns"].to_numpy(), about["enter_ns"].to_numpy(), "right") - 1
        seen = before >= 0
        parts.append(
            pd.DataFrame(
                {
                    "submit_id": rows["submit_id"].to_numpy()[before[seen]],
                    "done_ns": about["exit_ns"].to_numpy()[seen],
                    "done_by": about["function"].to_numpy()[seen],
                }
            )
        )
    return (
        pd.concat(parts, ignore_index=True)
        if parts
        else pd.DataFrame(columns=["submit_id", "done_ns", "done_by"])
    )
