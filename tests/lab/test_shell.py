# SPDX-License-Identifier: MIT
"""The interactive shell, on a terminal of its own."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "scripts"


def test_shell_is_interactive_and_its_status_comes_back() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["PYTHONPATH"] = str(SCRIPTS)
        words = ["-c", "from board.cli import main; main()", "shell", "--user", "--timeout", "120"]
        os.execv(sys.executable, [sys.executable, *words])
    try:
        seen = _read_until(terminal, b"$ ")
        # Split, so that the echo of what was typed does not match.
        os.write(terminal, b"tty && echo answer=$((6*7)) && id -un && exit 3\n")
        seen = _read_until(terminal, b"user\r\n")
        assert b"answer=42" in seen
        assert b"/dev/hvc0" in seen
    finally:
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 3


def _read_until(terminal: int, wanted: bytes) -> bytes:
    seen, deadline = b"", time.monotonic() + 120
    while wanted not in seen:
        ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"no {wanted!r} in {seen!r}"
        seen += os.read(terminal, 4096)
    return seen
