# SPDX-License-Identifier: MIT
"""``panthor-trace -- COMMAND``: record, then report. pandas is loaded only when the command has ended."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from ..errors import DEBUG_VARIABLE, EXIT_NO_VERDICT, TraceError, unexpected
from ..speech import printable, say, unheard
from . import examples

if TYPE_CHECKING:
    from ..capture.recorder import Recording


def _assignment(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    pairs = []
    for value in values:
        name, sign, content = value.partition("=")
        if not sign or not name:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE")
        pairs.append((name, content))
    return tuple(pairs)


#: By suffix, in KiB.
_UNITS = {"K": 1, "M": 1 << 10, "G": 1 << 20}
_RING_KIB = (4, 1 << 20)


def _ring_size(_context: click.Context, _option: click.Parameter, value: str) -> int:
    """In units of 4 KiB, rounded up to a power of two: the kernel takes no other size."""
    number, unit = value[:-1], _UNITS.get(value[-1:].upper())
    kib = int(number) * unit if unit and number.isascii() and number.isdecimal() else 0
    smallest, largest = _RING_KIB
    if not smallest <= kib <= largest:
        raise click.BadParameter(f"{value!r} is not a size from 4K to 1G, as 64K, 16M")
    return 1 << (-(-kib // 4) - 1).bit_length()


def _complete(context: click.Context, _argument: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """For a shell: the command among those of PATH, as the shell would; then files."""
    if context.params.get("command") or "/" in incomplete:
        return [CompletionItem(incomplete, type="file")]
    found = set()
    for directory in os.get_exec_path():
        with contextlib.suppress(OSError):
            found |= {entry.name for entry in os.scandir(directory) if entry.name.startswith(incomplete)}
    return [CompletionItem(name) for name in sorted(found)]


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog=examples(
        "sudo panthor-trace -- llama-bench -m model.gguf -p 128 -ub 128",
        "sudo panthor-trace -o trace --exit-verdict -- ./program",
        "sudo panthor-trace --env GGML_VK_VISIBLE_DEVICES=0 -- llama-cli -m m.gguf",
        "sudo panthor-trace -p 4242",
    ),
)
@click.option("-o", "--output", metavar="DIR", help="Trace directory; must not exist yet.")
@click.option("--user", metavar="NAME", help="Run the command as this user (default: who ran sudo).")
@click.option("--no-drop", is_flag=True, help="Run the command as root.")
@click.option(
    "--env", multiple=True, metavar="NAME=VALUE", callback=_assignment, help="Set a variable for the command."
)
@click.option("-v", "--verbose", is_flag=True, help="Report also every failure with its user stack.")
@click.option("--no-csv", is_flag=True, help="Don't write the tables as CSV.")
@click.option(
    "--exit-verdict",
    is_flag=True,
    help="Exit with 0, 10, 11, 12 or 13 by the verdict.",
)
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path("/"),
    help="Root directory the command will run in (chroot, container): its libraries are probed.",
)
@click.option("--node", multiple=True, metavar="PATH", help="Take this device node for panthor's.")
@click.option(
    "--ioctl-hook",
    type=click.Choice(["auto", "drm", "syscall"]),
    default="auto",
    help="Catch ioctls in DRM (other processes pay nothing) or at every system call.",
)
@click.option(
    "-p", "--pid", type=click.IntRange(min=1), metavar="PID", help="Attach to this running process."
)
@click.option(
    "--no-hold", is_flag=True, help="Don't stop a process at its first failures to read its state then."
)
@click.option("--live", is_flag=True, help="Keep a status line on the terminal's bottom row (docs/live.md).")
@click.option(
    "--ring-size",
    metavar="SIZE",
    default="8M",
    show_default=True,
    callback=_ring_size,
    help="Buffer between kernel and tracer, 4K to 1G: larger where records were lost.",
)
@click.argument("command", nargs=-1, shell_complete=_complete)
def run(
    output: str | None,
    user: str | None,
    no_drop: bool,
    env: tuple[tuple[str, str], ...],
    verbose: bool,
    no_csv: bool,
    exit_verdict: bool,
    root: Path,
    node: tuple[str, ...],
    ioctl_hook: str,
    pid: int | None,
    no_hold: bool,
    live: bool,
    ring_size: int,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND traced, then say whether the kernel refused it anything.

    With --pid, trace a running process until it ends or Ctrl-C detaches from it; it goes on running.
    """
    if bool(command) == (pid is not None):
        raise click.UsageError("a COMMAND to run or the --pid of a running process, one of the two")
    if user is not None and (no_drop or not user):
        raise click.UsageError("--user takes a user's name or number, and not together with --no-drop")
    from ..capture.recorder import Options, record

    hold = not no_hold
    options = Options(
        command, output, user, not no_drop, env, root, node, ioctl_hook, pid, hold, live, ring_size
    )
    recording = record(options, say)
    status = EXIT_NO_VERDICT
    try:
        status = _report(recording, csv=not no_csv, verbose=verbose)
    except TraceError as error:
        say(str(error))
    except KeyboardInterrupt:
        say(f"interrupted while reporting; the trace is kept: {recording.path}")
    except Exception as error:  # the command has run: its exit status is what counts
        if os.environ.get(DEBUG_VARIABLE):
            raise
        say(f"{unexpected(error)}; the trace is kept: {recording.path}")
    sys.exit(status if exit_verdict else recording.exit_code)


def rehearse() -> None:
    """Report on nothing, to load all that a report needs while we may: the user may not be able to.

    pandas and rich load parts of themselves when those are first used, perhaps from root's home.
    """
    from .. import analysis  # noqa: F401
    from ..export import csv  # noqa: F401
    from ..model import build
    from ..report import stacks  # noqa: F401
    from ..report.terminal import text
    from ..trace.reader import Trace
    from ..verdict import judge

    tables = build(Trace({}, {}, None))
    text(judge(tables, {}, None), tables, {})
    for _, table in tables:
        table.to_csv(io.StringIO(), index=False)


def _report(recording: Recording, *, csv: bool, verbose: bool) -> int:
    """Show the verdict and write the tables, as the user who ran sudo; returns the verdict's exit status."""
    for warning in recording.warnings:
        say(warning)
    if recording.owner:
        rehearse()
        recording.owner.become()
    from ..analysis import analyse
    from ..export.csv import export_csv
    from ..report.stacks import show_stacks
    from ..report.terminal import show
    from ..verdict import EXIT_STATUS

    directory = Path(recording.path)
    analysis = analyse(directory)
    with unheard():
        show(analysis.verdict, analysis.tables, analysis.trace.meta, err=True)
        if verbose:
            show_stacks(analysis.tables, err=True)
    if csv:
        try:
            export_csv(analysis.tables, directory / "csv")
        except TraceError as error:
            say(str(error))
    again = f"panthor-trace report {shlex.quote(str(directory))}"
    with unheard():
        sys.stderr.write(f"trace: {printable(str(directory))} (again: {printable(again)})\n")
    return EXIT_STATUS[analysis.verdict.cause]
