# SPDX-License-Identifier: MIT
"""Checks of user space: the libraries that are probed, and whether panvk is what the loader would offer."""

from __future__ import annotations

from pathlib import Path

from ..capture.icds import Icd, icds
from ..capture.libraries import PROBED, find_library
from .check import Finding, State
from .machine import Machine

_REMEDIES = {"vulkan": "vulkan-loader", "exception": "libstdc++"}
_VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_LOADER_DRIVERS_SELECT", "VK_LOADER_DRIVERS_DISABLE")


def library(machine: Machine, layer: str) -> Finding:
    """The library that a layer's probes go on, as the linker would find it."""
    for name in PROBED[layer]:
        path = find_library(name, Path("/"), machine.environment)
        if path:
            return Finding(State.OK, str(path))
    names = " or ".join(PROBED[layer])
    return Finding(State.DEGRADED, f"{names} is not installed", _REMEDIES[layer])


def _facts(found: list[Icd]) -> dict[str, object]:
    rows = [
        {
            "manifest": str(icd.manifest),
            "library": str(icd.library or icd.library_path),
            "loadable": icd.library is not None,
            "panvk": icd.panvk,
            "mesa": icd.version or None,
        }
        for icd in found
    ]
    return {"icds": rows}


def icd(machine: Machine) -> Finding:
    """panvk among the drivers the loader finds for a command of this user."""
    found = icds(machine.environment)
    facts = _facts(found)
    panvk = [icd for icd in found if icd.panvk]
    others = [icd.manifest.name for icd in found if icd.library and not icd.panvk]
    if panvk:
        first = panvk[0]
        text = f"panvk{f' of Mesa {first.version}' if first.version else ''}, {first.manifest}"
        beside = f"; beside it {', '.join(others)}" if others else ""
        return Finding(State.OK, text + beside, facts=facts)
    named = [variable for variable in _VARIABLES if machine.environment.get(variable)]
    if named:
        without_them = {name: value for name, value in machine.environment.items() if name not in _VARIABLES}
        if any(icd.panvk for icd in icds(without_them)):
            return Finding(
                State.MISSING, f"{named[0]} keeps the loader from panvk", "icd-variable",
                {**facts, "variable": named[0]},
            )  # fmt: skip
    broken = [icd for icd in found if icd.library is None and "panfrost" in icd.library_path]
    if broken:
        text = f"{broken[0].manifest} names {broken[0].library_path}, which cannot be loaded"
        return Finding(State.MISSING, text, "icd-library", facts)
    text = f"no panvk, but {', '.join(others)}" if others else "no Vulkan driver is installed"
    return Finding(State.MISSING, text, "panvk", facts)
