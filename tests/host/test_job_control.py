# SPDX-License-Identifier: MIT
"""Under an interactive shell a traced job stops and goes on as it would without us."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from panthor_trace.analysis import analyse

from .tracing import environment, started, tracer

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="loading BPF programs needs root")

CTRL_Z = b"\x1a"
#: What a job meets: a stop by the terminal, one that it ignores, one of its own making, and reading from the
#: terminal in the background.
SCRIPT = """
echo $$ > {pid}
read first
trap "" TSTP
echo ignoring > {ignores}
read second
kill -STOP $$
read third
/bin/true
echo "$first $second $third" > {heard}
exit 7
"""


def until(what: Callable[[], bool], seconds: float = 120) -> None:
    """Wait for something to be so."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def state(pid: int) -> str:
    """Of a process, as the kernel abbreviates it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


class Shell:
    """An interactive bash on a terminal of its own."""

    def __init__(self) -> None:
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"], environment(PS1=""))
        self.say("stty -echo")
        self.answer("echo ready")

    def press(self, keys: bytes) -> None:
        os.write(self.terminal, keys)

    def say(self, line: str) -> None:
        self.press(line.encode() + b"\n")

    def answer(self, command: str, seconds: float = 120) -> str:
        """What the terminal shows until the command has been carried out."""
        mark = f"mark{time.monotonic_ns()}"
        self.say(f"{command}; echo {mark[:4]}{mark[4:]}")
        shown, deadline = "", time.monotonic() + seconds
        while not re.search(rf"^{mark}\r?$", shown, re.MULTILINE):
            assert time.monotonic() < deadline, shown
            if select.select([self.terminal], [], [], 0.1)[0]:
                shown += os.read(self.terminal, 4096).decode(errors="replace")
        return shown

    def job(self) -> str:
        """How the shell says its only job is doing; empty where it has none."""
        found = re.search(r"^\[1\]\+?\s+\d+ (.*?)\s{2,}", self.answer("jobs -l"), re.MULTILINE)
        return found[1] if found else ""

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


def session(directory: Path, prefix: Sequence[str]) -> list[str]:
    """All that happens to the job of ``SCRIPT``, as the shell sees it."""
    directory.mkdir()
    names = {name: directory / name for name in ("pid", "ignores", "heard")}
    for name in ("pid", "ignores"):
        os.mkfifo(names[name])
    shell = Shell()
    try:
        script = SCRIPT.format(**names)
        shell.say(
            shlex.join([*prefix, "sh", "-c", " ".join(f"{line};" for line in script.split("\n") if line)])
        )
        command = int(names["pid"].read_text())
        leader = os.getpgid(command)  # what the shell has started

        def stopped() -> bool:
            return state(command) == state(leader) == "T"

        seen = []
        shell.press(CTRL_Z)
        until(stopped)
        seen.append(shell.job())
        shell.say("fg")
        until(lambda: state(command) != "T" and state(leader) != "T")
        shell.say("one")
        names["ignores"].read_text()
        shell.press(CTRL_Z)
        time.sleep(0.5)
        seen.append(f"{state(command)}{state(leader)}".replace("R", "S"))
        shell.say("two")
        until(stopped)
        seen.append(shell.job())
        shell.say("bg")
        until(lambda: "tty input" in shell.job())
        seen.append(shell.job())
        shell.say("fg")
        until(lambda: state(command) != "T" and state(leader) != "T")
        shell.say("three")
        found = re.search(r"status=(\d+)", shell.answer("echo status=$?"))
        seen.append(found[0] if found else "")
        return [*seen, names["heard"].read_text()]
    finally:
        shell.close()


def test_job_is_stopped_and_continued_as_without_us(tmp_path: Path) -> None:
    without = session(tmp_path / "without", [])
    expected = ["Stopped", "SS", "Stopped (signal)", "Stopped (tty input)", "status=7", "one two three\n"]
    assert without == expected
    trace = tmp_path / "trace"
    assert session(tmp_path / "with", tracer("-o", trace, "--no-csv", "--")) == without
    # What it did after it was continued for the last time has been recorded.
    processes = analyse(trace).tables.processes
    assert processes["path"].str.endswith("/true").any()
    assert processes["exit_status"].tolist() == [7, 0]


def test_stop_before_the_command_has_begun(tmp_path: Path) -> None:
    """While BCC compiles, the tracer is a program like any other."""
    shell = Shell()
    try:
        shell.say(shlex.join([*tracer("-o", tmp_path / "trace", "--no-csv", "--"), "sh", "-c", "exit 5"]))
        time.sleep(0.5)
        shell.press(CTRL_Z)
        assert shell.job() == "Stopped"
        shell.say("fg")
        assert "status=5" in shell.answer("echo status=$?")
    finally:
        shell.close()


def test_command_stopped_alone_stops_the_tracer_and_goes_on_with_it(tmp_path: Path) -> None:
    process, command = started(tmp_path, "while :; do sleep 0.1; done")
    os.kill(command, signal.SIGSTOP)
    until(lambda: state(process.pid) == "T")
    process.send_signal(signal.SIGCONT)
    until(lambda: state(command) != "T")
    os.kill(command, signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, err
