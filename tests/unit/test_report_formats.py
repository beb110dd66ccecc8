# SPDX-License-Identifier: MIT
"""``report --format``: each form on standard output or in a file, and what is said of a wrong wish."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from panthor_trace import cli
from panthor_trace.commands.report import FORMATS
from panthor_trace.report.formats import FORMATS as WRITERS
from panthor_trace.trace.schema import SCHEMA_VERSION


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """The directory of a run in which nothing happened."""
    directory = tmp_path / "trace"
    directory.mkdir()
    meta = {"schema_version": SCHEMA_VERSION, "started_monotonic_ns": 0, "layers": {}, "nodes": []}
    (directory / "meta.json").write_text(json.dumps(meta))
    (directory / "end.json").write_text(json.dumps({"exit_code": 0, "discarded_records": 0}))
    return directory


def report(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(["report", *map(str, arguments)])
    return int(ended.value.code or 0)


def test_the_command_knows_every_form() -> None:
    assert set(FORMATS) == set(WRITERS)


def test_json_is_the_same_by_either_option(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report("--json", trace) == 0
    short = capsys.readouterr().out
    assert report("--format", "json", trace) == 0
    assert capsys.readouterr().out == short
    assert json.loads(short)["cause"] == "inconclusive"


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_holds_what_would_be_printed(
    form: str, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report("--format", form, trace) == 0
    printed = capsys.readouterr().out
    assert report("--format", form, "-o", tmp_path / "report", trace) == 0
    assert (tmp_path / "report").read_text() == printed
    assert capsys.readouterr() == ("", "")


def test_two_forms_at_once_are_a_usage_error(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report("--json", "--format", "text", trace) == 2
    assert "--json and --format text" in capsys.readouterr().err


def test_what_is_no_file_is_not_replaced(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report("-o", "/dev/null", trace) == 125
    assert capsys.readouterr().err.count("\n") == 1
    assert Path("/dev/null").is_char_device()


def test_a_link_is_replaced_not_followed(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "report").symlink_to(tmp_path / "precious")
    assert report("-o", tmp_path / "report", trace) == 0
    assert (tmp_path / "precious").read_text() == "kept"
    assert not (tmp_path / "report").is_symlink()


def test_a_directory_that_is_not_there_is_one_line(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nowhere" / "report"
    assert report("-o", path, trace) == 125
    assert capsys.readouterr().err == f"panthor-trace: cannot write {path}: No such file or directory\n"


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_a_comparison_in_a_file_is_what_would_be_printed(
    form: str, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def diff(*more: str) -> str:
        with pytest.raises(SystemExit) as ended:
            cli.main(["diff", "--format", form, *more, str(trace), str(trace)])
        assert not ended.value.code
        return capsys.readouterr().out

    printed = diff()
    assert diff("-o", str(tmp_path / "diff")) == ""
    assert (tmp_path / "diff").read_text() == printed


@pytest.mark.parametrize("command", ["report", "diff"])
def test_a_page_is_not_printed_on_a_terminal(
    command: str, trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--format", "html", *[str(trace)] * (2 if command == "diff" else 1)])
    assert ended.value.code == 2
    assert "-o FILE" in capsys.readouterr().err
