# SPDX-License-Identifier: MIT
"""Writes a trace directory. It only ever appends: whatever ends the recording, the trace can be read.

Needs neither NumPy nor pandas, so that a recorder in a small guest stays small. Record layouts are known
here by their size alone, as the ring delivers them.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import EXIT_OUTPUT, TraceError
from .schema import BLOCK_MAGIC

_BLOCK = struct.Struct("<4sIII")
_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND | os.O_CLOEXEC
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class TraceWriter:
    """A new trace directory, held by a handle: later changes of its path do not matter.

    ``create`` makes the directory with the rights in force at that moment (the caller takes on the invoking
    user's), so a user can never have a directory made where that user could not make one.
    """

    def __init__(self, path: str, place: tuple[int, str], handle: int, owner: tuple[int, int]) -> None:
        self.path = path
        #: The directory it was made in, and its name there.
        self._parent, self._name = place
        self._directory = handle
        self._owner = owner
        self._events: int | None = None
        self._lines: dict[str, int] = {}
        #: Names of the files that were made.
        self._made: list[str] = []

    @classmethod
    def create(cls, path: str, owner: tuple[int, int]) -> TraceWriter:
        """Create directory ``path``; raise TraceError where it exists or cannot be made."""
        above, name = os.path.split(path.rstrip("/"))
        try:
            parent = os.open(above or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.mkdir(name or ".", 0o755, dir_fd=parent)
                handle = os.open(name, _DIRECTORY_FLAGS, dir_fd=parent)
            except OSError:
                os.close(parent)
                raise
        except FileExistsError:
            raise TraceError(
                f"{path} exists and a trace is never overwritten: choose another directory with -o",
                EXIT_OUTPUT,
            ) from None
        except OSError as error:
            raise TraceError(
                f"cannot create the trace directory {path}: {error.strerror}; choose another with -o",
                EXIT_OUTPUT,
            ) from None
        return cls(path, (parent, name), handle, owner)

    def _open(self, name: str) -> int:
        handle = os.open(name, _FILE_FLAGS, 0o644, dir_fd=self._directory)
        self._made.append(name)
        if os.geteuid() == 0:
            # Some file systems (9p, NFS with squashed root, FAT) let nobody give files away.
            with contextlib.suppress(PermissionError):
                os.fchown(handle, *self._owner)
        return handle

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a new file ``name`` of the directory. Raises OSError."""
        handle = self._open(name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.write("\n")

    def write_block(self, kind: int, size: int, records: Iterable[bytes], count: int) -> None:
        """Append ``count`` records of ``size`` bytes. Raises OSError; a block is cut short, never torn apart.

        A reader takes the whole records of a last, incomplete block, and nothing is appended behind one.
        """
        if self._events is None:
            self._events = self._open("events.bin")
        block = _BLOCK.pack(BLOCK_MAGIC, kind, size, count) + b"".join(records)
        written = 0
        while written < len(block):
            written += os.write(self._events, block[written:])

    def append_line(self, name: str, content: Mapping[str, Any]) -> None:
        """Append a line of JSON to the side table ``name``. Raises OSError; it may then be cut short."""
        if name not in self._lines:
            self._lines[name] = self._open(name)
        line = json.dumps(content, separators=(",", ":")).encode() + b"\n"
        if os.write(self._lines[name], line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Close the files; the directory stays."""
        for handle in self._lines.values():
            os.close(handle)
        self._lines.clear()
        if self._events is not None:
            os.close(self._events)
            self._events = None
        os.close(self._directory)
        os.close(self._parent)

    def discard(self) -> None:
        """Remove what we put there, and the directory where it is empty then: the command never ran.

        By handles: the path may lead anywhere by now, and we are root.
        """
        for name in self._made:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self._directory)
        with contextlib.suppress(OSError):  # renamed, or not empty: somebody else's files are in it
            there = os.stat(self._name, dir_fd=self._parent, follow_symlinks=False)
            if os.path.samestat(there, os.fstat(self._directory)):
                os.rmdir(self._name, dir_fd=self._parent)
        self.close()
