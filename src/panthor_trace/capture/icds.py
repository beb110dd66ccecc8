# SPDX-License-Identifier: MIT
"""The Vulkan drivers the loader would offer a program, and whether panvk is one of them.

Rules: LoaderDriverInterface.md of Vulkan-Loader ("Driver Discovery on Linux", "Driver Filtering"), compared
with the loader's own log by a test. The loader gives a program all drivers it finds; which device it then
takes is the program's choice.
"""

from __future__ import annotations

import fnmatch
import json
import mmap
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .libraries import find_library, fits

#: What panvk calls itself in VkPhysicalDeviceDriverProperties, as the string stands in its library.
_PANVK = b"\0panvk\0"
_MESA = re.compile(rb"\0Mesa (\d[\w.~+-]*)")
#: In the order of the loader; of each, the variable and what stands for it when it is not set.
_PLACES = (
    ("XDG_CONFIG_HOME", "{home}/.config"),
    ("XDG_CONFIG_DIRS", "/etc/xdg"),
    ("", "/etc"),
    ("XDG_DATA_HOME", "{home}/.local/share"),
    ("XDG_DATA_DIRS", "/usr/local/share:/usr/share"),
)


@dataclass(frozen=True)
class Icd:
    """A driver's manifest, and the library it names; ``library`` is None where that cannot be loaded here."""

    manifest: Path
    library_path: str
    library: Path | None
    panvk: bool = False
    #: Of Mesa; empty where the library is not Mesa's.
    version: str = ""


def _listed(value: str) -> Iterator[Path]:
    """Manifests of a list of files and directories."""
    for entry in filter(None, value.split(":")):
        path = Path(entry)
        try:
            yield from sorted(path.glob("*.json")) if path.is_dir() else [path]
        except PermissionError:  # below another user's home
            continue


def _manifests(environment: Mapping[str, str]) -> Iterator[Path]:
    yield from _listed(environment.get("VK_ADD_DRIVER_FILES", ""))
    forced = environment.get("VK_DRIVER_FILES") or environment.get("VK_ICD_FILENAMES")
    if forced:
        yield from _listed(forced)
        return
    home = environment.get("HOME", "")
    for variable, otherwise in _PLACES:
        value = environment.get(variable) or (
            otherwise.format(home=home) if home or "{" not in otherwise else ""
        )
        for directory in filter(None, value.split(":")):
            yield from _listed(f"{directory}/vulkan/icd.d")


def _wanted(manifest: Path, environment: Mapping[str, str]) -> bool:
    """VK_LOADER_DRIVERS_SELECT and _DISABLE: globs on the manifest's name, whatever its case."""

    def matches(variable: str) -> bool:
        name = manifest.name.lower()
        globs = environment.get(variable, "").lower().split(",")
        return any(fnmatch.fnmatchcase(name, glob) for glob in globs if glob)

    if environment.get("VK_LOADER_DRIVERS_SELECT"):
        return matches("VK_LOADER_DRIVERS_SELECT")
    return not matches("VK_LOADER_DRIVERS_DISABLE")


def _library(manifest: Path, named: str, environment: Mapping[str, str]) -> Path | None:
    if "/" not in named:
        return find_library(named, Path("/"), environment)
    path = manifest.parent / named  # an absolute one stays as it is
    return path if path.is_file() and fits(path) else None


def _about(library: Path) -> tuple[bool, str]:
    """Whether it is panvk, and its version of Mesa."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        version = _MESA.search(content)
        return content.find(_PANVK) >= 0, version[1].decode() if version else ""


def icds(environment: Mapping[str, str]) -> list[Icd]:
    """Every driver the loader would find for a program with this environment, in its order."""
    found: dict[Path, Icd] = {}
    for manifest in _manifests(environment):
        if manifest in found or not _wanted(manifest, environment):
            continue
        try:
            content = json.loads(manifest.read_bytes())["ICD"]
            named = str(content["library_path"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if str(content.get("library_arch", "64")) != "64":
            continue
        library = _library(manifest, named, environment)
        try:
            facts = _about(library) if library else (False, "")
        except (OSError, ValueError):
            library, facts = None, (False, "")
        found[manifest] = Icd(manifest, named, library, *facts)
    return list(found.values())
