# SPDX-License-Identifier: MIT
"""``panthor-trace diff A B``: how two runs differ."""

from __future__ import annotations

import json
from pathlib import Path

import click

from . import examples
from .report import refuse_on_terminal


@click.command(
    epilog=examples(
        "panthor-trace diff ub-64 ub-128",
        "panthor-trace diff --json mesa-old mesa-new | jq '.difference.changes'",
        "panthor-trace diff --format html -o diff.html ub-64 ub-128",
    )
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "html"]), help="What it is to be (text)."
)
@click.option("--json", "as_json", is_flag=True, help="The differences as JSON: --format json.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Where to write it.")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
def diff(form: str | None, as_json: bool, output: Path | None, a: Path, b: Path) -> None:
    """Compare the traces A and B: what is bigger, new, failing or slower in B, and where they first part.

    Dispatches are matched by their number: the same program, with another batch size, kernel or driver.
    """
    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json and --format {form} are two answers to one question")
    form = "json" if as_json else form or "text"
    refuse_on_terminal(form, output)

    from ..analysis import analyse
    from ..compare.difference import difference
    from ..export.files import write_output
    from ..report.comparison import parts
    from ..report.comparison_html import comparison_page
    from ..report.terminal import parts_text, show_parts

    runs = analyse(a), analyse(b)
    found = difference(*runs)
    if form == "html":
        content = comparison_page(*runs, found)
    elif form == "json":
        verdicts = {name: run.verdict.as_json() for name, run in zip("ab", runs, strict=True)}
        content = json.dumps({"verdicts": verdicts, "difference": found.as_json()}, indent=1) + "\n"
    elif output is None:
        show_parts(parts(*runs, found))
        return
    else:
        content = parts_text(parts(*runs, found))
    if output is None:
        click.echo(content.encode(errors="backslashreplace"), nl=False)
    else:
        write_output(output, content.encode(errors="backslashreplace"))
