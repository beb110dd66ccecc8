# SPDX-License-Identifier: MIT
"""The shared libraries a command would load, as real paths to put probes on.

Looked up as the dynamic linker does (ld.so(8)): LD_LIBRARY_PATH, the configured directories, the default
ones; below another root when the command runs in one.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from .proc import read_lines

VULKAN = "libvulkan.so.1"
CXX = "libstdc++.so.6"
#: LLVM's C++ runtime, of programs built with clang's libc++; same __cxa_throw (Itanium C++ ABI).
LIBCXX = "libc++abi.so.1"

#: The libraries that are probed, by their SONAME, for each layer; the first one is the usual one.
PROBED: Mapping[str, tuple[str, ...]] = MappingProxyType({"vulkan": (VULKAN,), "exception": (CXX, LIBCXX)})

#: ELF e_machine (elf.h) by ``uname -m``.
MACHINES = {"x86_64": 62, "aarch64": 183}
_DEFAULT_PATTERNS = (
    "usr/local/lib/*-linux-gnu",
    "usr/local/lib",
    "lib/*-linux-gnu",
    "usr/lib/*-linux-gnu",
    "lib64",
    "usr/lib64",
    "lib",
    "usr/lib",
)
_MAX_LINKS = 40


def _inside(root: Path, path: Path) -> Path:
    """``path`` (absolute as seen inside ``root``) below ``root``."""
    return root / path.relative_to("/") if path.is_absolute() else root / path


def resolve(root: Path, path: Path) -> Path | None:
    """``path`` inside ``root`` with its links followed, absolute ones within ``root``; None if dangling."""
    for _ in range(_MAX_LINKS):
        outside = _inside(root, path)
        if not outside.is_symlink():
            return outside if outside.is_file() else None
        path = path.parent / outside.readlink()
    return None


def _configured(root: Path, file: Path) -> Iterator[Path]:
    """Directories named by an ld.so.conf, with its includes."""
    try:
        lines = read_lines(_inside(root, file))
    except OSError:
        return
    for line in lines:
        words = line.split("#")[0].split()
        if len(words) == 2 and words[0] == "include":
            pattern = words[1] if words[1].startswith("/") else f"{file.parent}/{words[1]}"
            for included in sorted(root.glob(pattern.lstrip("/"))):
                yield from _configured(root, Path("/") / included.relative_to(root))
        elif words:
            yield Path(words[0])


def _directories(root: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    for entry in environment.get("LD_LIBRARY_PATH", "").split(":"):
        if entry:
            yield Path(entry)
    yield from _configured(root, Path("/etc/ld.so.conf"))
    for pattern in _DEFAULT_PATTERNS:
        for directory in sorted(root.glob(pattern)):
            yield Path("/") / directory.relative_to(root)


def fits(path: Path) -> bool:
    """Whether this is a 64-bit ELF file of this machine."""
    try:
        with path.open("rb") as file:
            head = file.read(20)
    except OSError:
        return False
    if len(head) < 20 or head[:5] != b"\x7fELF\x02":
        return False
    machine: int = struct.unpack_from("<H", head, 18)[0]
    return machine == MACHINES.get(platform.machine())


def find_library(name: str, root: Path, environment: Mapping[str, str]) -> Path | None:
    """The file the linker would load for ``name`` inside ``root``, or None."""
    for directory in _directories(root, environment):
        found = resolve(root, directory / name)
        if found and fits(found):
            return found
    return None


def layer_of(soname: str, path: str) -> str | None:
    """The layer whose probes belong on a library, by its SONAME or else by its file's name."""
    name = soname or Path(path).name
    for layer, sonames in PROBED.items():
        # A development build may carry another version; libvulkan_<driver>.so is not the loader.
        if any(name.startswith(known.rsplit(".", 1)[0]) for known in sonames):
            return layer
    return None
