# SPDX-License-Identifier: MIT
"""Tables of buffer objects and of the operations that map them into a GPU address space."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..trace.reader import Records, Trace
from ..trace.schema import Flag, RecordType
from ..uapi import ioctls
from .arguments import bind_operations, decode

#: What a row takes over from the ioctl that made it.
_FROM_IOCTL = [
    "ioctl_id",
    "pid",
    "tid",
    "fd",
    "file",
    "enter_ns",
    "exit_ns",
    "ret",
    "errno",
    "vulkan_id",
    "recording_id",
]
#: A GEM handle means something only within one opening of the node, whichever process or descriptor uses it.
_FILE = ["file", "handle"]


def _rows(calls: pd.DataFrame, name: str) -> np.ndarray:
    return np.asarray((calls["name"] == name).to_numpy())


def arguments(calls: pd.DataFrame, records: Records, name: str, which: str) -> pd.DataFrame:
    """Decoded arguments of all ioctls ``name``, ``before`` or ``after`` the call; index as in ``calls``."""
    rows = _rows(calls, name)
    sizes = calls.loc[rows, "argument_size"].to_numpy()
    frame = decode(ioctls.BY_NAME[name], records[which][rows], sizes)
    frame.index = calls.index[rows]
    return frame


def buffer_objects(calls: pd.DataFrame, records: Records) -> pd.DataFrame:
    """One row a BO_CREATE, successful or not; see docs/tables.md.

    ``size`` is what the kernel allocated, ``requested`` what was asked for, both in bytes. ``closed_ns`` is
    <NA> for a buffer that was never closed by GEM_CLOSE (the file's end closes it too).
    """
    before = arguments(calls, records, "BO_CREATE", "before")
    after = arguments(calls, records, "BO_CREATE", "after")
    frame = calls.loc[before.index, _FROM_IOCTL].rename(columns={"exit_ns": "created_ns"})
    made = frame["ret"].eq(0).fillna(False).astype(bool)
    frame["requested"] = before["size"]
    frame["size"] = after["size"].where(made, before["size"])
    frame["flags"] = before["flags"]
    frame["exclusive_vm_id"] = before["exclusive_vm_id"]
    frame["handle"] = pd.Series(after["handle"], dtype="Int64").where(made)
    frame["closed_ns"] = _closings(frame[made], calls, records)
    frame.insert(0, "bo_id", np.arange(len(frame), dtype=np.int64))
    return frame.drop(columns=["enter_ns"]).reset_index(drop=True)


def _closings(made: pd.DataFrame, calls: pd.DataFrame, records: Records) -> pd.Series:
    """When each buffer's handle was closed: the first GEM_CLOSE before the handle is given out again."""
    closed = arguments(calls, records, "GEM_CLOSE", "before")
    closings = calls.loc[closed.index, ["file", "enter_ns", "ret"]]
    closings["handle"] = closed["handle"].astype("Int64")
    closings = closings[closings["ret"].eq(0)].rename(columns={"enter_ns": "closed_ns"})
    result = pd.Series(pd.NA, index=made.index, dtype="Int64")
    if made.empty or closings.empty:
        return result
    made = made.sort_values("created_ns")
    reused = made.groupby(_FILE)["created_ns"].shift(-1)
    matched = pd.merge_asof(
        made[["created_ns", *_FILE]].astype({"handle": "int64"}),
        closings[["closed_ns", *_FILE]].astype({"handle": "int64"}).sort_values("closed_ns"),
        left_on="created_ns",
        right_on="closed_ns",
        by=_FILE,
        direction="forward",
    )
    closed_ns = matched["closed_ns"].set_axis(made.index)
    valid = closed_ns.notna() & (reused.isna() | (closed_ns < reused))
    result[made.index[valid]] = closed_ns[valid].astype("int64").to_numpy()
    return result


def bindings(trace: Trace, calls: pd.DataFrame, records: Records, bos: pd.DataFrame) -> pd.DataFrame:
    """One row an operation of a VM_BIND; see docs/tables.md.

    ``refused`` marks the operation the kernel stopped at: a synchronous VM_BIND that fails writes its index
    back into ``ops.count`` (panthor_ioctl_vm_bind_sync, panthor_drv.c, 6.12 and 7.3).
    """
    before = arguments(calls, records, "VM_BIND", "before")
    after = arguments(calls, records, "VM_BIND", "after")
    arrays, owners = _arrays_of(trace, calls.loc[before.index])
    strides = before["ops_stride"].reindex(owners).to_numpy(np.int64)
    owner, ops = bind_operations(arrays, owners, strides)
    frame = calls.loc[owner, _FROM_IOCTL].reset_index(drop=True)
    frame["vm_id"] = before.loc[owner, "vm_id"].to_numpy()
    frame["asynchronous"] = (before.loc[owner, "flags"].to_numpy(np.int64) & ioctls.VM_BIND_ASYNC) != 0
    frame["operations"] = before.loc[owner, "ops_count"].to_numpy()
    frame["index"] = frame.groupby("ioctl_id").cumcount()
    kind = pd.Series(ops["flags"].to_numpy(np.int64) >> ioctls.VM_BIND_OP_SHIFT)
    frame["operation"] = kind.map(lambda value: ioctls.VM_BIND_OPS.get(value, str(value))).astype(object)
    for name in ("va", "size", "bo_offset", "bo_handle"):
        frame[name] = ops[name].to_numpy()
    failed = frame["ret"].lt(0).fillna(False).astype(bool)
    stopped_at = after.loc[owner, "ops_count"].to_numpy(np.int64)
    frame["refused"] = failed & ~frame["asynchronous"] & (frame["index"] == stopped_at)
    frame["bo_id"] = _bound_buffers(frame, bos)
    frame.insert(0, "bind_id", np.arange(len(frame), dtype=np.int64))
    return frame


def _arrays_of(trace: Trace, calls: pd.DataFrame) -> tuple[Records, np.ndarray]:
    """Array records that belong to ``calls``, and the index of the call of each: same thread, same time."""
    arrays = trace.of(RecordType.ARRAY)
    keys = pd.MultiIndex.from_arrays([calls["tid"], calls["enter_ns"]])
    place = keys.get_indexer(
        pd.MultiIndex.from_arrays(
            [arrays["head"]["tid"].astype(np.int64), arrays["head"]["enter_ns"].astype(np.int64)]
        )
    )
    readable = (arrays["head"]["flags"] & Flag.FAULT_BEFORE) == 0
    owned = (place >= 0) & readable
    return arrays[owned], calls.index.to_numpy()[place[owned]]


def _bound_buffers(binds: pd.DataFrame, bos: pd.DataFrame) -> pd.Series:
    """The buffer each map operation names: the latest one made under that handle."""
    result = pd.Series(pd.NA, index=binds.index, dtype="Int64")
    maps = binds[binds["bo_handle"] != 0]
    made = bos[bos["handle"].notna()]
    if maps.empty or made.empty:
        return result
    matched = pd.merge_asof(
        maps.rename(columns={"bo_handle": "handle"})[["enter_ns", *_FILE]]
        .astype({"handle": "int64"})
        .sort_values("enter_ns", kind="stable"),
        made[["created_ns", "bo_id", *_FILE]].astype({"handle": "int64"}).sort_values("created_ns"),
        left_on="enter_ns",
        right_on="created_ns",
        by=_FILE,
    )
    order = maps.sort_values("enter_ns", kind="stable").index
    result[order] = matched["bo_id"].astype("Int64").to_numpy()
    return result
