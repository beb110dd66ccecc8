# SPDX-License-Identifier: MIT
"""``panthor-trace export DIR``: the tables of a recorded trace as files for other programs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import click

from . import examples

#: As in SQL: a column's name, for the engines make it one.
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _partitions(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    for value in values:
        key, _, content = value.partition("=")
        if not _KEY.fullmatch(key) or not content:
            raise click.BadParameter(f"{value!r} is not KEY=VALUE")
        if key == "trace" or key in dict(pairs):
            raise click.BadParameter(f"{key!r} is a column already")
        pairs.append((key, content))
    return tuple(pairs)


@click.command(
    epilog=examples(
        "panthor-trace export DIR",
        "panthor-trace export --format parquet DIR -o OUT",
        "panthor-trace export --format perfetto DIR      # for ui.perfetto.dev",
        "panthor-trace export --fleet LAKE --partition board=rock5b DIR1 DIR2",
    )
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "parquet", "perfetto"]),
    help="What to write (csv).",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Where to (default: DIRECTORY/csv, …/parquet, …/timeline.perfetto-trace).",
)
@click.option("--process", type=int, metavar="PID", help="Only of this process and its children.")
@click.option(
    "--fleet",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DATASET",
    help="Add the traces to this data set of many, as Parquet.",
)
@click.option(
    "--partition",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_partitions,
    help="With --fleet: a directory to put them below, board=rock5b for example.",
)
@click.option(
    "--table", "tables", multiple=True, metavar="NAME", help="With --fleet: only this one, and traces."
)
@click.option("-q", "--quiet", is_flag=True, help="Don't print the names of the files.")
@click.argument("directories", nargs=-1, required=True, metavar="DIRECTORY", type=click.Path(path_type=Path))
def export(
    form: str | None,
    output: Path | None,
    process: int | None,
    fleet: Path | None,
    partition: tuple[tuple[str, str], ...],
    tables: tuple[str, ...],
    quiet: bool,
    directories: tuple[Path, ...],
) -> None:
    """Write the tables of the trace in DIRECTORY, or its timeline, as files, and print their names.

    CSV goes into DIRECTORY/csv, if not told otherwise; with --fleet many traces become one data set.
    """
    if fleet is not None:
        if output is not None or process is not None:
            raise click.UsageError("--fleet takes whole traces, and writes nowhere else")
        if form not in (None, "parquet"):
            raise click.UsageError(f"--fleet is of Parquet, not --format {form}")
        _print(_to_fleet(fleet, partition, tables, directories), quiet)
        return
    if partition or tables:
        raise click.UsageError("--partition and --table are for --fleet")
    if len(directories) > 1:
        raise click.UsageError("one DIRECTORY at a time; several make a --fleet")
    _print(_to_files(form or "csv", output, process, directories[0]), quiet)


def _print(paths: Iterable[Path], quiet: bool) -> None:
    for path in paths:
        if not quiet:
            click.echo(os.fsencode(path))


def _to_files(form: str, output: Path | None, process: int | None, directory: Path) -> list[Path]:
    from ..analysis import analyse
    from ..export.optional import optional

    with optional():
        if form == "perfetto":
            from ..export.perfetto import export_perfetto

            analysis = analyse(directory, process)
            return export_perfetto(analysis, output or directory / "timeline.perfetto-trace")
        if form == "parquet":
            from ..export.parquet import export_parquet as write
        else:
            from ..export.csv import export_csv as write
    return write(analyse(directory, process).tables, output or directory / form)


def _to_fleet(
    dataset: Path,
    partitions: tuple[tuple[str, str], ...],
    tables: tuple[str, ...],
    directories: tuple[Path, ...],
) -> Iterable[Path]:
    from ..analysis import analyse
    from ..export.optional import optional
    from ..model import TABLE_NAMES

    with optional():
        from ..export.fleet import export_fleet, trace_name
    for table in tables:
        if table not in TABLE_NAMES:
            raise click.BadParameter(f"no such table: {table} (of {', '.join(TABLE_NAMES)})")
    for directory in directories:
        yield from export_fleet(analyse(directory), trace_name(directory), dataset, partitions, tables)
