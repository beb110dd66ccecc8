# SPDX-License-Identifier: MIT
"""Parquet: what CSV says, with types that do not depend on what happened."""

from __future__ import annotations

import csv
import dataclasses
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from panthor_trace.analysis import analyse
from panthor_trace.cli import main
from panthor_trace.errors import TraceError
from panthor_trace.export.columns import Kind, kind_of
from panthor_trace.export.csv import export_csv
from panthor_trace.export.parquet import arrow_table, export_parquet
from panthor_trace.model import Tables, build
from panthor_trace.trace.reader import Trace

from .stories import STORIES
from .synthetic import SyntheticTrace, save
from .test_csv import ODD
from .test_tables_documented import DOCUMENT

EMPTY = build(Trace({}, {}, None))
#: Units of docs/tables.md that say what a column holds.
UNITS = {"name": Kind.TEXT, "text": Kind.TEXT, "flag": Kind.FLAG, "ns": Kind.INTEGER, "id": Kind.INTEGER}


@pytest.fixture(scope="module")
def told() -> Tables:
    """All that can happen, in one trace."""
    run = SyntheticTrace()
    for story in STORIES:
        story.tell(run)
    run.state()
    return build(run.finish())


def test_types_are_the_same_whatever_happened(told: Tables) -> None:
    for name, empty in EMPTY:
        schema = arrow_table(name, empty).schema
        there = arrow_table(name, getattr(told, name)).schema
        assert there.names[: len(schema)] == schema.names
        assert there.types[: len(schema)] == schema.types


def test_kinds_are_those_of_the_tables(told: Tables) -> None:
    """Where a dtype tells: text is text, a flag a flag, and what may have 64 bits has room for them."""
    seen = 0
    for name, table in told:
        for column in table.columns:
            values, kind = table[column].dropna(), kind_of(name, column)
            if values.empty:
                continue
            seen += 1
            if pd.api.types.is_bool_dtype(values.dtype):
                assert kind is Kind.FLAG, (name, column)
            elif pd.api.types.is_numeric_dtype(values.dtype):
                wide = str(values.dtype).lower() == "uint64" and column not in SMALL
                allowed = {Kind.UNSIGNED} if wide else {Kind.UNSIGNED, Kind.INTEGER}
                assert kind in allowed, (name, column, values.dtype)
            elif all(isinstance(value, str) for value in values):
                assert kind is Kind.TEXT, (name, column)
    assert seen > 150


#: What the kernel or Vulkan has in 32 bits, and pandas in 64 where there are gaps.
SMALL = frozenset(
    [
        *("vm_id", "state", "fatal_queues", "maps", "fences", "submits", "memory_type", "max_chunks"),
        *("groups_x", "groups_y", "groups_z", "initial_chunk_count"),
    ]
)


def test_kinds_are_those_of_the_document() -> None:
    checked = 0
    for section in DOCUMENT.read_text().split("\n## ")[1:]:
        table = section.partition("\n")[0]
        for line in section.splitlines():
            if not line.startswith("| `"):
                continue
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            names = [word.strip("` ") for word in cells[0].split(",")]
            for name in names if len(names) == 1 else ():  # a unit beside several may be that of some
                if cells[1] in UNITS:
                    assert kind_of(table, name) is UNITS[cells[1]], (table, name)
                    checked += 1
    assert checked > 60


def test_parquet_says_what_csv_says(tmp_path: Path, told: Tables) -> None:
    export_csv(told, tmp_path / "csv")
    export_parquet(told, tmp_path / "parquet")
    for name, _ in told:
        with (tmp_path / "csv" / f"{name}.csv").open(newline="") as file:
            head, *rows = list(csv.reader(file))
        table = pq.read_table(tmp_path / "parquet" / f"{name}.parquet")
        assert table.column_names == head
        there = [["" if value is None else value for value in row.values()] for row in table.to_pylist()]
        assert len(there) == len(rows)
        for left, right in zip(there, rows, strict=True):
            for value, text in zip(left, right, strict=True):
                assert str(value) == text or math.isclose(float(text), float(value)), name


def test_any_text_comes_back(tmp_path: Path) -> None:
    tables = dataclasses.replace(EMPTY, processes=EMPTY.processes.copy())
    tables.processes["path"] = pd.Series([*ODD, None, pd.NA, math.nan], dtype=object)
    tables.processes["pid"] = range(len(ODD) + 3)
    export_parquet(tables, tmp_path / "out")
    there = pq.read_table(tmp_path / "out" / "processes.parquet")["path"].to_pylist()
    assert there == [*(text.replace("\udcff", "\\udcff") or None for text in ODD), None, None, None]


def test_all_64_bits(tmp_path: Path) -> None:
    binds = pd.DataFrame({"va": np.array([2**64 - 1], np.uint64), "ret": pd.array([-(2**63)], "Int64")})
    assert arrow_table("binds", binds).to_pylist() == [{"va": 2**64 - 1, "ret": -(2**63)}]


def test_a_link_in_place_of_a_table_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "bos.parquet").symlink_to(tmp_path / "precious")
    export_parquet(EMPTY, tmp_path / "out")
    assert (tmp_path / "precious").read_text() == "kept"
    assert pq.read_table(tmp_path / "out" / "bos.parquet").num_rows == 0


def test_nowhere_to_write_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(TraceError, match=r"cannot write the Parquet files to .*out: File exists"):
        export_parquet(EMPTY, tmp_path / "out")


def ran(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *words]
    environment = {"PYTHONPATH": ":".join(sys.path)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_without_pyarrow_it_says_what_to_install(tmp_path: Path) -> None:
    trace = save(SyntheticTrace().finish(), tmp_path / "trace")
    program = "import sys; sys.modules['pyarrow'] = None; from panthor_trace.cli import main; main()"
    for words in (["export", "--format", "parquet", str(trace)], ["export", "--fleet", "x", str(trace)]):
        done = ran(program, *words)
        assert done.returncode == 125
        assert "Parquet files need pyarrow, which is not installed" in done.stderr
        assert done.stderr.count("\n") == 1
    done = ran(program, "export", str(trace))
    assert done.returncode == 0, done.stderr
    assert (trace / "csv" / "bos.csv").exists()


def run(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = save(SyntheticTrace().finish(), tmp_path / "trace")
    assert run("export", "--format", "parquet", trace) == 0
    names = capsys.readouterr().out.splitlines()
    assert names == [str(trace / "parquet" / f"{name}.parquet") for name, _ in EMPTY]
    assert pq.read_schema(names[0]).field("ioctl_id").type == pa.int64()
    assert analyse(trace)  # what is beside it does no harm


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--partition", "board=x", "DIR"), "--partition and --table are for --fleet"),
        (("--fleet", "x", "--format", "perfetto", "DIR"), "--fleet is of Parquet"),
        (("DIR", "DIR"), "one DIRECTORY at a time"),
        (("--fleet", "x", "-o", "y", "DIR"), "--fleet takes whole traces"),
        (("--fleet", "x", "--process", "1", "DIR"), "--fleet takes whole traces"),
        (("--fleet", "x", "--partition", "board", "DIR"), "'board' is not KEY=VALUE"),
        (("--fleet", "x", "--partition", "../up=1", "DIR"), "is not KEY=VALUE"),
        (("--fleet", "x", "--partition", "trace=1", "DIR"), "'trace' is a column already"),
        (("--fleet", "x", "--table", "BOS", "DIR"), "no such table: BOS"),
        ((), "DIRECTORY"),
    ],
)
def test_wrong_options(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("export", *words) == 2
    assert said in capsys.readouterr().err
