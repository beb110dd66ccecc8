# SPDX-License-Identifier: MIT
"""One module a subcommand: options in, calls out, no logic of its own."""

from __future__ import annotations


def examples(*lines: str) -> str:
    """The end of a command's ``--help``: command lines as they are typed. A test parses each of them."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
