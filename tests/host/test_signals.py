# SPDX-License-Identifier: MIT
"""A terminal's and other processes' signals reach the command as without us, once each."""

from __future__ import annotations

import os
import pty
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from panthor_trace.trace.reader import read_trace

from .tracing import environment, started, tracer

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="loading BPF programs needs root")


def until(what: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for something to be so."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def on_a_terminal(tmp_path: Path, traps: str, script: str) -> tuple[int, int, int]:
    """A traced shell that has set its traps, the foreground job of a terminal: tracer, terminal, command."""
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    pid, terminal = pty.fork()
    if pid == 0:
        arguments = [
            "-o",
            tmp_path / "trace",
            "--no-csv",
            "--",
            "sh",
            "-c",
            f"{traps}; echo $$ > {ready}; {script}",
        ]
        os.execvpe(tracer()[0], tracer(*arguments), environment())
    return pid, terminal, int(ready.read_text())


def end_of(pid: int, terminal: int) -> tuple[int, str]:
    """The tracer's exit status and what was said on the terminal."""
    said = b""
    try:
        while part := os.read(terminal, 4096):
            said += part
    except OSError:  # the terminal's other end is gone
        pass
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said.decode(errors="replace")


def test_second_ctrl_c_reaches_the_command_too(tmp_path: Path) -> None:
    log = tmp_path / "log"
    traps = f"trap 'echo x >> {log}' INT"
    script = "n=0; while [ $n -lt 200 ]; do sleep 0.1; n=$((n+1)); " + (
        f"[ -e {log} ] && [ $(wc -l < {log}) -ge 2 ] && exit 5; done"
    )
    tracer_pid, terminal, _ = on_a_terminal(tmp_path, traps, script)
    for presses in (1, 2):
        os.write(terminal, b"\x03")
        until(lambda presses=presses: log.exists() and len(log.read_text()) == 2 * presses)  # type: ignore[misc]
    status, said = end_of(tracer_pid, terminal)
    assert status == 5
    assert "kernel cap:" in said
    assert log.read_text() == "x\nx\n"


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1])
def test_signal_sent_to_the_tracer_ends_the_command_that_does_not_catch_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    process, _ = started(tmp_path, "exec sleep 30")
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    end = read_trace(tmp_path / "trace").end
    assert end is not None
    assert end["exit_code"] == 128 + number
