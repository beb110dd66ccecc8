# SPDX-License-Identifier: MIT
"""Tables of calls: Vulkan calls, the command-buffer recordings they make up, and ioctls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..trace.reader import Trace
from ..trace.schema import NO_DESCRIPTOR, Flag, RecordType
from ..uapi import ioctls, vulkan
from ..uapi.errnos import errno_name
from . import nesting
from .lifetimes import files


def nullable(values: np.ndarray, none: int = nesting.NONE) -> pd.Series:
    """Ids as a nullable integer column."""
    series = pd.Series(values, dtype="Int64")
    return series.mask(series == none)


def vulkan_calls(trace: Trace) -> pd.DataFrame:
    """One row a Vulkan call, sorted by time; see docs/tables.md.

    ``vulkan_id`` is the row's number. ``parent_id`` is the call it was made inside of. ``recording_id``
    numbers the recordings of command buffers: a vkBeginCommandBuffer starts one.
    """
    records = trace.of(RecordType.VULKAN)
    records = records[np.argsort(records["head"]["enter_ns"], kind="stable")]
    names: Sequence[str] = trace.meta.get("vulkan_functions", [])
    lookup = np.array([*names, "?"], dtype=object)
    function = lookup[np.minimum(records["function"], len(names))]
    unfinished = (records["head"]["flags"] & Flag.UNFINISHED) != 0
    has_result = np.array(
        [name in vulkan.BY_NAME and vulkan.BY_NAME[name].has_result for name in lookup], dtype=bool
    )[np.minimum(records["function"], len(names))]
    result = pd.Series(records["result"], dtype="Int64").mask(~has_result | unfinished)
    frame = pd.DataFrame(
        {
            "vulkan_id": np.arange(len(records), dtype=np.int64),
            "pid": records["head"]["tgid"].astype(np.int64),
            "tid": records["head"]["tid"].astype(np.int64),
            "function": function,
            "enter_ns": records["head"]["enter_ns"].astype(np.int64),
            "exit_ns": records["exit_ns"].astype(np.int64),
            "finished": ~unfinished,
            "cut": (records["head"]["flags"] & (Flag.ARRAY_CUT | Flag.FAULT_BEFORE)) != 0,
            "result": result,
            "result_name": result.map(vulkan.result_name, na_action="ignore"),
        }
    )
    frame["parent_id"] = nullable(_parents(frame))
    frame["command_buffer"] = _command_buffers(frame, records)
    frame["recording_id"] = _recordings(frame)
    for column, values in _members(frame, records).items():
        frame[column] = values
    return frame


#: Decoded arguments, in every vulkan table whether or not a call has them.
_MEMBERS = (
    *("groups_x", "groups_y", "groups_z", "queue", "fence", "fences", "submits"),
    *(member[0] for function in vulkan.FUNCTIONS if function.pointee for member in function.pointee.members),
)
#: Arguments that are columns of their own.
_ARGUMENTS = {
    "groupCountX": "groups_x",
    "groupCountY": "groups_y",
    "groupCountZ": "groups_z",
    "queue": "queue",
    "fence": "fence",
    "fenceCount": "fences",
    "submitCount": "submits",
}


def _parents(frame: pd.DataFrame) -> np.ndarray:
    ordered = frame.sort_values(["tid", "enter_ns"], kind="stable")
    found = nesting.parents(*(ordered[name].to_numpy() for name in ("tid", "enter_ns", "exit_ns")))
    ids = ordered["vulkan_id"].to_numpy()
    result = np.full(len(frame), nesting.NONE, np.int64)
    result[ids] = np.where(found == nesting.NONE, nesting.NONE, ids[found] if len(ids) else 0)
    return result


def _command_buffers(frame: pd.DataFrame, records: np.ndarray) -> pd.Series:
    """The command buffer a call records into, <NA> for other calls."""
    column = pd.Series(pd.NA, index=frame.index, dtype="UInt64")
    for name in frame["function"].unique():
        known = vulkan.BY_NAME.get(name)
        if known is not None and known.command_buffer is not None:
            rows = (frame["function"] == name).to_numpy()
            column[rows] = records["args"][rows, known.command_buffer]
    return column


def _recordings(frame: pd.DataFrame) -> pd.Series:
    """A number for each recording: process, command buffer, and how often it had been begun."""
    owned = frame[frame["command_buffer"].notna()]
    begun = (
        (owned["function"] == "vkBeginCommandBuffer")
        .groupby([owned["pid"], owned["command_buffer"]])
        .cumsum()
    )
    keys = pd.DataFrame({"pid": owned["pid"], "cb": owned["command_buffer"], "begun": begun})
    number = keys.groupby(["pid", "cb", "begun"], sort=False).ngroup()
    return number.astype("Int64").reindex(frame.index)


def _members(frame: pd.DataFrame, records: np.ndarray) -> dict[str, pd.Series]:
    """Decoded arguments: workgroup counts, sizes; a column is <NA> where a function has none."""
    columns = {name: pd.Series(pd.NA, index=frame.index, dtype="UInt64") for name in _MEMBERS}

    def put(column: str, rows: np.ndarray, values: np.ndarray) -> None:
        columns[column][rows] = values

    for name in frame["function"].unique():
        known = vulkan.BY_NAME.get(name)
        if known is None:
            continue
        rows = (frame["function"] == name).to_numpy()
        for index, (argument, bits) in enumerate(known.arguments):
            if argument in _ARGUMENTS:
                values = records["args"][rows, index] & np.uint64((1 << bits) - 1)
                put(_ARGUMENTS[argument], rows, values)
        if known.pointee:
            raw = np.ascontiguousarray(records["pointee"][rows])
            for column, offset, kind in known.pointee.members:
                width = int(kind[1:])
                put(column, rows, raw[:, offset : offset + width].copy().view(f"<{kind}").reshape(-1))
    return columns


def recordings(calls: pd.DataFrame) -> pd.DataFrame:
    """One row a recording of a command buffer, indexed by ``recording_id``.

    ``begin_ns`` to ``end_ns`` is its span; a recording that was never ended stays open to the last call.
    ``end_result`` is what vkEndCommandBuffer answered, <NA> if it was not called.
    """
    owned = calls[calls["recording_id"].notna()]
    grouped = owned.groupby("recording_id")
    frame = grouped.agg(
        pid=("pid", "first"),
        tid=("tid", "first"),
        command_buffer=("command_buffer", "first"),
        begin_ns=("enter_ns", "min"),
        end_ns=("exit_ns", "max"),
        calls=("vulkan_id", "size"),
    )
    ended = owned[owned["function"] == "vkEndCommandBuffer"].set_index("recording_id")
    ended = ended[~ended.index.duplicated(keep="last")]
    frame["end_id"] = ended["vulkan_id"].reindex(frame.index).astype("Int64")
    frame["end_result"] = ended["result"].reindex(frame.index).astype("Int64")
    return frame


def ioctl_calls(trace: Trace, calls: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """One row an ioctl on a panthor node, sorted by time, and the raw records in the same order.

    ``vulkan_id`` is the innermost Vulkan call it was made inside of. ``recording_id`` is the command buffer
    recording it belongs to: that of the call, or, outside every probed call, the one open on the thread.
    """
    records = trace.of(RecordType.IOCTL)
    records = records[np.argsort(records["head"]["enter_ns"], kind="stable")]
    numbers = (records["cmd"] & 0xFF).astype(np.int64)
    unfinished = (records["head"]["flags"] & Flag.UNFINISHED) != 0
    code = np.where(records["ret"] < 0, -records["ret"], 0)
    frame = pd.DataFrame(
        {
            "ioctl_id": np.arange(len(records), dtype=np.int64),
            "pid": records["head"]["tgid"].astype(np.int64),
            "tid": records["head"]["tid"].astype(np.int64),
            "fd": np.where(records["fd"] == NO_DESCRIPTOR, -1, records["fd"].astype(np.int64)),
            "file": files(records),
            "node": node_names(trace, records["rdev"]),
            "number": numbers,
            "name": pd.Series(numbers).map(ioctls.name_of).astype(object),
            "argument_size": (records["cmd"] >> 16 & 0x3FFF).astype(np.int64),
            "enter_ns": records["head"]["enter_ns"].astype(np.int64),
            "exit_ns": records["exit_ns"].astype(np.int64),
            "finished": ~unfinished,
            "ret": pd.Series(records["ret"], dtype="Int64").mask(unfinished),
            "errno": pd.Series(code).map(errno_name).astype(object),
            "cut": (records["head"]["flags"] & (Flag.ARGUMENT_CUT | Flag.ARRAY_CUT)) != 0,
        }
    )
    frame["failed"] = (code != 0) & ~_ordinary(numbers, code)
    frame["vulkan_id"] = nullable(enclosing_calls(frame, calls))
    frame["recording_id"] = recording_of(frame, calls)
    return frame, records


def _ordinary(numbers: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Which errnos are part of normal operation; looked up once for each kind there is."""
    kinds, place = np.unique(np.stack([numbers, codes]), axis=1, return_inverse=True)
    known = [ioctls.is_ordinary(int(number), int(code)) for number, code in kinds.T]
    return np.asarray(known, dtype=bool)[place.reshape(-1)] if len(known) else np.zeros(0, bool)


