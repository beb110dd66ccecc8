# SPDX-License-Identifier: MIT
"""The trace directory: written, cut short, read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panthor_trace.errors import TraceError
from panthor_trace.model import build
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


@pytest.mark.parametrize("name", ["meta.json", "events.bin", "state.jsonl"])
@pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
def test_what_is_no_file_is_not_read(tmp_path: Path, name: str, kind: str) -> None:
    """A pipe would keep the reader waiting for ever, a device has no end."""
    path = written(tmp_path)
    (path / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path / name)
    elif kind == "device":
        (path / name).symlink_to("/dev/zero")
    else:
        (path / name).mkdir()
    with pytest.raises(TraceError, match=r"not a regular file|Is a directory"):
        read_trace(path)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("layers", "x"),
        ("layers", {"driver": 1}),
        ("machine", []),
        ("nodes", "x"),
        ("nodes", ["x"]),
        ("driver_functions", {}),
        ("started_monotonic_ns", "x"),
        ("attached_pid", "1"),
    ],
)
@pytest.mark.parametrize("name", ["meta.json", "end.json"])
def test_damaged_description_is_said_to_be(tmp_path: Path, name: str, member: str, value: object) -> None:
    path = written(tmp_path)
    (path / name).write_text(json.dumps({"schema_version": SCHEMA_VERSION, member: value}))
    with pytest.raises(TraceError, match="is damaged"):
        read_trace(path)


@pytest.mark.parametrize("damage", ["[]", "5", '{"pid": 1}', '{"time_ns": "1"}', '{"time_ns": 1'])
def test_side_table_ends_at_what_is_no_row(tmp_path: Path, damage: str) -> None:
    path = written(tmp_path)
    (path / "state.jsonl").write_text(f'{{"time_ns": 1}}\n{damage}\n{{"time_ns": 2}}\n')
    trace = read_trace(path)
    assert trace.side["state"] == [{"time_ns": 1}]
    assert len(build(trace).states) == 1


def test_side_table_may_hold_any_name(tmp_path: Path) -> None:
    path = written(tmp_path)
    numbers = dict.fromkeys(("pid", "start", "end", "offset", "device", "inode"), 1)
    row = {**numbers, "path": "\r\v\x1c\x85\u2028\udcff", "build_id": ""}
    (path / "modules.jsonl").write_text(json.dumps(row) + "\n")
    assert read_trace(path).side["modules"] == [row]


def test_discarding_leaves_what_is_not_ours(tmp_path: Path) -> None:
    writer = TraceWriter.create(str(tmp_path / "trace"), ME)
    writer.write_json("meta.json", {})
    (tmp_path / "trace" / "mine").write_text("")
    writer.discard()
    assert [path.name for path in (tmp_path / "trace").iterdir()] == ["mine"]


def test_discarding_does_not_follow_the_path(tmp_path: Path) -> None:
    writer = TraceWriter.create(str(tmp_path / "trace"), ME)
    (tmp_path / "trace").rename(tmp_path / "moved")
    (tmp_path / "trace").mkdir()
    writer.discard()
    assert (tmp_path / "trace").is_dir()


@pytest.mark.parametrize("path", ["trace", "trace/", "./trace", "{}/trace//"])
def test_any_spelling_of_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.chdir(tmp_path)
    TraceWriter.create(path.format(tmp_path), ME).close()
    assert (tmp_path / "trace").is_dir()
    for existing in ("/", ".", "..", str(tmp_path)):
        with pytest.raises(TraceError, match="never overwritten"):
            TraceWriter.create(existing, ME)
