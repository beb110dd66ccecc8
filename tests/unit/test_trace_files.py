# SPDX-License-Identifier: MIT
"""The trace directory: written, cut short, read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panthor_trace.errors import TraceError
from panthor_trace.trace.reader import parse_events, read_trace
from panthor_trace.trace.records import BLOCK, DTYPES
from panthor_trace.trace.schema import BLOCK_MAGIC, SCHEMA_VERSION, RecordType
from panthor_trace.trace.writer import TraceWriter

ME = (os.getuid(), os.getgid())


def processes(*times: int) -> list[bytes]:
    rows = np.zeros(len(times), DTYPES[RecordType.PROCESS])
    rows["head"]["type"] = RecordType.PROCESS
    rows["head"]["enter_ns"] = times
    return [row.tobytes() for row in rows]


def block(kind: int, size: int, records: list[bytes]) -> bytes:
    head = np.array([(BLOCK_MAGIC, kind, size, len(records))], BLOCK)
    return head.tobytes() + b"".join(records)


SIZE = DTYPES[RecordType.PROCESS].itemsize


def written(tmp_path: Path) -> Path:
    writer = TraceWriter.create(str(tmp_path / "trace"), ME)
    writer.write_json("meta.json", {"schema_version": SCHEMA_VERSION})
    writer.write_block(RecordType.PROCESS, SIZE, processes(1, 2), 2)
    writer.write_block(RecordType.PROCESS, SIZE, processes(3), 1)
    writer.close()
    return tmp_path / "trace"


def test_what_is_written_is_read(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path))
    assert trace.of(RecordType.PROCESS)["head"]["enter_ns"].tolist() == [1, 2, 3]
    assert len(trace.of(RecordType.IOCTL)) == 0
    assert trace.end is None
    assert trace.torn_bytes == 0


def test_existing_directory_is_not_touched(tmp_path: Path) -> None:
    path = written(tmp_path)
    with pytest.raises(TraceError, match="exists and a trace is never overwritten"):
        TraceWriter.create(str(path), ME)
    assert len(read_trace(path).of(RecordType.PROCESS)) == 3


def test_link_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "trace").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TraceError, match="exists"):
        TraceWriter.create(str(tmp_path / "trace"), ME)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_link_planted_inside_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    writer = TraceWriter.create(str(tmp_path / "trace"), ME)
    (tmp_path / "trace" / "end.json").symlink_to(victim)
    with pytest.raises(OSError, match="exists"):
        writer.write_json("end.json", {})
    assert victim.read_text() == "precious"


def test_missing_parent_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"cannot create the trace directory .* No such file"):
        TraceWriter.create(str(tmp_path / "no" / "trace"), ME)


def test_discard_leaves_nothing(tmp_path: Path) -> None:
    writer = TraceWriter.create(str(tmp_path / "trace"), ME)
    writer.write_json("meta.json", {})
    writer.write_block(RecordType.PROCESS, SIZE, processes(1), 1)
    writer.discard()
    assert not list(tmp_path.iterdir())


@given(cut=st.integers(min_value=0, max_value=2 * BLOCK.itemsize + 3 * SIZE))
@settings(max_examples=200, deadline=None)
def test_whole_records_survive_any_cut(cut: int) -> None:
    raw = block(RecordType.PROCESS, SIZE, processes(1, 2)) + block(RecordType.PROCESS, SIZE, processes(3))
    found, torn = parse_events(raw[:cut])
    rows = found.get(RecordType.PROCESS, np.empty(0, DTYPES[RecordType.PROCESS]))
    in_first = max(0, min(2, (cut - BLOCK.itemsize) // SIZE))
    in_second = max(0, min(1, (cut - 2 * BLOCK.itemsize - 2 * SIZE) // SIZE))
    assert rows["head"]["enter_ns"].tolist() == [1, 2, 3][: in_first + in_second]
    assert 0 <= torn <= max(SIZE, BLOCK.itemsize)


def test_records_of_an_unknown_type_are_skipped() -> None:
    raw = block(99, 8, [b"12345678"]) + block(RecordType.PROCESS, SIZE, processes(7))
    found, torn = parse_events(raw)
    assert found[RecordType.PROCESS]["head"]["enter_ns"].tolist() == [7]
    assert torn == 0


def test_garbage_behind_the_records_is_counted() -> None:
    raw = block(RecordType.PROCESS, SIZE, processes(7)) + b"\xff" * 40
    found, torn = parse_events(raw)
    assert (len(found[RecordType.PROCESS]), torn) == (1, 40)


def test_records_of_another_size_are_refused() -> None:
    with pytest.raises(TraceError, match="PROCESS records have 8 bytes"):
        parse_events(block(RecordType.PROCESS, 8, [b"12345678"]))


@pytest.mark.parametrize(
    ("meta", "complaint"),
    [("{}", "schema version None"), ('{"schema_version": 99}', "schema version 99"), ("{", "no readable")],
)
def test_unreadable_meta_is_one_clear_line(tmp_path: Path, meta: str, complaint: str) -> None:
    (tmp_path / "meta.json").write_text(meta)
    with pytest.raises(TraceError, match=complaint):
        read_trace(tmp_path)


def test_what_is_no_trace_is_said(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such trace"):
        read_trace(tmp_path / "nothing")
