# SPDX-License-Identifier: MIT
"""What panthor-trace says on standard error: never more important than the command it runs."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator


def printable(text: str) -> str:
    """``text`` with whatever would steer a terminal as an escape: control characters, bidirectional marks.

    Paths, labels and messages come from the traced processes, who must not reach the user's terminal by us.
    A byte that was no UTF-8 (a lone surrogate, as ``os.fsdecode`` has it) shows as ``\\xff``.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _escape(letter) for letter in text)


def _escape(letter: str) -> str:
    code = ord(letter)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return letter.encode("unicode_escape", "backslashreplace").decode("ascii")


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Write to standard error inside; where nobody can read it any more, that is all there is to it."""
    try:
        yield
        sys.stderr.flush()
    except OSError:
        # What is left in its buffer would fail again when the interpreter ends, and change the exit status.
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - for the rest of the process


def say(text: str) -> None:
    """One line to the user."""
    with unheard():
        sys.stderr.write(f"panthor-trace: {printable(text)}\n")


def occupy_standard_streams() -> None:
    """Where we were started with a standard stream closed: keep files of ours from taking its number.

    Libraries (libbcc, clang) write to descriptor 2 by itself. The command still finds the stream closed: what
    is opened here is close-on-exec.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115 - for the rest of the process
    # Where a locale has no letter for something ("→" in Latin-1): an escape, as on standard error.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
