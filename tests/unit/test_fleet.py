# SPDX-License-Identifier: MIT
"""Many traces as one data set: what DuckDB and Dask make of 210 of them, and what must not be mixed up."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest

import fleet_example
from panthor_trace.analysis import Analysis, analyse
from panthor_trace.errors import TraceError
from panthor_trace.export.fleet import TRACES, export_fleet, trace_name
from panthor_trace.model import TABLE_NAMES

from .stories import STORIES
from .synthetic import SyntheticTrace, save

TRACES_OF_A_STORY = 14


def with_meta(analysis: Analysis, **meta: object) -> Analysis:
    trace = dataclasses.replace(analysis.trace, meta={**analysis.trace.meta, **meta})
    return dataclasses.replace(analysis, trace=trace)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Counter[tuple[str, str, str]]]:
    """The data set, and how many of its traces have which cause, kernel and board.

    Each story is analysed once: what takes time is the verdict, and that is tested elsewhere.
    """
    directory = tmp_path_factory.mktemp("fleet")
    told: Counter[tuple[str, str, str]] = Counter()
    traces = fleet_example.generate(directory / "traces", len(STORIES))
    found = {path.name: path for paths in traces.values() for path in paths}
    for number, story in enumerate(STORIES):
        analysis = analyse(found[f"llama-bench-{number:04}"])
        assert analysis.verdict.cause is story.truth
        for again in range(TRACES_OF_A_STORY):
            board = fleet_example.BOARDS[again % 4]
            kernel = ("6.12.117", "7.3.4")[again % 2]
            export_fleet(
                with_meta(analysis, machine={"kernel": kernel}),
                f"{story.name}-{again}",
                directory / "fleet",
                [("board", board)],
                ("ioctls", "bos", "losses"),
            )
            told[story.truth.value, kernel, board] += 1
    return directory / "fleet", told


def test_both_engines_find_what_was_put_in(fleet: tuple[Path, Counter[tuple[str, str, str]]]) -> None:
    dataset, told = fleet
    assert told.total() == 210
    by_duckdb, by_dask = fleet_example.ask_duckdb(dataset), fleet_example.ask_dask(dataset)
    causes, refused, pools = fleet_example.QUESTIONS
    assert {row[:3]: row[3] for row in by_duckdb[causes]} == told
    assert ("VM_CREATE", "EBUSY", None, 14, 14) in by_duckdb[refused]
    assert ("GROUP_CREATE", "EBUSY", None, 14, 14) in by_duckdb[refused]
    assert {row[0] for row in by_duckdb[pools]} >= {"application memory", "WLS"}
    assert by_dask == by_duckdb


def test_files_lie_as_hive_has_them(fleet: tuple[Path, Counter[tuple[str, str, str]]]) -> None:
    dataset, _ = fleet
    assert {path.name for path in dataset.iterdir()} == {"traces", "ioctls", "bos", "losses"}
    for table in ("traces", "ioctls", "losses"):
        files = [path.relative_to(dataset / table) for path in (dataset / table).rglob("*.parquet")]
        assert len(files) == 210
        assert {path.parts[0] for path in files} == {f"board={board}" for board in fleet_example.BOARDS}
    one = pq.read_table(dataset / "traces" / "board=rock5b" / "cap-0.parquet")
    assert one.schema.names[0] == "trace"
    assert one.schema.names[1:] == TRACES.names
    row = one.to_pylist()[0]
    assert row["trace"] == "cap-0"
    assert (row["cause"], row["kernel_cap"], row["refused_errno"]) == ("kernel-cap", "yes", "EBUSY")
    assert row["command"].startswith("llama-bench -m model.gguf -ub ")


def test_the_example_exports_what_it_generates(tmp_path: Path) -> None:
    fleet_example.add_to_fleet(tmp_path / "fleet", fleet_example.generate(tmp_path / "traces", 2))
    files = sorted((tmp_path / "fleet" / "traces").rglob("*.parquet"))
    assert [path.name for path in files] == ["llama-bench-0000.parquet", "llama-bench-0001.parquet"]
    assert [path.parent.name for path in files] == ["board=rock5b", "board=rock5c"]
    assert {path.name for path in (tmp_path / "fleet").iterdir()} == {"traces", *TABLE_NAMES}


def recorded(path: Path, **meta: object) -> Analysis:
    return analyse(save(SyntheticTrace().finish(), path, **meta))


def test_a_trace_may_be_added_again_but_no_other_in_its_place(tmp_path: Path) -> None:
    first = recorded(tmp_path / "a" / "same", started="2026-11-30T12:00:00+00:00")
    second = recorded(tmp_path / "b" / "same", started="2026-11-30T13:00:00+00:00")
    dataset = tmp_path / "fleet"
    export_fleet(first, "same", dataset, [])
    export_fleet(first, "same", dataset, [])
    with pytest.raises(TraceError, match="another trace called same, recorded 2026-11-30T12:00:00"):
        export_fleet(second, "same", dataset, [])
    assert pq.read_table(dataset / "traces")["started"].to_pylist() == ["2026-11-30T12:00:00+00:00"]
    export_fleet(second, "same", dataset, [("board", "other")])


@pytest.mark.parametrize("key", ["kernel", "pid", "size"])
def test_a_partition_is_no_column(key: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=f"--partition {key}: the table .* has a column {key}"):
        export_fleet(recorded(tmp_path / "trace"), "x", tmp_path / "fleet", [(key, "1")])
    assert not (tmp_path / "fleet").exists()


@pytest.mark.parametrize("value", ["../../up", "a/b", "x=y", "50%", "\udcff", "ümlaut", "."])
def test_no_name_leads_elsewhere(value: str, tmp_path: Path) -> None:
    written = export_fleet(recorded(tmp_path / "trace"), value, tmp_path / "fleet", [("board", value)])
    for path in written:
        assert path.parent.parent.parent == tmp_path / "fleet"
        assert path.parent.name.count("=") == 1
    shown = unquote(written[0].parent.name.partition("=")[2])
    assert shown == value.replace("\udcff", "\\udcff")


def test_a_trace_is_called_as_its_directory(tmp_path: Path) -> None:
    (tmp_path / "night-7").mkdir()
    assert trace_name(tmp_path / "night-7" / ".") == "night-7"
