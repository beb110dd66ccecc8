# SPDX-License-Identifier: MIT
"""Readable names of C++ exception types."""

from __future__ import annotations

import re

_PART = re.compile(r"(\d+)")


def type_name(mangled: str) -> str:
    """``N2vk22OutOfDeviceMemoryErrorE`` as ``vk::OutOfDeviceMemoryError``.

    Plain and nested names are understood (Itanium C++ ABI 5.1.2); anything else stays as it is.
    """
    rest = mangled.removeprefix("*")
    if rest.startswith("St"):
        prefix, rest = ["std"], rest[2:]
    else:
        prefix = []
        if rest.startswith("N") and rest.endswith("E"):
            rest = rest[1:-1]
            if rest.startswith("St"):
                prefix, rest = ["std"], rest[2:]
    parts = []
    while rest:
        match = _PART.match(rest)
        if not match:
            return mangled
        start, length = match.end(), int(match.group())
        if length == 0 or start + length > len(rest):
            return mangled
        parts.append(rest[start : start + length])
        rest = rest[start + length :]
    return "::".join(prefix + parts) if parts else mangled
