# SPDX-License-Identifier: MIT
"""``panthor-trace report DIR``: the verdict on a recorded trace. Needs neither root nor bcc."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from ..speech import printable
from . import examples

#: Of report/formats.py, which loads pandas: named here too so that ``--help`` need not. A test compares them.
FORMATS = ("text", "json", "html", "markdown")


def refuse_on_terminal(form: str, output: Path | None) -> None:
    """Raise UsageError where a page of megabytes would be printed on a terminal."""
    if form == "html" and output is None and sys.stdout.isatty():
        raise click.UsageError("a page is nothing for a terminal: send it to a file (-o FILE, or > FILE)")


@click.command(
    epilog=examples(
        "panthor-trace report panthor-trace-llama-bench-20260801-120000-4242",
        "panthor-trace report --json DIR",
        "panthor-trace report -v --process 4243 DIR",
        "panthor-trace report -o verdict.txt DIR",
        "panthor-trace report --format markdown -o bug.md DIR",
        "panthor-trace report --format html -o report.html DIR",
    )
)
@click.option("--format", "form", type=click.Choice(FORMATS), help="What the report is to be (text).")
@click.option("--json", "as_json", is_flag=True, help="The verdict as JSON: --format json.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Where to write it.")
@click.option("--keep-paths", is_flag=True, help="Leave names and paths in (markdown).")
@click.option("-v", "--verbose", is_flag=True, help="Also every failure with its user stack (text).")
@click.option("--exit-verdict", is_flag=True, help="Exit with 0, 10, 11, 12 or 13 by the verdict.")
@click.option("--process", type=int, metavar="PID", help="Judge only this process and its children.")
@click.option("--exit-status", type=int, metavar="N", help="How that process ended.")
@click.argument("directory", type=click.Path(path_type=Path))
def report(
    form: str | None,
    as_json: bool,
    output: Path | None,
    keep_paths: bool,
    verbose: bool,
    exit_verdict: bool,
    process: int | None,
    exit_status: int | None,
    directory: Path,
) -> None:
    """Print the verdict on the trace in DIRECTORY.

    --format markdown makes it a bug report to paste, without user and host names, home paths and model files.
    """
    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json and --format {form} are two answers to one question")
    form = "json" if as_json else form or "text"
    if keep_paths and form != "markdown":
        raise click.UsageError("--keep-paths is for --format markdown: no other form takes paths out")
    refuse_on_terminal(form, output)

    from ..analysis import analyse
    from ..export.files import write_output
    from ..report.formats import FORMATS as writers
    from ..report.markdown import markdown
    from ..report.stacks import show_stacks, stack_lines
    from ..report.terminal import show
    from ..verdict import EXIT_STATUS

    analysis = analyse(directory, process, exit_status)
    write = partial(markdown, keep_paths=True) if keep_paths else writers[form]
    if output is not None:
        content = write(analysis)
        if form == "text" and verbose:
            content += "".join(f"{printable(line)}\n" for line in stack_lines(analysis.tables))
        write_output(output, content.encode(errors="backslashreplace"))
    elif form == "text":
        show(analysis.verdict, analysis.tables, analysis.trace.meta)
        if verbose:
            show_stacks(analysis.tables)
    else:
        click.echo(write(analysis).encode(errors="backslashreplace"), nl=False)  # a file's, not a locale's
    if exit_verdict:
        sys.exit(EXIT_STATUS[analysis.verdict.cause])
