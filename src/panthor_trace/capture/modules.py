# SPDX-License-Identifier: MIT
"""The files that traced processes map executable: what they are, where, and with which build id.

Read from /proc/PID/maps while a process lives. A file is known by its device and inode number, and reached
through /proc/PID/map_files: that works in another mount namespace, below another root, and for a file
that has been deleted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .elf import Elf, ElfError, Symbol
from .proc import read_lines, unescaped

#: Device (major << 20 | minor, as the kernel encodes it) and inode number.
FileKey = tuple[int, int]
#: Separate debug information, by build id (gdb's and elfutils' place for it).
DEBUG_DIRECTORY = Path("/usr/lib/debug/.build-id")


@dataclass(frozen=True)
class Region:
    """One executable mapping of a process."""

    pid: int
    start: int
    end: int
    offset: int
    file: FileKey
    path: str

    @property
    def link(self) -> Path:
        """The mapped file itself, whatever its path leads to from here. Ends with the mapping."""
        return Path(f"/proc/{self.pid}/map_files/{self.start:x}-{self.end:x}")


@dataclass
class Module:
    """A file that was mapped: its path as its process has it, and what its ELF headers say."""

    path: str
    build_id: str = ""
    soname: str = ""
    regions: list[Region] = field(default_factory=list)
    #: The file's headers, of when it was first seen.
    headers: Elf | None = None
    #: Where its functions are named. None: not tried yet; False: nowhere.
    symbols: Elf | bool | None = None

    @property
    def name(self) -> str:
        """What the linker knows it by."""
        return self.soname or Path(self.path).name

    def places(self) -> Iterator[Path]:
        """Where the file, or its debug information, can be opened; the best first."""
        if self.build_id:
            yield DEBUG_DIRECTORY / self.build_id[:2] / f"{self.build_id[2:]}.debug"
        for region in reversed(self.regions[-4:]):
            yield region.link
            yield Path(f"/proc/{region.pid}/root{self.path}")
        yield Path(self.path)

    def function_at(self, offset: int) -> Symbol | None:
        """The function at an offset of the file, from the first place that has symbols for it."""
        address = self.headers.address_of(offset) if self.headers else None
        if self.symbols is None:
            self.symbols = next(self._readable(), False)
        if address is None or not isinstance(self.symbols, Elf):
            return None
        return self.symbols.function_at_address(address)

    def _readable(self) -> Iterator[Elf]:
        for place in self.places():
            try:
                elf = Elf(place)
            except ElfError:
                continue
            # A path may lead to another file by now, or from here.
            if elf.build_id == self.build_id and elf.has_symbols:
                yield elf


def read_regions(pid: int) -> list[Region]:
    """Executable file mappings of a process; empty where it is gone."""
    regions = []
    try:
        lines = read_lines(Path(f"/proc/{pid}/maps"))
    except OSError:
        return []
    for line in lines:
        span, rights, offset, device, inode, *path = line.split(None, 5)
        if "x" not in rights or inode == "0":
            continue
        start, end = (int(part, 16) for part in span.split("-"))
        major, minor = (int(part, 16) for part in device.split(":"))
        key = (major << 20 | minor, int(inode))
        regions.append(Region(pid, start, end, int(offset, 16), key, unescaped(path[0]) if path else ""))
    return regions


class Modules:
    """All modules seen, with the regions of each process; every new region goes to ``modules.jsonl``."""

    def __init__(self, append: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._append = append
        self.files: dict[FileKey, Module] = {}
        self.by_build_id: dict[str, Module] = {}
        self._regions: dict[int, dict[int, Region]] = {}

    def read(self, pid: int, now_ns: int) -> list[tuple[Region, Module]]:
        """Look at a process again; what it has mapped since the last time."""
        known = self._regions.setdefault(pid, {})
        found = []
        for region in read_regions(pid):
            if known.get(region.start) == region:
                continue
            known[region.start] = region
            module = self._module(region)
            module.regions.append(region)
            found.append((region, module))
            self._append(
                "modules.jsonl",
                {
                    "pid": pid,
                    "seen_ns": now_ns,
                    "start": region.start,
                    "end": region.end,
                    "offset": region.offset,
                    "device": region.file[0],
                    "inode": region.file[1],
                    "path": region.path,
                    "soname": module.soname,
                    "build_id": module.build_id,
                },
            )
        return found

    def _module(self, region: Region) -> Module:
        module = self.files.get(region.file)
        if module is None:
            module = Module(region.path)
            for place in (region.link, Path(f"/proc/{region.pid}/root{region.path}")):
                try:
                    elf = Elf(place)
                except ElfError:
                    continue
                module.headers, module.build_id, module.soname = elf, elf.build_id, elf.soname
                break
            self.files[region.file] = module
            if module.build_id:
                self.by_build_id.setdefault(module.build_id, module)
        return module

    def at(self, pid: int, address: int) -> tuple[Module, int] | None:
        """The module an address of a process lies in, and the offset in its file."""
        for region in self._regions.get(pid, {}).values():
            if region.start <= address < region.end:
                return self.files[region.file], address - region.start + region.offset
        return None


def identity(path: Path) -> tuple[int, int] | None:
    """What two names of one file have in common; None where there is no such file."""
    try:
        found = os.stat(path)  # noqa: PTH116 - follows the links of /proc that Path cannot resolve
    except OSError:
        return None
    return found.st_dev, found.st_ino
