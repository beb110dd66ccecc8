# SPDX-License-Identifier: MIT
"""``panthor-trace report DIR``: the verdict on a recorded trace. Needs neither root nor bcc."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click


@click.command()
@click.option("--json", "as_json", is_flag=True, help="The verdict as JSON.")
@click.option("-v", "--verbose", is_flag=True, help="Also every failure with its user stack.")
@click.option("--exit-verdict", is_flag=True, help="Exit with 0, 10, 11, 12 or 13 by the verdict.")
@click.option("--process", type=int, metavar="PID", help="Judge only this process and its children.")
@click.option("--exit-status", type=int, metavar="N", help="How that process ended.")
@click.argument("directory", type=click.Path(path_type=Path))
def report(
    as_json: bool,
    verbose: bool,
    exit_verdict: bool,
    process: int | None,
    exit_status: int | None,
    directory: Path,
) -> None:
    """Print the verdict on the trace in DIRECTORY."""
    from ..analysis import analyse
    from ..report.stacks import show_stacks
    from ..report.terminal import show
    from ..verdict import EXIT_STATUS

    analysis = analyse(directory, process, exit_status)
    if as_json:
        click.echo(json.dumps(analysis.verdict.as_json(), indent=1))
    else:
        show(analysis.verdict, analysis.tables, analysis.trace.meta)
        if verbose:
            show_stacks(analysis.tables)
    if exit_verdict:
        sys.exit(EXIT_STATUS[analysis.verdict.cause])
