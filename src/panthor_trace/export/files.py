# SPDX-License-Identifier: MIT
"""Files for people: written whole or not at all, never through anybody's links."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ..errors import TraceError

if TYPE_CHECKING:  # who writes one file need not load it
    import pandas as pd

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of ``path`` once all is written: a link is replaced, not followed.

    Raises OSError.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        handle = os.open(partial, _NEW_FILE, 0o644)
        with os.fdopen(handle, "wb") as file:
            yield file
        partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


def write_output(path: Path, content: bytes) -> None:
    """Write what a user asked for by ``-o``. Raises TraceError where that fails.

    A device or a pipe would be replaced by a file: root has the right to, and would do it to /dev/null.
    """
    try:
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(path.stat().st_mode):
                raise TraceError(f"{path} is no regular file: without -o the output goes to standard output")
        with whole_file(path) as file:
            file.write(content)
    except OSError as error:
        raise TraceError(f"cannot write {path}: {error.strerror}") from None


def write_tables(
    tables: Iterable[tuple[str, pd.DataFrame]],
    directory: Path,
    kind: str,
    suffix: str,
    write: Callable[[str, pd.DataFrame, Path], None],
) -> list[Path]:
    """A file a table in ``directory``, by ``write(name, table, path)``. Raises TraceError where it fails."""
    written = []
    try:
        directory.mkdir(exist_ok=True)
        for name, table in tables:
            path = directory / f"{name}{suffix}"
            write(name, table, path)
            written.append(path)
    except OSError as error:
        raise TraceError(f"cannot write the {kind} files to {directory}: {error.strerror}") from None
    return written
