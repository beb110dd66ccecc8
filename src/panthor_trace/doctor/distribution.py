# SPDX-License-Identifier: MIT
"""Which distribution this is, as far as names of packages go (os-release(5))."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..capture.proc import read_lines

#: Distributions with remedies of their own. Others are taken for one of them by their ID_LIKE.
DISTRIBUTIONS = ("debian", "ubuntu", "armbian", "fedora", "arch")
#: Names other than their own under which they are found.
_ALSO = {"archarm": "arch"}
_OS_RELEASE = ("etc/os-release", "usr/lib/os-release")
#: Armbian's images say "debian" or "ubuntu" in os-release; this file is theirs alone.
_ARMBIAN = "etc/armbian-release"


def os_release(root: Path = Path("/")) -> dict[str, str]:
    """The variables of os-release; empty where there is none."""
    for place in _OS_RELEASE:
        try:
            lines = read_lines(root / place)
        except OSError:
            continue
        pairs = (line.partition("=") for line in lines if not line.startswith("#"))
        return {name: value.strip().strip("\"'") for name, _, value in pairs if value}
    return {}


def distribution(variables: Mapping[str, str], root: Path = Path("/")) -> str | None:
    """One of DISTRIBUTIONS, or None for another."""
    if (root / _ARMBIAN).is_file():
        return "armbian"
    for name in [variables.get("ID", ""), *variables.get("ID_LIKE", "").split()]:
        known = _ALSO.get(name, name)
        if known in DISTRIBUTIONS:
            return known
    return None
