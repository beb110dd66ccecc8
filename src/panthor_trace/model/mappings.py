# SPDX-License-Identifier: MIT
"""The table of mmap() and munmap() of panthor's nodes."""

from __future__ import annotations

import errno

import numpy as np
import pandas as pd

from ..trace.reader import Records, Trace
from ..trace.schema import MappingKind, RecordType
from ..uapi.errnos import errno_name
from .calls import enclosing_calls, node_names, nullable, recording_of
from .requests import arguments

_MAX_ERRNO = 4095
_KINDS = {
    int(MappingKind.NODE): "mmap",
    int(MappingKind.NODE_UNMAP): "munmap",
    int(MappingKind.OPEN): "open",
}


def mappings(
    trace: Trace, calls: pd.DataFrame, ioctl_table: pd.DataFrame, raw: Records, bos: pd.DataFrame
) -> pd.DataFrame:
    """One row an opening of a render node, an mmap() of a panthor node or a munmap() of one, by time.

    See docs/tables.md.
    """
    records = trace.of(RecordType.MAPPING)
    records = records[np.isin(records["kind"], list(_KINDS))]
    records = records[np.argsort(records["head"]["enter_ns"], kind="stable")]
    refused = (records["ret"] < 0) & (records["ret"] >= -_MAX_ERRNO)
    opened = records["kind"] == MappingKind.OPEN
    unmap = (records["kind"] == MappingKind.NODE_UNMAP) | opened
    # Programs look for nodes by trying their names.
    absent = opened & (records["ret"] == -errno.ENOENT)
    given = np.where(unmap | refused, records["address"], records["ret"].astype(np.uint64))
    fd = np.where(opened & ~refused, records["ret"], records["fd"].astype(np.int64))
    frame = pd.DataFrame(
        {
            "mapping_id": np.arange(len(records), dtype=np.int64),
            "pid": records["head"]["tgid"].astype(np.int64),
            "tid": records["head"]["tid"].astype(np.int64),
            "name": [_KINDS[int(kind)] for kind in records["kind"]],
            "fd": pd.Series(fd, dtype="Int64").mask(unmap & ~(opened & ~refused)),
            "node": node_names(trace, records["device"]).mask(pd.Series(unmap)),
            "address": pd.Series(given, dtype="UInt64").mask(opened),
            "size": pd.Series(records["length"].astype(np.int64), dtype="Int64").mask(opened),
            "offset": pd.Series(records["offset"], dtype="UInt64").mask(unmap),
            "enter_ns": records["head"]["enter_ns"].astype(np.int64),
            "exit_ns": records["exit_ns"].astype(np.int64),
            "errno": [
                errno_name(-int(ret)) if bad else "" for ret, bad in zip(records["ret"], refused, strict=True)
            ],
            "ret": pd.Series(np.where(refused, records["ret"], 0), dtype="Int64"),
            "failed": refused & ~absent,
            **_process_limits(trace, records),
            "descriptor_limit": _known(records["length"]).mask(~opened),
        }
    )
    frame["vulkan_id"] = nullable(enclosing_calls(frame, calls))
    frame["recording_id"] = recording_of(frame, calls)
    frame["bo_id"] = _buffers(frame, ioctl_table, raw, bos)
    return frame


def refused_files(trace: Trace) -> pd.DataFrame:
    """One row a file that could not be mapped executable, or not opened for want of descriptors.

    See docs/tables.md.
    """
    records = trace.of(RecordType.MAPPING)
    records = records[np.isin(records["kind"], (MappingKind.LIBRARY, MappingKind.FILE))]
    records = records[(records["ret"] < 0) & (records["ret"] >= -_MAX_ERRNO)]
    opened = records["kind"] == MappingKind.FILE
    frame = pd.DataFrame(
        {
            "pid": records["head"]["tgid"].astype(np.int64),
            "tid": records["head"]["tid"].astype(np.int64),
            "enter_ns": records["head"]["enter_ns"].astype(np.int64),
            "exit_ns": records["exit_ns"].astype(np.int64),
            "name": np.where(opened, "open", "mmap").astype(object),
            "device": records["device"].astype(np.int64),
            "inode": records["inode"].astype(np.int64),
            "size": pd.Series(records["length"].astype(np.int64), dtype="Int64").mask(opened),
            "errno": pd.Series([errno_name(-int(ret)) for ret in records["ret"]], dtype=object),
            **_process_limits(trace, records),
            "descriptor_limit": _known(records["length"]).mask(~opened),
        }
    )
    return frame.sort_values("enter_ns", kind="stable", ignore_index=True)


def _process_limits(trace: Trace, records: Records) -> dict[str, pd.Series]:
    """How far the process was from its limits on mappings as each call returned."""
    page = trace.meta.get("machine", {}).get("page_size", 4096)
    return {
        "maps": _known(records["maps"].astype(np.uint64)),
        "address_space": _known(records["address_space"]) * page,
        "address_space_limit": _known(records["address_space_limit"]),
    }


def _known(values: np.ndarray) -> pd.Series:
    """0 stands for "not known", all ones (RLIM_INFINITY) for "no limit"; both are <NA>."""
    return pd.Series(values, dtype="UInt64").mask((values == 0) | (values == np.iinfo(np.uint64).max))


def _buffers(frame: pd.DataFrame, ioctl_table: pd.DataFrame, raw: Records, bos: pd.DataFrame) -> pd.Series:
    """The buffer each mmap() is of: the one whose BO_MMAP_OFFSET last gave that offset."""
    result = pd.Series(pd.NA, index=frame.index, dtype="Int64")
    after = arguments(ioctl_table, raw, "BO_MMAP_OFFSET", "after")
    made = bos[bos["handle"].notna()]
    maps = frame[frame["name"] == "mmap"]
    if maps.empty or after.empty or made.empty:
        return result
    asked = ioctl_table.loc[after.index, ["file", "enter_ns", "exit_ns", "ret"]].assign(
        handle=after["handle"].astype("int64"), offset=after["offset"].astype("uint64")
    )
    asked = asked[asked["ret"].eq(0)].sort_values("enter_ns")
    file = ["file", "handle"]
    named = pd.merge_asof(
        asked,
        made[["created_ns", "bo_id", *file]].astype({"handle": "int64"}).sort_values("created_ns"),
        left_on="enter_ns",
        right_on="created_ns",
        by=file,
    )
    found = pd.merge_asof(
        maps[["offset", "enter_ns"]].astype({"offset": "uint64"}),
        named[["offset", "exit_ns", "bo_id"]].sort_values("exit_ns"),
        left_on="enter_ns",
        right_on="exit_ns",
        by="offset",  # of the device's address space for mappings: no two buffers have one at a time
    )
    result[maps.index] = found["bo_id"].astype("Int64").to_numpy()
    return result
