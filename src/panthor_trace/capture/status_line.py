# SPDX-License-Identifier: MIT
"""``--live``: a status line on the terminal that the command writes to as well.

Nobody can tell when the command will write next, so the line must be where it never writes: the bottom row
is taken out of the region that scrolls (DECSTBM), as apt does, and written with the cursor saved and put
back, in one write(2), into which the kernel lets nobody else's come. docs/live.md says what is not safe.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable

from ..trace.schema import RecordType
from .live import Figures

_SECONDS = 0.5
#: On fewer rows every row is wanted.
_LEAST_ROWS, _LEAST_COLUMNS = 6, 30
_SAVE, _BACK = "\0337", "\0338"
_ALL_ROWS = "\033[r"
_OWN_OPENING = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def _size(count: int) -> str:
    value, unit = float(count), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.3g} {_UNITS[unit]}"


def text(figures: Figures, seconds: float, columns: int) -> str:
    """The line, cut to what fits: the more important things come first."""
    about = "~" if figures.inexact else ""
    parts = [
        f"{seconds:.0f} s",
        f"GPU buffers {about}{_size(figures.bo_bytes)}",
        f"{figures.failures} failed",
        f"VA {about}{_size(figures.va_bytes)}",
        f"{about}{figures.dispatches} dispatches",
        f"heaps {about}{_size(figures.heap_bytes)}",
    ]
    while len(line := "  ".join(parts)) >= columns and len(parts) > 1:
        parts.pop()
    return line[: columns - 1]


class StatusLine:
    """The line. Once it is taken down it stays down."""

    def __init__(self, terminal: int) -> None:
        self.figures = Figures()
        self._terminal = terminal
        self._size = os.get_terminal_size(terminal)
        self._started = time.monotonic()
        self._next = 0.0
        self._up = False
        #: What did not go out of a sequence that has begun.
        self._rest = b""

    @classmethod
    def on(cls, descriptor: int) -> StatusLine | str:
        """A line on the terminal that ``descriptor`` is; or why there can be none there."""
        if os.environ.get("TERM", "dumb") == "dumb":
            return "the terminal cannot place text (TERM)"
        try:
            # An opening of our own: the command must not find its terminal non-blocking, and a terminal that
            # was stopped (Ctrl-S) must not stop the recording.
            terminal = os.open(f"/proc/self/fd/{descriptor}", _OWN_OPENING)
        except OSError as error:
            return f"the terminal cannot be opened: {error.strerror}"
        line = cls(terminal)
        if line._size.lines < _LEAST_ROWS or line._size.columns < _LEAST_COLUMNS:
            why = "the terminal is too small"
        elif not line._in_front():
            why = "panthor-trace runs in the background"
        else:
            rows = line._size.lines
            # A line feed first: the cursor may be in the bottom row, which it would not get out of.
            line._up = line._write(f"\n{_SAVE}\033[1;{rows - 1}r{_BACK}\033[1A")
            return line if line._up else "the terminal takes no output"
        os.close(terminal)
        return why

    def _in_front(self) -> bool:
        try:
            return os.tcgetpgrp(self._terminal) == os.getpgrp()
        except OSError:
            return False

    def look(self, fresh: Callable[[RecordType], list[bytes]], now: float) -> None:
        """Count what has arrived, and draw the line where it is time to.

        It goes away when the terminal has been resized, or is somebody else's now.
        """
        if not self._up:
            return
        self.figures.look(fresh)
        if now < self._next:
            return
        self._next = now + _SECONDS
        try:
            same = os.get_terminal_size(self._terminal) == self._size
        except OSError:
            same = False
        if not same or not self._in_front():
            self.take_down()
            return
        rows, columns = self._size.lines, self._size.columns
        line = text(self.figures, now - self._started, columns)
        self._write(f"{_SAVE}\033[{rows};1H\033[0;7m{line}\033[0m\033[K{_BACK}")

    def take_down(self) -> None:
        """Give the bottom row back, empty. Before a stop, and before anything else is said."""
        if not self._up:
            return
        self._up = False
        clear = f"{_SAVE}{_ALL_ROWS}\033[{self._size.lines};1H\033[2K{_BACK}"
        # A terminal that is stopped is waited for a little: a screen left without its last row is a nuisance.
        for _ in range(20):
            if self._write(clear):
                break
            time.sleep(0.01)
        os.close(self._terminal)

    def _write(self, sequence: str) -> bool:
        """Whether it is out. Half a sequence would take what the command says next for its rest: what is
        left of one goes first.
        """
        with contextlib.suppress(OSError):
            if self._rest:
                self._rest = self._rest[os.write(self._terminal, self._rest) :]
            if not self._rest:
                whole = sequence.encode()
                self._rest = whole[os.write(self._terminal, whole) :]
                return not self._rest
        return False
