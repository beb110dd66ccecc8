# SPDX-License-Identifier: MIT
"""Many traces as one data set of Parquet files, partitioned as Hive has it; see docs/fleet.md.

``<data set>/<table>/<key>=<value>/…/<trace>.parquet``. The rows have the column ``trace`` in front, so that
files of many traces can be put together without losing whose rows they are.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from ..analysis import Analysis
from ..errors import TraceError
from .parquet import arrow_table, write

#: One row a trace: what it is of, and what was said of it.
TRACES = pa.schema(
    [
        ("started", pa.string()),
        ("duration_ns", pa.int64()),
        ("command", pa.string()),
        ("hostname", pa.string()),
        ("kernel", pa.string()),
        ("architecture", pa.string()),
        ("memory_bytes", pa.int64()),
        ("version", pa.string()),
        ("schema_version", pa.int64()),
        ("exit_code", pa.int64()),
        ("cause", pa.string()),
        ("kernel_cap", pa.string()),
        ("refused_by", pa.string()),
        ("confidence", pa.string()),
        ("headline", pa.string()),
        ("failing_call", pa.string()),
        ("error", pa.string()),
        ("dispatch_number", pa.int64()),
        ("refused_ioctl", pa.string()),
        ("refused_errno", pa.string()),
        ("refused_bytes", pa.uint64()),
        ("origin", pa.string()),
        ("limit", pa.string()),
        ("peak_bo_bytes", pa.int64()),
        ("peak_va_bytes", pa.int64()),
        ("dispatches", pa.int64()),
        ("losses", pa.int64()),
    ]
)
#: In a file's own metadata: tells a trace from another one of its name.
_STARTED = b"panthor_trace.started"


def trace_name(directory: Path) -> str:
    """What a trace is called in a data set: its directory's name."""
    return directory.resolve().name


def export_fleet(
    analysis: Analysis,
    name: str,
    dataset: Path,
    partitions: Sequence[tuple[str, str]] = (),
    tables: Collection[str] = (),
) -> list[Path]:
    """Add a trace to ``dataset``; one that is there already is written anew. Raises TraceError.

    ``partitions`` become directories: ``[("board", "rock5b")]`` is ``board=rock5b``. With ``tables`` only
    those are written, and ``traces``.
    """
    below = [f"{key}={_as_file_name(value)}" for key, value in partitions]
    file = f"{_as_file_name(name)}.parquet"
    started = str(analysis.trace.meta.get("started", ""))
    _refuse_another(dataset.joinpath("traces", *below, file), name, started)
    _refuse_columns(analysis, partitions)
    written = []
    try:
        for table, content in _contents(analysis, tables):
            path = dataset.joinpath(table, *below, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            write(_of_trace(content, name, started), path)
            written.append(path)
    except OSError as error:
        raise TraceError(f"cannot write the data set {dataset}: {error.strerror}") from None
    return written


def _as_file_name(text: str) -> str:
    """As engines read it back from the name of a directory, and as no path leads elsewhere."""
    return quote(text, safe=" ", errors="backslashreplace")


def _refuse_columns(analysis: Analysis, partitions: Sequence[tuple[str, str]]) -> None:
    """A directory's key is a column to every engine; a table must not have one of that name."""
    columns = [(table, list(content.columns)) for table, content in analysis.tables]
    for key, _ in partitions:
        for table, names in [("traces", ["trace", *TRACES.names]), *columns]:
            if key in names:
                raise TraceError(f"--partition {key}: the table {table} has a column {key}")


def _refuse_another(path: Path, name: str, started: str) -> None:
    """Where a file of that name is of another trace: two boards may call theirs the same."""
    try:
        there = (pq.read_metadata(path).metadata or {}).get(_STARTED, b"").decode(errors="replace")
    except (OSError, pa.ArrowInvalid):
        return
    if there != started:
        raise TraceError(
            f"the data set has another trace called {name}, recorded {there or 'at an unknown time'}: "
            "tell them apart by --partition (board=NAME)"
        )


def _contents(analysis: Analysis, tables: Collection[str]) -> Iterator[tuple[str, pa.Table]]:
    for table, content in analysis.tables:
        if not tables or table in tables:
            yield table, arrow_table(table, content)
    # Last: of a trace that is named there, everything is there.
    yield "traces", pa.Table.from_pylist([summary(analysis)], schema=TRACES)


def _of_trace(content: pa.Table, name: str, started: str) -> pa.Table:
    whose = pa.repeat(pa.scalar(_text(name), pa.string()), len(content))
    return content.add_column(0, "trace", whose).replace_schema_metadata({_STARTED: started.encode()})


def summary(analysis: Analysis) -> dict[str, Any]:
    """The row of ``traces``."""
    meta, end, verdict = analysis.trace.meta, analysis.trace.end or {}, analysis.verdict
    machine, call, refusal = meta.get("machine", {}), verdict.failing_call, verdict.refusal
    ended, began = end.get("ended_monotonic_ns"), meta.get("started_monotonic_ns")
    memory = analysis.tables.memory
    return {
        **{field: meta.get(field) for field in ("started", "version", "schema_version")},
        **{field: machine.get(field) for field in ("hostname", "kernel", "architecture", "memory_bytes")},
        "duration_ns": None if ended is None or began is None else ended - began,
        "command": _text(shlex.join(str(word) for word in meta.get("command", []))),
        "exit_code": end.get("exit_code"),
        "cause": verdict.cause.value,
        "kernel_cap": verdict.kernel_cap.value,
        "refused_by": verdict.refused_by,
        "confidence": verdict.confidence.value,
        "headline": _text(verdict.headline),
        "failing_call": call and _text(call.name),
        "error": call and _text(call.error),
        "dispatch_number": call and call.dispatch_number,
        "refused_ioctl": refusal and refusal.ioctl,
        "refused_errno": refusal and refusal.errno,
        "refused_bytes": refusal and refusal.size,
        "origin": refusal and refusal.origin,
        "limit": refusal and refusal.limit and refusal.limit.name,
        "peak_bo_bytes": None if memory.empty else int(memory["live_bo_bytes"].max()),
        "peak_va_bytes": None if memory.empty else int(memory["va_bytes"].max()),
        "dispatches": len(analysis.tables.dispatches),
        "losses": sum(count for _, count in verdict.losses),
    }


def _text(text: str) -> str:
    """What was no UTF-8 has its bytes as ``\\xff``."""
    return text.encode(errors="backslashreplace").decode()
