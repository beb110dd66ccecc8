# SPDX-License-Identifier: MIT
"""The memory cgroup of a process, in both of the kernel's hierarchies, with every limit above it.

A limit of any ancestor holds as well, so a process's own group is read and all groups above it. Files and
their meaning: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .proc import read_lines, unescaped

#: cgroup v1 writes "no limit" as the largest page-aligned long.
_UNLIMITED_V1 = 1 << 62


@dataclass(frozen=True)
class Hierarchy:
    """Where memory cgroups are mounted, and what its files are called."""

    mount: Path
    #: The directory of the hierarchy that is seen at ``mount``.
    root: str
    #: The line of /proc/PID/cgroup that speaks of it: "" for v2.
    controller: str
    files: tuple[tuple[str, str], ...]

    def directory(self, pid: int, proc: Path = Path("/proc")) -> Path | None:
        """The group of ``pid`` now; None when the process is gone or its group lies outside the mount."""
        try:
            lines = read_lines(proc / str(pid) / "cgroup")
        except OSError:
            return None
        for line in lines:
            _, controllers, path = line.split(":", 2)
            if self.controller in controllers.split(",") and ("/.." not in path):
                # A dead process's group may have been removed.
                relative = os.path.relpath(path.removesuffix(" (deleted)"), self.root)
                return None if relative.startswith("..") else self.mount / relative
        return None

    def levels(self, directory: Path) -> Iterator[Path]:
        """The group and those above it that have memory files."""
        while True:
            if (directory / self.files[0][1]).is_file():
                yield directory
            if directory == self.mount or self.mount not in directory.parents:
                return
            directory = directory.parent


_V2 = (("current", "memory.current"), ("max", "memory.max"), ("peak", "memory.peak"))
_V1 = (
    ("current", "memory.usage_in_bytes"),
    ("max", "memory.limit_in_bytes"),
    ("peak", "memory.max_usage_in_bytes"),
)


def find_hierarchy(mountinfo: Path = Path("/proc/self/mountinfo")) -> Hierarchy | None:
    """The hierarchy whose memory controller is in use; None where there is none."""
    unified = legacy = None
    for line in read_lines(mountinfo):
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        root, mount = map(unescaped, left.split(" ")[3:5])
        if kind == "cgroup2" and unified is None:
            unified = Hierarchy(Path(mount), root, "", _V2)
        elif kind == "cgroup" and "memory" in options.split(","):
            legacy = Hierarchy(Path(mount), root, "memory", _V1)
    return legacy or unified  # a controller is in one hierarchy only


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None  # memory.peak came with 5.19; the root group has no limit
    return int(text) if text.isdecimal() and int(text) < _UNLIMITED_V1 else None


def _events(directory: Path) -> dict[str, int]:
    """How often the limit was met, and processes killed for it: v2's names for both hierarchies."""
    found = {}
    for name in ("memory.events", "memory.oom_control"):
        try:
            pairs = [line.split() for line in read_lines(directory / name)]
        except OSError:
            continue
        found.update({key: int(value) for key, value in pairs if key in ("max", "oom", "oom_kill")})
    failures = _number(directory / "memory.failcnt")
    return found if failures is None else {**found, "max": failures}


def read_level(hierarchy: Hierarchy, directory: Path) -> dict[str, Any]:
    """``directory``, ``current``, ``max``, ``peak`` in bytes (null: unknown or no limit), ``events``."""
    sizes = {name: _number(directory / file) for name, file in hierarchy.files}
    return {"directory": str(directory), **sizes, "events": _events(directory)}
