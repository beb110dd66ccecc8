# SPDX-License-Identifier: MIT
"""``panthor-trace export DIR``: the tables of a recorded trace as CSV."""

from __future__ import annotations

import os
from pathlib import Path

import click


@click.command()
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where to (default: DIRECTORY/csv).")
@click.option("--process", type=int, metavar="PID", help="Only of this process and its children.")
@click.argument("directory", type=click.Path(path_type=Path))
def export(output: Path | None, process: int | None, directory: Path) -> None:
    """Write all tables of the trace in DIRECTORY as CSV files."""
    from ..analysis import analyse
    from ..export.csv import export_csv

    for path in export_csv(analyse(directory, process).tables, output or directory / "csv"):
        click.echo(os.fsencode(path))
