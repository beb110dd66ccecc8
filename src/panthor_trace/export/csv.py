# SPDX-License-Identifier: MIT
"""All tables as CSV, one file a table."""

from __future__ import annotations

from pathlib import Path

from ..errors import TraceError
from ..model import Tables


def export_csv(tables: Tables, directory: Path) -> list[Path]:
    """Write ``<table>.csv`` of every table into ``directory``. Raises TraceError where that fails."""
    written = []
    try:
        directory.mkdir(exist_ok=True)
        for name, table in tables:
            path = directory / f"{name}.csv"
            table.to_csv(path, index=False)
            written.append(path)
    except OSError as error:
        raise TraceError(f"cannot write the CSV files to {directory}: {error.strerror}") from None
    return written
