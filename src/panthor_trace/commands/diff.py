# SPDX-License-Identifier: MIT
"""``panthor-trace diff A B``: how two runs differ."""

from __future__ import annotations

import json
from pathlib import Path

import click

from . import examples


@click.command(
    epilog=examples(
        "panthor-trace diff ub-64 ub-128",
        "panthor-trace diff --json mesa-old mesa-new | jq '.difference.changes'",
    )
)
@click.option("--json", "as_json", is_flag=True, help="The differences as JSON.")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
def diff(as_json: bool, a: Path, b: Path) -> None:
    """Compare the traces A and B: what is bigger, new, failing or slower in B, and where they first part.

    Dispatches are matched by their number: the same program, with another batch size, kernel or driver.
    """
    from ..analysis import analyse
    from ..compare.difference import difference
    from ..report.comparison import parts
    from ..report.terminal import show_parts

    runs = analyse(a), analyse(b)
    found = difference(*runs)
    if as_json:
        verdicts = {name: run.verdict.as_json() for name, run in zip("ab", runs, strict=True)}
        click.echo(json.dumps({"verdicts": verdicts, "difference": found.as_json()}, indent=1))
    else:
        show_parts(parts(*runs, found))
