# SPDX-License-Identifier: MIT
"""What is said reaches a terminal as text only, and where it cannot be said nothing comes of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panthor_trace.speech import printable

SOURCE = Path(__file__).parents[2] / "src"


@pytest.mark.parametrize(
    ("given_text", "shown"),
    [
        ("vkQueueSubmit → ok, 1 MiB", "vkQueueSubmit → ok, 1 MiB"),
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("a\nb\rc\td", "a\\nb\\rc\\td"),
        ("\x9b2J", "\\x9b2J"),
        ("\u202eevil\u2066", "\\u202eevil\\u2066"),
        ("caf\udcc3\udca9", "caf\\xc3\\xa9"),
        ("\ud800", "\\ud800"),
        ("größe", "größe"),
    ],
)
def test_printable(given_text: str, shown: str) -> None:
    assert printable(given_text) == shown


@given(st.text())
def test_whatever_it_was_it_can_be_printed(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    shown.encode()
    assert printable(shown) == shown


@pytest.mark.parametrize("closing", ["2>&-", "2>/dev/full", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_lost_standard_error_does_not_change_the_status(closing: str) -> None:
    """Python itself ends with 120 where something is left in the buffer of standard error."""
    program = (
        "import sys; from panthor_trace.speech import *; occupy_standard_streams(); "
        "[say('word') for _ in range(3)]; sys.exit(7)"
    )
    line = f'"$0" -c "$1" {closing}'
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    assert subprocess.run(["sh", "-c", line, sys.executable, program], env=env, check=False).returncode == 7


def test_a_locale_without_the_letter_gets_an_escape() -> None:
    program = "from panthor_trace.speech import *; occupy_standard_streams(); print('größe → \\udcff')"
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, check=True)
    assert done.stdout == "größe \\u2192 \\udcff\n".encode("latin-1")
