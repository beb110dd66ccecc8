# SPDX-License-Identifier: MIT
"""``panthor-trace report DIR``: the verdict on a recorded trace. Needs neither root nor bcc."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command()
@click.option("--json", "as_json", is_flag=True, help="The verdict as JSON.")
@click.argument("directory", type=click.Path(path_type=Path))
def report(as_json: bool, directory: Path) -> None:
    """Print the verdict on the trace in DIRECTORY."""
    from ..analysis import analyse
    from ..report.terminal import show

    analysis = analyse(directory)
    if as_json:
        click.echo(json.dumps(analysis.verdict.as_json(), indent=1))
        return
    show(analysis.verdict, analysis.trace.meta)
