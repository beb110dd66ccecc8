# SPDX-License-Identifier: MIT
"""Reads a trace directory, complete or cut short, into NumPy record arrays. No root, no bcc."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import TraceError
from .records import BLOCK, DTYPES
from .schema import BLOCK_MAGIC, SCHEMA_VERSION, RecordType

Records = npt.NDArray[np.void]

#: What the members of meta.json and end.json are that others rely on.
_SHAPES: Mapping[str, type | tuple[type, ...]] = MappingProxyType(
    {
        "layers": dict,
        "machine": dict,
        "nodes": list,
        "driver_functions": list,
        "vulkan_functions": list,
        "command": list,
        "started_monotonic_ns": int,
        "attached_pid": (int, type(None)),
    }
)


@dataclass(frozen=True)
class Trace:
    """What was recorded: facts about the run, and the records of each type in the order they came."""

    meta: Mapping[str, Any]
    records: Mapping[RecordType, Records]
    #: None where the recording never ended properly (the tracer was killed, the disk was full).
    end: Mapping[str, Any] | None
    #: Bytes at the end of events.bin that make no whole record.
    torn_bytes: int = 0
    path: Path | None = field(default=None, compare=False)
    #: The side tables (NAME.jsonl) by name: what was learned of processes, files and devices.
    side: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    def of(self, kind: RecordType) -> Records:
        """Records of one type; an empty array where there are none."""
        return self.records.get(kind, np.empty(0, DTYPES[kind]))


def _read(path: Path) -> bytes | None:
    """A file's bytes; None where there is none. Raises OSError, and TraceError where it is no file.

    A pipe would keep us waiting and a device has no end: traces come from elsewhere, as archives do.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise TraceError(f"{path} is no trace's: it is not a regular file")
        return file.read()


def _load_json(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(_read(path) or b"")
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    for name, shape in _SHAPES.items():
        if name in content and not isinstance(content[name], shape):
            raise TraceError(f"{path} is damaged: {name} is not what it was written as")
    rows = [
        *content.get("layers", {}).values(),
        *content.get("nodes", ()),
        *content.get("driver_functions", ()),
    ]
    if not all(isinstance(row, dict) for row in rows):
        raise TraceError(
            f"{path} is damaged: layers, nodes or driver_functions are not what they were written as"
        )
    return content


#: What every row of a side table has, besides what it may have: a line without is damaged.
_ROWS: Mapping[str, Mapping[str, type]] = {
    "state": {"time_ns": int},
    "libraries": {"layer": str, "probes": int, "attached_ns": int},
    "modules": {
        "pid": int, "start": int, "end": int, "offset": int, "device": int, "inode": int, "path": str,
        "build_id": str,
    },
    "symbols": {"caller": bool},
    "taskstats": {"pid": int, "group": bool},
    "uevents": {"time_ns": int, "variables": dict},
}  # fmt: skip


def _load_lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a side table, up to the first that is cut short or damaged otherwise."""
    shape = _ROWS.get(path.stem, {})
    rows = []
    for line in (_read(path) or b"").splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not isinstance(row, dict) or not all(
            isinstance(row.get(key), kind) for key, kind in shape.items()
        ):
            break
        rows.append(row)
    return rows


def _with_late_libraries(
    meta: dict[str, Any], libraries: Sequence[Mapping[str, Any]], end: Mapping[str, Any] | None
) -> dict[str, Any]:
    """meta.json with its layers as they became: a library may have come to be probed later.

    ``attached_late`` is how many seconds the latest library of the layer had been mapped before.
    """
    layers = {**meta.get("layers", {}), **(end or {}).get("layers", {})}
    layers = {name: dict(layer) for name, layer in layers.items()}
    for row in libraries:
        layer = layers.get(row["layer"])
        if layer is None or not row["probes"]:
            continue
        layer["live"], layer["why"] = True, ""
        if row["mapped_ns"] is not None:
            late = (row["attached_ns"] - row["mapped_ns"]) / 1e9
            layer["attached_late"] = max(layer.get("attached_late", 0.0), late)
    return {**meta, "layers": layers}


def parse_events(raw: bytes) -> tuple[dict[RecordType, Records], int]:
    """Split the bytes of events.bin by record type; also returns how many bytes at the end are unusable."""
    parts: dict[RecordType, list[Records]] = {}
    position = 0
    while position + BLOCK.itemsize <= len(raw):
        block = np.frombuffer(raw, BLOCK, 1, position)[0]
        size, count = int(block["size"]), int(block["count"])
        if block["magic"] != BLOCK_MAGIC or size == 0:
            return _joined(parts), len(raw) - position
        start = position + BLOCK.itemsize
        whole = min(count, (len(raw) - start) // size)
        try:
            kind = RecordType(int(block["type"]))
        except ValueError:
            kind = None  # a later version's record: skipped, it cannot mean anything to us
        if kind is not None:
            if DTYPES[kind].itemsize != size:
                raise TraceError(
                    f"the trace's {kind.name} records have {size} bytes, this version knows "
                    f"{DTYPES[kind].itemsize}: read it with the version that wrote it"
                )
            parts.setdefault(kind, []).append(np.frombuffer(raw, DTYPES[kind], whole, start))
        if whole < count:
            return _joined(parts), len(raw) - start - whole * size
        position = start + count * size
    return _joined(parts), len(raw) - position


def _joined(parts: Mapping[RecordType, list[Records]]) -> dict[RecordType, Records]:
    return {kind: np.concatenate(arrays) for kind, arrays in parts.items()}


def read_trace(path: Path) -> Trace:
    """Read the trace directory ``path``. Raises TraceError where it is none, or of a later version."""
    try:
        if not path.is_dir():
            raise TraceError(
                f"{path} is not a trace directory" if path.exists() else f"{path}: no such trace"
            )
        meta = _load_json(path / "meta.json")
        end = _load_json(path / "end.json")
        raw = _read(path / "events.bin") or b""
        side = {file.stem: _load_lines(file) for file in sorted(path.glob("*.jsonl"))}
    except OSError as error:
        raise TraceError(f"cannot read the trace {path}: {error.strerror}") from None
    if meta is None:
        raise TraceError(f"{path} is not a trace directory: it has no readable meta.json")
    version = meta.get("schema_version")
    if version != SCHEMA_VERSION:
        raise TraceError(
            f"{path} has schema version {version}, this panthor-trace reads {SCHEMA_VERSION}: "
            "use the version that wrote it"
        )
    records, torn = parse_events(raw)
    meta = _with_late_libraries(meta, side.get("libraries", ()), end)
    return Trace(meta, records, end, torn, path, side)
