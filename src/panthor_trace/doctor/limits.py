# SPDX-License-Identifier: MIT
"""Checks of what a process's limits are read from: its memory cgroup, and how many mappings it may have."""

from __future__ import annotations

import os
from pathlib import Path

from ..capture.memory_cgroup import find_hierarchy, read_level
from ..capture.observer import max_map_count
from .check import Finding, State
from .machine import Machine, first_line

#: DEFAULT_MAX_MAP_COUNT (include/linux/mm.h).
_USUAL_MAPPINGS = 65530


def _controls_memory(controllers: Path) -> bool:
    return "memory" in (first_line(controllers) or "").split()


def memory_cgroup(_machine: Machine) -> Finding:
    """The memory cgroup we are in, which commands we start are in as well, with the tightest limit."""
    hierarchy = find_hierarchy()
    directory = hierarchy.directory(os.getpid()) if hierarchy else None
    if hierarchy is None or directory is None:
        return Finding(State.DEGRADED, "no cgroups are mounted", "memory-controller")
    levels = [read_level(hierarchy, level) for level in hierarchy.levels(directory)]
    version = 1 if hierarchy.controller else 2
    facts = {"version": version, "directory": str(directory), "levels": levels}
    # The root group of v2 has no files of its own: its memory is the machine's.
    if not levels and (version == 1 or not _controls_memory(hierarchy.mount / "cgroup.controllers")):
        return Finding(
            State.DEGRADED, f"v{version}, without the memory controller", "memory-controller", facts
        )
    limits = [level["max"] for level in levels if level["max"] is not None]
    limit = f"limit {min(limits) >> 20} MiB" if limits else "no limit"
    return Finding(State.OK, f"v{version}, {directory}: {limit}", facts=facts)


def mappings(_machine: Machine) -> Finding:
    """vm.max_map_count: a low one ends in errors that look like the GPU's."""
    count = max_map_count()
    if count is None:
        return Finding(State.UNKNOWN, "not to be read")
    facts = {"max_map_count": count}
    if count < _USUAL_MAPPINGS:
        return Finding(
            State.DEGRADED, f"vm.max_map_count is {count}, usual is {_USUAL_MAPPINGS}", "max-map-count", facts
        )
    return Finding(State.OK, f"{count} a process", facts=facts)
