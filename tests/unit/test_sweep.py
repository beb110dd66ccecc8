# SPDX-License-Identifier: MIT
"""Sweeps: which values are run, what is not run again, the table. tests/host/test_sweep.py has real runs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panthor_trace import cli
from panthor_trace.errors import TraceError
from panthor_trace.sweep.plan import Ceiling, Template, bisect, combinations, halvings, until_failure
from panthor_trace.sweep.runner import file_name
from panthor_trace.trace.schema import SCHEMA_VERSION

COMMAND = ["bench", "-ub", "{ub}"]


@given(
    st.lists(st.integers(0, 2000), min_size=2, max_size=8, unique=True).map(sorted),
    st.integers(-1, 2001),
    st.integers(1, 70),
)
def test_bisection_finds_the_ceiling(values: list[int], limit: int, step: int) -> None:
    tried: list[int] = []

    def fails(value: int) -> bool:
        tried.append(value)
        return value > limit

    found = bisect(values, fails, step)
    assert len(tried) == len(set(tried)), "a value was run twice"
    assert len(tried) <= len(values) + halvings(values, step)
    candidates = set(values) | {value for value in range(values[0], values[-1] + 1) if value % step == 0}
    if limit < values[0]:
        assert found == Ceiling(None, values[0])
    elif limit >= values[-1]:
        assert found == Ceiling(values[-1], None)
    else:
        assert found.works is not None
        assert found.fails is not None
        assert found.works <= limit < found.fails
        between = {value for value in candidates if found.works < value < found.fails}
        assert not {value for value in between if value % step == 0}


def test_stop_at_the_first_failure_or_never() -> None:
    runs = combinations({"ub": ["1", "2", "3"]})
    ran: list[str] = []

    def run(values: object) -> bool:
        ran.append(str(values))
        return "2" in str(values)

    assert list(until_failure(runs, run, stop=True)) == [{"ub": "3"}]
    assert len(ran) == 2
    assert list(until_failure(runs, run, stop=False)) == []


def test_template_fills_in_only_its_names() -> None:
    template = Template(("sh", "-c", "echo {ub} {c} ${HOME} '{print $1}'"))
    assert template.with_values({"ub": "64", "c": "8"})[2] == "echo 64 8 ${HOME} '{print $1}'"
    with pytest.raises(TraceError, match=r"\{x\} is nowhere in the command"):
        template.check(["ub", "x"])


@given(st.lists(st.text(min_size=1, max_size=90), min_size=2, max_size=2, unique=True))
def test_every_value_has_a_file_name_of_its_own(values: list[str]) -> None:
    names = [file_name({"model": value}) for value in values]
    assert names[0] != names[1]
    for name in names:
        assert "/" not in name
        assert not name.startswith((".", "-"))
        assert len(name.encode()) < 120
    assert file_name({"ub": "64", "c": "512"}) == "ub=64,c=512"


def test_no_value_takes_the_files_of_another() -> None:
    assert file_name({"a": "1", "b": "2 b=3"}) != file_name({"a": "1 b=2", "b": "3"})
    for ending in ("log", "interrupted"):
        assert file_name({"a": f"1.{ending}"}) != f"{file_name({'a': '1'})}.{ending}"


def test_combinations_that_read_alike_are_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = combinations({"a": ["x", "x y"], "b": ["y z", "z"]})
    command = ["bench", "{a}", "{b}"]
    work = finished(tmp_path / "work", {}, command)
    for number, values in enumerate(runs):
        (finished(tmp_path / f"made-{number}", {"0": number}) / "ub=0").rename(work / file_name(values))
    sets = ["--set", "a=x,x y", "--set", "b=y z,z"]
    with pytest.raises(SystemExit):
        cli.main(["sweep", "-o", str(work), "--stop", "never", "--csv", *sets, "--", *command])
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["exit_status"] for row in rows] == ["0", "1", "2", "3"]


def finished(directory: Path, values: dict[str, int], command: Sequence[str] = COMMAND) -> Path:
    """A sweep that has run these values, with their exit status."""
    directory.mkdir()
    plan = {"format": 1, "command": list(command), "options": []}
    (directory / "sweep.json").write_text(json.dumps(plan))
    for value, status in values.items():
        trace = directory / f"ub={value}"
        trace.mkdir()
        meta = {"schema_version": SCHEMA_VERSION, "started_monotonic_ns": 0, "layers": {}, "nodes": []}
        (trace / "meta.json").write_text(json.dumps(meta))
        end = {"exit_code": status, "discarded_records": 0, "ended_monotonic_ns": 5}
        (trace / "end.json").write_text(json.dumps(end))
    return directory


def sweep(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(["sweep", *map(str, arguments), "--", *COMMAND])
    return int(ended.value.code or 0)


def test_what_is_there_is_shown_and_not_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No command ``bench`` is to be found: a value that was run would be an error."""
    work = finished(tmp_path / "work", {"64": 0, "72": 0, "80": 9})
    assert sweep("-o", work, "--set", "ub=64,72,80,96") == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert [line.split()[:2] for line in lines[2:5:1] if line.split()[0].isdigit()][:2] == [
        ["64", "ok"],
        ["72", "ok"],
    ]
    assert "exit 9" in out
    assert lines[-1] == "not run, for an earlier one failed: 96"
    assert max(map(len, lines)) <= 80


