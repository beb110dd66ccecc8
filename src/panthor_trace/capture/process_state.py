# SPDX-License-Identifier: MIT
"""What /proc and debugfs say of one process at its failure. What cannot be read is null, never 0."""

from __future__ import annotations

import contextlib
import os
import re
import resource
from collections.abc import Collection
from pathlib import Path
from typing import Any

from .proc import read_lines

_LIMITS = {
    "address_space": resource.RLIMIT_AS,
    "data": resource.RLIMIT_DATA,
    "descriptors": resource.RLIMIT_NOFILE,
    "locked": resource.RLIMIT_MEMLOCK,
}
_AMOUNT = re.compile(r"(\d+)(?: (kB|KiB|MiB))?$")
_UNITS = {None: 1, "kB": 1024, "KiB": 1024, "MiB": 1 << 20}
#: A listing of the driver's buffers may be long, and the process is held while it is read.
_GEMS_BYTES = 1 << 16


def _values(path: Path) -> dict[str, int | str] | None:
    """Lines "name: amount unit", amounts in bytes."""
    try:
        lines = read_lines(path)
    except OSError:
        return None
    found: dict[str, int | str] = {}
    for line in lines:
        name, _, text = line.partition(":")
        amount = _AMOUNT.match(text.strip())
        found[name] = int(amount[1]) * _UNITS[amount[2]] if amount else text.strip()
    return found


def rollup(pid: int) -> dict[str, int] | None:
    """Resident, proportional, swapped… bytes: /proc/PID/smaps_rollup by its own names."""
    found = _values(Path(f"/proc/{pid}/smaps_rollup"))
    # Its first line is of addresses. A process that is ending has an empty file.
    return {name: value for name, value in (found or {}).items() if isinstance(value, int)} or None


def limits(pid: int) -> dict[str, int | None] | None:
    """Soft limits; null: none."""
    try:
        soft = {name: resource.prlimit(pid, number)[0] for name, number in _LIMITS.items()}
    except OSError:
        return None
    return {name: None if value == resource.RLIM_INFINITY else value for name, value in soft.items()}


def descriptors(pid: int, devices: Collection[int]) -> tuple[int | None, list[dict[str, int | str]]]:
    """How many descriptors are open, and the DRM fdinfo of those of ``devices`` (os.makedev)."""
    directory = Path(f"/proc/{pid}/fd")
    try:
        numbers = [entry.name for entry in directory.iterdir()]
    except OSError:
        return None, []
    found = []
    for number in numbers:
        with contextlib.suppress(OSError):
            if os.stat(directory / number).st_rdev in devices:  # noqa: PTH116 - a link only the kernel follows
                info = _values(Path(f"/proc/{pid}/fdinfo/{number}")) or {}
                drm = {name: value for name, value in info.items() if name.startswith(("drm-", "panthor-"))}
                found.append({"fd": int(number), **drm})
    return len(numbers), found


def gems(debugfs: Path = Path("/sys/kernel/debug/dri")) -> str | None:
    """panthor's own listing of all buffers (6.16 and later), from its beginning."""
    for path in sorted(debugfs.glob("*/gems")):
        with contextlib.suppress(OSError), path.open(errors="replace") as file:
            return file.read(_GEMS_BYTES)
    return None


def process_state(pid: int, devices: Collection[int]) -> dict[str, Any]:
    """The members a snapshot of a failure has besides those of every snapshot."""
    count, drm = descriptors(pid, devices)
    return {
        "rollup": rollup(pid),
        "limits": limits(pid),
        "descriptors": count,
        "drm": drm,
        "gems": gems() if drm else None,
    }