def node_names(trace: Trace, devices: np.ndarray) -> pd.Series:
    """Names of device nodes by the kernel's numbers for them."""
    names = {node["rdev"]: node["name"] for node in trace.meta.get("nodes", [])}
    return pd.Series(devices).map(lambda rdev: names.get(rdev, f"{rdev >> 20}:{rdev & 0xFFFFF}"))


def enclosing_calls(frame: pd.DataFrame, calls: pd.DataFrame) -> np.ndarray:
    """The innermost Vulkan call that each row (``tid``, ``enter_ns``) lies in, or NONE."""
    ordered = calls.sort_values(["tid", "enter_ns"], kind="stable")
    tid, enter, exit_ = (ordered[name].to_numpy() for name in ("tid", "enter_ns", "exit_ns"))
    parent = nesting.parents(tid, enter, exit_)
    found = nesting.enclosing(
        tid, enter, exit_, parent, frame["tid"].to_numpy(), frame["enter_ns"].to_numpy()
    )
    ids = ordered["vulkan_id"].to_numpy()
    return np.where(found == nesting.NONE, nesting.NONE, ids[found] if len(ids) else 0)


def recording_of(frame: pd.DataFrame, calls: pd.DataFrame) -> pd.Series:
    """The recording each row belongs to: that of its call, or else the one open on its thread."""
    inside = frame["vulkan_id"].notna()
    column = pd.Series(pd.NA, index=frame.index, dtype="Int64")
    column[inside] = calls["recording_id"].reindex(frame.loc[inside, "vulkan_id"].astype(int)).to_numpy()
    spans = recordings(calls).reset_index().sort_values("begin_ns")
    loose = frame.loc[~inside, ["tid", "enter_ns"]]
    if loose.empty or spans.empty:
        return column
    spans = spans[["tid", "begin_ns", "end_ns", "recording_id"]].astype({"recording_id": "int64"})
    matched = pd.merge_asof(loose, spans, left_on="enter_ns", right_on="begin_ns", by="tid")
    open_ = (matched["end_ns"] >= matched["enter_ns"]).to_numpy()
    column[loose.index[open_]] = matched.loc[open_, "recording_id"].astype("int64").to_numpy()
    return column