def test_bisection_goes_on_from_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = finished(tmp_path / "work", {"64": 0, "80": 134, "72": 0, "76": 134, "74": 134, "73": 0})
    assert sweep("-o", work, "--set", "ub=64,80", "--bisect") == 0
    out = capsys.readouterr().out
    assert "ceiling: ub=73 works, ub=74 fails (inconclusive:" in " ".join(out.split())
    assert sweep("-o", work, "--set", "ub=64,80", "--bisect", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ceiling"] == {"works": 73, "fails": 74}
    assert [row["values"]["ub"] for row in found["results"]] == ["64", "72", "73", "74", "76", "80"]
    assert [row["failed"] for row in found["results"]] == [False, False, False, True, True, True]


def test_csv_has_a_row_a_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = finished(tmp_path / "work", {"64": 0, "72": 3})
    assert sweep("-o", work, "--set", "ub=64,72", "--csv", "--stop", "never") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["ub"], row["exit_status"], row["failed"]) for row in rows] == [
        ("64", "0", "False"),
        ("72", "3", "True"),
    ]
    assert rows[0]["peak_live_bytes"] == ""
    assert rows[0]["duration_ns"] == "5"


def test_a_page_of_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = finished(tmp_path / "work", {"64": 0, "72": 3})
    assert sweep("-o", work, "--set", "ub=64,72", "--html", "--stop", "never") == 0
    page = capsys.readouterr().out
    assert page.startswith("<!doctype html>")
    assert "exit 3" in page


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--set", "ub"], 2, "is not NAME=VALUE"),
        (["--set", "ub=1", "--set", "ub=2"], 2, "a name of its own"),
        (["--set", "x=1"], 2, "{x} is nowhere in the command"),
        (["--set", "ub=1", "--bisect"], 2, "--bisect takes"),
        (["--set", "ub=a,b", "--bisect"], 2, "whole numbers or more"),
        (["--set", f"ub=1,{'9' * 5000}", "--bisect"], 2, "30 digits at most"),
    ],
)
def test_wrong_wishes(
    arguments: list[str], status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(*arguments) == status
    assert words in capsys.readouterr().err


def test_a_directory_of_something_else_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = finished(tmp_path / "other", {}, ["another", "{ub}"])
    assert sweep("-o", other, "--set", "ub=64") == 120
    assert "has another sweep" in capsys.readouterr().err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").write_text("kept")
    assert sweep("-o", tmp_path / "full", "--set", "ub=64") == 120
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["letter"]
