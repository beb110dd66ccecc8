# SPDX-License-Identifier: MIT
"""Text files of /proc and /sys as the kernel writes them."""

from __future__ import annotations

import os
import re
from pathlib import Path

_OCTAL = re.compile(r"\\([0-7]{3})")


def read_lines(path: Path) -> list[str]:
    """The lines of a file of the kernel's. Raises OSError.

    Only a newline ends a line: the kernel escapes that one in names, but not the carriage returns, form feeds
    and others at which ``str.splitlines`` cuts, and anybody can give a file such a name. Bytes that are no
    text come back as ``os.fsdecode`` has them, fit to open the file by.
    """
    text = os.fsdecode(path.read_bytes())
    return text.removesuffix("\n").split("\n") if text else []


def unescaped(name: str) -> str:
    """A name as it is, from a file where space, tab, newline and backslash are octal (fs/seq_file.c)."""
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), name)
