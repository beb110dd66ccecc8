# SPDX-License-Identifier: MIT
"""``--live`` on a real terminal: the command's output is what it is without us, and the row comes back."""

from __future__ import annotations

import os
import pty
import re
import select
import termios
import time
from pathlib import Path

import pyte
import pytest

from .tracing import environment, tracer

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="loading BPF programs needs root")

ROWS, COLUMNS = 24, 80
SCRIPT = """
i=0; while [ $i -lt 40 ]; do echo "line $i"; i=$((i+1)); done
printf begun; sleep 1.5; printf ' and done\\n' >&2; stty size; exit 3
"""


def run(*command: str | Path) -> tuple[int, list[list[str]], str]:
    """Exit status, what the terminal showed from time to time, and all that was written to it."""
    pid, master = pty.fork()
    if pid == 0:
        time.sleep(0.2)  # until the terminal has its size
        os.execvpe(str(command[0]), [str(word) for word in command], environment(TERM="xterm"))
    termios.tcsetwinsize(master, (ROWS, COLUMNS))
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    screens, written = [], b""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if select.select([master], [], [], 0.1)[0]:
            try:
                part = os.read(master, 65536)
            except OSError:  # everybody has closed it
                break
            stream.feed(part)
            written += part
        screens.append([line.rstrip() for line in screen.display])
    os.close(master)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), screens, written.decode()


def test_the_line_is_there_and_nothing_else_changes(tmp_path: Path) -> None:
    status, screens, written = run(
        *tracer("-o", tmp_path / "trace", "--no-csv", "--live", "--", "sh", "-c", SCRIPT)
    )
    assert status == 3
    running = [
        screen for screen in screens if screen[-1].startswith(("1 s  GPU buffers", "2 s  GPU buffers"))
    ]
    assert running, screens[-1]
    assert any(screen[-3:-1] == ["line 39", "begun"] for screen in running), running[-1]
    # What we write goes from saving the cursor to putting it back; the rest is the command's, in one piece.
    said = re.sub(r"\0337.*?\0338", "", written, flags=re.DOTALL)
    assert f"line 39\r\nbegun and done\r\n{ROWS} {COLUMNS}\r\n" in said
    assert "GPU buffers" not in said
    assert not any(line.startswith("2 s  GPU buffers") for line in screens[-1])
    assert written.count("\033[r") == 1


def test_off_without_a_terminal(tmp_path: Path) -> None:
    from .tracing import trace

    done = trace(
        tmp_path / "trace", "--no-csv", "--live", "--", "sh", "-c", "echo out; sleep 0.7; echo err >&2"
    )
    assert done.returncode == 0
    assert done.stdout == "out\n"
    assert "\033" not in done.stderr
    assert "live view" not in done.stderr
