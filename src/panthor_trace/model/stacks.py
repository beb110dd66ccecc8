# SPDX-License-Identifier: MIT
"""The user stacks of failures, frame by frame, with what could be learned of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..trace.reader import Trace
from ..trace.schema import FrameStatus, RecordType

#: The kind of failure (table ``failures``) by the type of record its stack belongs to.
KINDS = {
    int(RecordType.IOCTL): "ioctl",
    int(RecordType.MAPPING): "mmap",
    int(RecordType.VULKAN): "vulkan",
    int(RecordType.EXCEPTION): "exception",
}
_FRAME_COLUMNS = ["stack_id", "depth", "build_id", "offset", "address", "module", "symbol", "symbol_offset"]


def stacks(trace: Trace) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row a frame (depth 0 is the innermost); one row a stack: what failed, where, when."""
    records = trace.of(RecordType.STACK)
    heads = pd.DataFrame(
        {
            "stack_id": np.arange(len(records), dtype=np.int64),
            "kind": [KINDS.get(int(of), str(of)) for of in records["of"]],
            "pid": records["head"]["tgid"].astype(np.int64),
            "tid": records["head"]["tid"].astype(np.int64),
            "enter_ns": records["head"]["enter_ns"].astype(np.int64),
        }
    )
    names = {_key(row): row for row in trace.side.get("symbols", ())}
    by_build_id = {row["build_id"]: row["path"] for row in trace.side.get("modules", ()) if row["build_id"]}
    rows: list[dict[str, object]] = []
    for stack_id, record in enumerate(records):  # a few dozen, of at most 48 frames
        pid = int(record["head"]["tgid"])
        own: list[dict[str, object]] = []
        for depth, frame in enumerate(record["frame"][: int(record["frames"])]):
            status, value = int(frame["status"]), int(frame["offset"])
            row: dict[str, object] = {}
            if status == FrameStatus.BUILD_ID:
                build_id = frame["build_id"].tobytes().hex()
                row |= {"build_id": build_id, "offset": value, "module": by_build_id.get(build_id)}
                row |= _named(names.get((build_id, value, depth > 0)))
            elif status == FrameStatus.ADDRESS:
                row["address"] = value
                row |= _named(names.get((pid, value, depth > 0)))
                if "module" not in row:
                    row |= _mapped(trace, pid, value)
            else:
                continue
            own.append(row)
        rows += [{"stack_id": stack_id, "depth": depth, **row} for depth, row in enumerate(_once(own))]
    # As objects first: an address is not what it was after having been a float.
    frames = pd.DataFrame(rows, columns=_FRAME_COLUMNS, dtype=object)
    types: dict[str, Any] = {
        "stack_id": "int64",
        "depth": "int64",
        "offset": "UInt64",
        "address": "UInt64",
        "symbol_offset": "Int64",
    }
    for column in types:
        frames[column] = frames[column].where(frames[column].notna(), pd.NA)
    return frames.astype(types), heads


def _once(frames: list[dict[str, object]]) -> list[dict[str, object]]:
    """The frames without a caller that is there twice.

    The recorder puts the caller of a function that had just been entered between the first frame and the
    second, by address; some kernels (x86_64, 6.11 on) have it there themselves.
    """
    place = [(frame.get("build_id"), frame.get("offset")) for frame in frames[1:3]]
    twice = len(place) == 2 and place[0] == place[1] and "address" in frames[1]
    return frames[:1] + frames[2:] if twice else frames


def _key(row: Mapping[str, Any]) -> tuple[object, object, bool]:
    """As the recorder keys a frame: by address in its process, or by offset in its module."""
    if "address" in row:
        return row.get("pid"), row["address"], row["caller"]
    return row.get("build_id"), row.get("offset"), row["caller"]


def _named(row: Mapping[str, Any] | None) -> dict[str, object]:
    kept = ("build_id", "offset", "module", "symbol", "symbol_offset")
    return {name: row[name] for name in kept if name in row} if row else {}


def _mapped(trace: Trace, pid: int, address: int) -> dict[str, object]:
    """The module an address lies in, from the mappings that were seen of the process."""
    for row in trace.side.get("modules", ()):
        if row["pid"] == pid and row["start"] <= address < row["end"]:
            offset = address - row["start"] + row["offset"]
            return {"build_id": row["build_id"], "offset": offset, "module": row["path"]}
    return {}


def describe(frame: pd.Series) -> str:
    """A frame as a person reads it: function and module, or module and offset, or the bare address."""
    place = str(frame["module"]).rsplit("/", 1)[-1] if isinstance(frame["module"], str) else ""
    if isinstance(frame["symbol"], str):
        return f"{frame['symbol']}+{int(frame['symbol_offset']):#x} ({place})"
    if pd.notna(frame["offset"]):
        return f"{place or 'build id ' + str(frame['build_id'])}+{int(frame['offset']):#x}"
    return f"{int(frame['address']):#x}"
