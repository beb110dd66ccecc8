# SPDX-License-Identifier: MIT
"""The command line's wiring; no process is traced here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from panthor_trace import cli
from panthor_trace.capture import recorder
from panthor_trace.capture.identity import Identity
from panthor_trace.commands.run import run
from panthor_trace.errors import TraceError


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["--", "report"], ["run", "--", "report"]),
        (["-o", "x", "--", "cmd"], ["run", "-o", "x", "--", "cmd"]),
        (["llama-bench", "-m", "x"], ["run", "llama-bench", "-m", "x"]),
        (["report", "DIR"], ["report", "DIR"]),
        (["run", "--", "cmd"], ["run", "--", "cmd"]),
        (["--version"], ["--version"]),
        ([], []),
    ],
)
def test_run_can_be_left_out(given: list[str], meant: list[str]) -> None:
    assert cli._expand(given) == meant


def run_main(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    return int(ended.value.code or 0)


@pytest.mark.parametrize(("debug", "shown"), [("", False), ("1", True)])
def test_libraries_warnings_are_for_developers(tmp_path: Path, debug: str, shown: bool) -> None:
    """Debian's pandas, years older than a developer's, warns of changes to come; so will each later one."""
    (tmp_path / "numpy.py").write_text(
        "import warnings\nwarnings.warn('of the next version', FutureWarning)\n"
    )
    env = {
        **os.environ,
        "PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2] / 'src'}",
        cli.DEBUG_VARIABLE: debug,
    }
    done = subprocess.run(
        [sys.executable, "-m", "panthor_trace", "report", str(tmp_path)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("of the next version" in done.stderr) == shown


def test_missing_trace_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main("report", str(tmp_path / "nothing")) == 125
    captured = capsys.readouterr()
    assert captured.err == f"panthor-trace: {tmp_path}/nothing: no such trace\n"
    assert captured.out == ""


def test_unexpected_error_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("of our own making")

    monkeypatch.setattr(cli.cli, "main", broken)
    monkeypatch.delenv(cli.DEBUG_VARIABLE, raising=False)
    assert run_main("report", "x") == 125
    assert capsys.readouterr().err.count("\n") == 1


def test_wrong_option_and_wrong_variable_are_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main("--nonsense", "--", "true") == 2
    assert run_main("--env", "novalue", "--", "true") == 2
    assert "'novalue' is not NAME=VALUE" in capsys.readouterr().err


def test_nobody_ran_sudo() -> None:
    assert Identity.invoking({}) is None
    assert Identity.invoking({"SUDO_UID": "0", "SUDO_GID": "0"}) is None


@pytest.mark.parametrize(
    ("uid", "gid"),
    [
        ("not a number", "0"),
        ("-1", "-1"),
        ("1000", None),
        (None, "1000"),
        ("4294967295", "1"),
        ("", ""),
        ("٣", "1"),
    ],
)
def test_half_a_user_is_none(uid: str | None, gid: str | None) -> None:
    """Silently going on as root is what must not be."""
    given = {"SUDO_UID": uid, "SUDO_GID": gid}
    with pytest.raises(TraceError, match="no user"):
        Identity.invoking({name: value for name, value in given.items() if value is not None})


@pytest.mark.parametrize("options", [("--user", ""), ("--user", "daemon", "--no-drop")])
def test_user_options_that_contradict(options: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(*options, "--", "true") == 2
    assert "--user" in capsys.readouterr().err


@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt(), 42), (OSError(28, "full"), 42)])
def test_nothing_during_the_report_costs_the_commands_status(
    error: BaseException, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_recording: recorder.Recording, *, csv: bool, verbose: bool) -> int:
        raise error

    monkeypatch.delenv(cli.DEBUG_VARIABLE, raising=False)
    monkeypatch.setattr(recorder, "record", lambda _options, _say: recorder.Recording("somewhere", 42, None))
    monkeypatch.setattr("panthor_trace.commands.run._report", fail)
    assert run_main("--", "true") == status


def test_unknown_user_is_said() -> None:
    with pytest.raises(TraceError, match="no such user: no-such-user"):
        Identity.of_user("no-such-user")


@pytest.mark.parametrize("error", [KeyError("column"), TraceError("no")])
def test_a_report_that_fails_leaves_the_commands_exit_status(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_directory: Path, *, csv: bool, verbose: bool) -> int:
        raise error

    monkeypatch.delenv(cli.DEBUG_VARIABLE, raising=False)
    monkeypatch.setattr(recorder, "record", lambda _options, _say: recorder.Recording("somewhere", 42, None))
    monkeypatch.setattr("panthor_trace.commands.run._report", fail)
    assert run_main("--", "true") == 42
    assert "panthor-trace: " in capsys.readouterr().err


@pytest.mark.parametrize(("given", "units"), [("4K", 1), ("12K", 4), ("8m", 2048), ("1G", 1 << 18)])
def test_ring_size_is_rounded_up_to_what_the_kernel_takes(given: str, units: int) -> None:
    option = next(one for one in run.params if one.name == "ring_size")
    assert option.process_value(click.Context(run), given) == units


@pytest.mark.parametrize("given", ["", "M", "2K", "2G", "-8M", "8", "8Q", "٨M"])
def test_ring_size_that_is_none_is_one_line(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main("--ring-size", given, "--", "true") == 2
    assert "is not a size from 4K to 1G" in capsys.readouterr().err
