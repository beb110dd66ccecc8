# SPDX-License-Identifier: MIT
"""Tables of buffer objects and of the operations that map them into a GPU address space."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..trace.reader import Records, Trace
from ..trace.schema import Flag, RecordType
from ..uapi import ioctls
from .arguments import elements
from .lifetimes import first_time, latest, not_after
from .lookup import answered, look_up, numbered, place_of
from .pools import infer
from .ranges import mapped_ranges
from .requests import FROM_IOCTL, arguments, events

#: A GEM handle means something only within one opening of the node.
_HANDLE = ["file", "handle"]


def buffer_objects(
    trace: Trace, calls: pd.DataFrame, records: Records, vulkan: pd.DataFrame, dispatches: pd.DataFrame
) -> pd.DataFrame:
    """One row a BO_CREATE, successful or not, with its life and owner; see docs/tables.md.

    ``size`` is what the kernel allocated, ``requested`` what was asked for, both in bytes. ``closed_ns`` is
    <NA> for a buffer that was never closed by GEM_CLOSE (the file's end closes it too). What binding made of
    it is added by :func:`with_bindings`.
    """
    before = arguments(calls, records, "BO_CREATE", "before")
    after = arguments(calls, records, "BO_CREATE", "after")
    frame = calls.loc[before.index, [*FROM_IOCTL, "recording_id"]].rename(columns={"exit_ns": "created_ns"})
    made = answered(frame["ret"])
    frame["requested"] = before["size"]
    frame["size"] = after["size"].where(made, before["size"])
    frame["flags"] = before["flags"]
    frame["exclusive_vm_id"] = before["exclusive_vm_id"]
    frame["handle"] = pd.Series(after["handle"], dtype="Int64").where(made)
    frame.insert(0, "bo_id", np.arange(len(frame), dtype=np.int64))
    frame = frame.drop(columns=["enter_ns"]).reset_index(drop=True)
    closings = events(calls, records, "GEM_CLOSE", "handle")
    frame["closed_ns"] = first_time(_whose(frame, closings, "enter_ns"), closings["enter_ns"], frame.index)
    offsets = events(calls, records, "BO_MMAP_OFFSET", "handle")
    mapped = _whose(frame, offsets, "exit_ns")
    frame["mmap_offset_ns"] = first_time(mapped, offsets["exit_ns"], frame.index)
    frame["mmap_offset"] = first_time(mapped, offsets["offset"], frame.index)
    frame["label"] = _labels(trace, calls, records, frame)
    return _with_owners(frame, vulkan, dispatches)


def _whose(bos: pd.DataFrame, about: pd.DataFrame, at: str) -> pd.Series:
    """The buffer that each of the requests ``about`` a handle means."""
    return latest(bos[bos["handle"].notna()], about, _HANDLE, at)


def _labels(trace: Trace, calls: pd.DataFrame, records: Records, bos: pd.DataFrame) -> pd.Series:
    """The label each buffer was given last; empty where it got none."""
    labelled = events(calls, records, "BO_SET_LABEL", "handle")
    result = pd.Series("", index=bos.index, dtype=object)
    if labelled.empty:
        return result
    arrays, owners = arrays_of(trace, calls.loc[labelled.index])
    text = [bytes(row["bytes"][: row["length"]]).split(b"\0")[0].decode(errors="replace") for row in arrays]
    whose = _whose(bos, labelled, "enter_ns").reindex(owners).to_numpy()
    known = pd.Series(text, index=whose, dtype=object)[pd.notna(whose)]
    known = known[~known.index.duplicated(keep="last")]
    result[known.index.astype("int64")] = known.to_numpy()
    return result


def _with_owners(bos: pd.DataFrame, vulkan: pd.DataFrame, dispatches: pd.DataFrame) -> pd.DataFrame:
    """The Vulkan call a buffer was made in, its command buffer, and the dispatch if the call is one.

    What panvk makes inside vkEndCommandBuffer is the command buffer's, not the last dispatch's.
    """
    within = bos["vulkan_id"]
    bos["function"] = look_up(within, vulkan["function"])
    recorded = vulkan.dropna(subset=["recording_id"]).drop_duplicates("recording_id")
    bos["command_buffer"] = look_up(bos["recording_id"], recorded.set_index("recording_id")["command_buffer"])
    numbers = dispatches.set_index("vulkan_id")
    for name in ("dispatch_id", "number", "ordinal"):
        column = name if name == "dispatch_id" else f"dispatch_{name}"
        bos[column] = look_up(within, numbers[name])
    return bos


def bindings(
    trace: Trace, calls: pd.DataFrame, records: Records, bos: pd.DataFrame, vms: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row an operation of a VM_BIND, see docs/tables.md; and the ranges that were mapped.

    ``refused`` marks the operation the kernel stopped at: a synchronous VM_BIND that fails writes its index
    back into ``ops.count`` (panthor_ioctl_vm_bind_sync, panthor_drv.c, 6.12 and 7.3). Those before it are
    ``done``. An asynchronous one takes effect later than its ioctl; its row has the ioctl's times.
    """
    before = arguments(calls, records, "VM_BIND", "before")
    after = arguments(calls, records, "VM_BIND", "after")
    arrays, owners = arrays_of(trace, calls.loc[before.index])
    strides = before["ops_stride"].reindex(owners).to_numpy(np.int64)
    owner, number, ops = elements(ioctls.VM_BIND_OP, arrays, owners, strides)
    frame = calls.loc[owner, [*FROM_IOCTL, "recording_id"]].reset_index(drop=True)
    frame["vm_id"] = before.loc[owner, "vm_id"].to_numpy()
    frame["asynchronous"] = (before.loc[owner, "flags"].to_numpy(np.int64) & ioctls.VM_BIND_ASYNC) != 0
    frame["operations"] = before.loc[owner, "ops_count"].to_numpy()
    frame["index"] = number
    flags = ops["flags"].to_numpy(np.int64)
    kind = pd.Series(flags >> ioctls.VM_BIND_OP_SHIFT)
    frame["operation"] = kind.map(lambda value: ioctls.VM_BIND_OPS.get(value, str(value))).astype(object)
    for bit, name in ioctls.VM_BIND_MAP_FLAGS.items():
        frame[name] = (flags & bit) != 0
    for name in ("va", "size", "bo_offset", "bo_handle"):
        frame[name] = ops[name].to_numpy()
    failed = frame["ret"].lt(0).fillna(False).astype(bool)
    synchronous = failed & ~frame["asynchronous"]
    stopped_at = after.loc[owner, "ops_count"].to_numpy(np.int64)
    frame["refused"] = synchronous & (frame["index"] == stopped_at)
    granted = answered(frame["ret"])
    frame["done"] = granted | (synchronous & (frame["index"] < stopped_at))
    frame["bo_id"] = _bound_buffers(frame, bos)
    frame.insert(0, "bind_id", np.arange(len(frame), dtype=np.int64))
    ranges = _ranges(frame, vms)
    frame["unbound_ns"] = look_up(frame["bind_id"], _unbound(ranges))
    return frame, ranges


def with_bindings(bos: pd.DataFrame, binds: pd.DataFrame, ranges: pd.DataFrame) -> pd.DataFrame:
    """``bos`` with where each buffer was bound first, how often, until when, and its panvk pool."""
    maps = binds[(binds["operation"] == "map") & binds["done"] & binds["bo_id"].notna()]
    by_bo = maps.groupby(maps["bo_id"].astype("int64"))
    bos["binds"] = by_bo.size().reindex(bos["bo_id"], fill_value=0).to_numpy()
    for column, source in (("bound_ns", "exit_ns"), ("vm_id", "vm_id"), ("va", "va")):
        bos[column] = look_up(bos["bo_id"], by_bo[source].first())
    owned = ranges.assign(bind_id=look_up(ranges["bind_id"], binds.set_index("bind_id")["bo_id"]))
    owned = owned[owned["bind_id"].notna()].astype({"bind_id": "int64"})
    bos["unbound_ns"] = look_up(bos["bo_id"], _unbound(owned))
    executable = (~maps["no_exec"]).groupby(maps["bo_id"].astype("int64")).any()
    executable = executable.reindex(bos["bo_id"], fill_value=False).set_axis(bos.index).astype(bool)
    return bos.join(infer(bos, bos["function"], executable))


def _unbound(ranges: pd.DataFrame) -> pd.Series:
    """When the last range ended; <NA> while there is one that has not."""
    grouped = ranges.groupby("bind_id")["end_ns"]
    return grouped.max().mask(grouped.count() < grouped.size()).astype("Int64")


def _ranges(binds: pd.DataFrame, vms: pd.DataFrame) -> pd.DataFrame:
    """The ranges mapped, each until it was unmapped, mapped over, or its VM destroyed."""
    live = vms[vms["vm_id"].notna()]
    vm = latest(live, binds, ["file", "vm_id"], "enter_ns")
    # A VM that was made before the recording began has no row: its opening and id tell it apart.
    space = numbered(binds["file"].to_numpy(), binds["vm_id"].to_numpy(), vm.fillna(-1).to_numpy(np.int64))
    changing = binds["done"] & binds["operation"].isin(["map", "unmap"])
    operations = binds.assign(space=space, time_ns=binds["exit_ns"], maps=binds["operation"] == "map")
    ranges = mapped_ranges(operations[changing].sort_values("exit_ns", kind="stable"))
    for name in ("pid", "file", "vm_id"):
        ranges[name] = look_up(ranges["bind_id"], binds[name])
    destroyed = look_up(look_up(ranges["bind_id"], vm), vms["destroyed_ns"])
    ranges["end_ns"] = ranges["end_ns"].fillna(destroyed)
    return ranges


def arrays_of(trace: Trace, calls: pd.DataFrame) -> tuple[Records, np.ndarray]:
    """Array records that belong to ``calls``, and the index of the call of each: same thread, same time."""
    arrays = trace.of(RecordType.ARRAY)
    wanted = [arrays["head"]["tid"].astype(np.int64), arrays["head"]["enter_ns"].astype(np.int64)]
    place = place_of([calls["tid"], calls["enter_ns"]], wanted)
    readable = (arrays["head"]["flags"] & Flag.FAULT_BEFORE) == 0
    owned = (place >= 0) & readable
    return arrays[owned], calls.index.to_numpy()[place[owned]]


def _bound_buffers(binds: pd.DataFrame, bos: pd.DataFrame) -> pd.Series:
    """The buffer each map operation names: the one made under that handle and not closed since."""
    maps = binds[(binds["bo_handle"] != 0)].rename(columns={"bo_handle": "handle"})
    whose = _whose(bos, maps, "enter_ns")
    return not_after(whose, maps["enter_ns"], bos["closed_ns"]).reindex(binds.index)
