# SPDX-License-Identifier: MIT
"""All tables as CSV, one file a table."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TextIO

import pandas as pd

from ..model import Tables
from .files import whole_file, write_tables


class _Rows:
    """Where rows go. A carriage return in a name shows as ``\\r``: csv puts no quotes round it before
    Python 3.13, and every reader would begin a new row there.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write whole rows."""
        return self._file.write(text.replace("\r", "\\r"))


def export_csv(tables: Tables, directory: Path) -> list[Path]:
    """Write ``<table>.csv`` of every table into ``directory``. Raises TraceError where that fails."""
    return write_tables(tables, directory, "CSV", ".csv", lambda _, table, path: _write(table, path))


def _write(table: pd.DataFrame, path: Path) -> None:
    """Write one table. Raises OSError. A path that was no UTF-8 has its bytes as ``\\xff``."""
    with whole_file(path) as binary:
        file = io.TextIOWrapper(binary, encoding="utf-8", errors="backslashreplace", newline="")
        table.to_csv(_Rows(file), index=False)  # type: ignore[call-overload]
        file.flush()
        file.detach()
