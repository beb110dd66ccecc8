# SPDX-License-Identifier: MIT
"""Processes are stopped at their first failures, noticed by nobody, and never left stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from panthor_trace.analysis import Analysis, analyse
from panthor_trace.capture.hold import DEADLINE_SECONDS, stop_state
from panthor_trace.report.terminal import text

from .tracing import compiled, environment, trace, tracer

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="loading BPF programs needs root")

PROGRAMS = Path(__file__).parent / "programs"
TRIALS = {"tracer": 60, "both": 30, "child": 30, "stop": 8}
#: What a machine under load needs to let a process run again.
_SLACK_SECONDS = 5.0


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(PROGRAMS / "failing.c", tmp_path_factory.mktemp("failing"), ["-pthread"])


def traced(directory: Path, *arguments: str | Path, status: int = 7) -> Analysis:
    done = trace(directory, "--node", "/dev/null", "--no-csv", *arguments)
    assert done.returncode == status, done.stderr
    return analyse(directory)


def outcomes(analysis: Analysis) -> list[str]:
    states = analysis.tables.states
    return states.loc[states["why"] == "failure", "hold"].tolist()


def test_nobody_is_left_stopped_whenever_the_tracer_goes(failing: Path) -> None:
    """Killed, killed together with the guardian, stopped; the command or a child of it being held."""
    trials = Path(__file__).with_name("hold_trials.py")
    wanted = [f"{what}={number}" for what, number in TRIALS.items()]
    done = subprocess.run(
        [sys.executable, trials, *wanted, "--", failing, "5000"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert Counter(row["what"] for row in rows) >= Counter(TRIALS)
    assert all(row["on"] for row in rows)
    # 0: killed before the command was let go. How it ended is not always for us to see.
    assert {row["left"] for row in rows} <= {"7", "0", "ended"}
    assert max(row["seconds"] for row in rows) < DEADLINE_SECONDS * 4 + _SLACK_SECONDS
    for what in TRIALS:
        assert any(row["held"] for row in rows if row["what"] == what), what


def test_what_is_read_is_the_state_of_the_failure(tmp_path: Path, failing: Path) -> None:
    """Four failures are enough; each is looked at before the process does anything else."""
    analysis = traced(tmp_path / "trace", "--", failing, "0", "3")
    assert outcomes(analysis) == ["held"] * 4 + ["the process had been held before"]
    states = analysis.tables.states
    held = states[states["hold"] == "held"]
    calls = analysis.tables.ioctls
    assert held["as_of_ns"].tolist() == held["failed_ns"].tolist()
    # Read between the return of one call and the entry of the next one.
    assert (held["time_ns"].to_numpy() > calls["exit_ns"].to_numpy()[:4]).all()
    assert (held["time_ns"].to_numpy() < calls["enter_ns"].to_numpy()[1:5]).all()
    assert held["maps"].notna().all()
    assert held["resident"].gt(0).all()
    assert held["held_ns"].lt(DEADLINE_SECONDS * 1e9).all()
    (mappings,) = [use for use in analysis.verdict.caps if use.name == "mappings"]
    assert "before" not in mappings.note
    assert "held to look at the process: at 4 failures" in text(
        analysis.verdict, analysis.tables, analysis.trace.meta
    )


@pytest.mark.parametrize(
    ("options", "command", "expected"),
    [
        (("--no-hold",), ["{}"], "holding is off"),
        ((), ["strace", "-o", "/dev/null", "{}"], "a debugger has the process"),
        ((), ["sh", "-c", "{}; exit $?"], "the process's parent might take notice"),
        ((), ["{}", "child"], "held"),
        (
            (),
            ["{}", "catches"],
            "the process handles SIGCONT itself",
        ),
    ],
    ids=["off", "debugger", "shell", "child", "handler"],
)
def test_held_only_where_nobody_can_notice(
    tmp_path: Path, failing: Path, options: tuple[str, ...], command: list[str], expected: str
) -> None:
    if command[0] == "strace" and not shutil.which("strace"):
        pytest.skip("no strace")
    words = [word.replace("{}", str(failing)) for word in command]
    analysis = traced(tmp_path / "trace", *options, "--", *words)
    assert outcomes(analysis)[0] == expected


class Run:
    """A traced ``failing`` that pauses between failures; the tracer can be put to sleep meanwhile."""

    def __init__(self, directory: Path, failing: Path, *arguments: str) -> None:
        self.tracer = subprocess.Popen(
            tracer("-o", directory, "--no-csv", "--node", "/dev/null", "--", failing, *arguments),
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._name = failing.name
        self.pid = self.guardian = 0
        until(self._has_both)

    def _has_both(self) -> bool:
        assert self.tracer.poll() is None, self.tracer.communicate()
        children = Path(f"/proc/{self.tracer.pid}/task/{self.tracer.pid}/children").read_text().split()
        names = {Path(f"/proc/{child}/comm").read_text().strip(): int(child) for child in children}
        self.pid, self.guardian = names.get(self._name, 0), names.get("hold-guardian", 0)
        return bool(self.pid and self.guardian)

    def held(self) -> bool:
        return stop_state(self.pid).stopped

    def put_tracer_to_sleep(self) -> None:
        """When it has dealt with all that was, and before the next failure."""
        os.kill(self.tracer.pid, signal.SIGCONT)
        time.sleep(0.5)
        os.kill(self.tracer.pid, signal.SIGSTOP)

    def end(self) -> int:
        self.tracer.communicate(timeout=60)
        return self.tracer.returncode


@pytest.fixture
def run(tmp_path: Path, failing: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def start(*arguments: str) -> Run:
        runs.append(Run(tmp_path / "trace", failing, *arguments))
        return runs[-1]

    yield start
    for one in runs:
        for pid in (one.pid, one.guardian, one.tracer.pid):
            if Path(f"/proc/{pid}").exists() and one.tracer.poll() is None:
                os.kill(pid, signal.SIGKILL)


def until(what: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for something to be so."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_what_others_do_to_a_held_process(run: Callable[..., Run], tmp_path: Path) -> None:
    """With the tracer stopped, the process is held for a second: time enough to get between."""
    one = run("2500000")
    one.put_tracer_to_sleep()
    until(one.held)
    if shutil.which("gdb"):
        attach = ["gdb", "-p", str(one.pid), "-batch", "-ex", "detach"]
        subprocess.run(attach, capture_output=True, check=True, timeout=60)
    until(lambda: not one.held())

    one.put_tracer_to_sleep()
    until(one.held)
    os.kill(one.pid, signal.SIGSTOP)  # a stop that is not ours outlives ours
    time.sleep(DEADLINE_SECONDS * 1.5)
    assert one.held()
    os.kill(one.pid, signal.SIGCONT)
    until(lambda: not one.held())

    one.put_tracer_to_sleep()
    until(one.held)
    os.kill(one.pid, signal.SIGKILL)
    os.kill(one.tracer.pid, signal.SIGCONT)
    assert one.end() == 128 + signal.SIGKILL
    assert not Path(f"/proc/{one.guardian}").exists()
    states = analyse(tmp_path / "trace").tables.states
    late = states[states["hold"] == "held"].iloc[1:3]
    assert late["held_ns"].between(DEADLINE_SECONDS * 1e9, (DEADLINE_SECONDS + _SLACK_SECONDS) * 1e9).all()
    assert (late["as_of_ns"] == late["time_ns"]).all()  # what it was at the failure is not known


def test_nobody_is_held_without_the_guardian(run: Callable[..., Run], tmp_path: Path) -> None:
    one = run("1500000")
    os.kill(one.guardian, signal.SIGKILL)
    assert one.end() == 7
    assert outcomes(analyse(tmp_path / "trace"))[-1] == "holding is off"
