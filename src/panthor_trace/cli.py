# SPDX-License-Identifier: MIT
"""The command line. ``panthor-trace -- COMMAND`` is short for ``panthor-trace run -- COMMAND``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from . import __version__
from .commands.export import export
from .commands.probes import probes
from .commands.report import report
from .commands.run import run
from .errors import DEBUG_VARIABLE, EXIT_FAILED, TraceError, unexpected


@click.group()
@click.version_option(__version__, prog_name="panthor-trace")
def cli() -> None:
    """Says why a GPU allocation failed on an Arm Mali CSF GPU: the kernel's cap, memory, or user space.

    \b
    sudo panthor-trace -- llama-bench -m model.gguf     record and report
    sudo panthor-trace -p PID                           a process that runs already
    panthor-trace report DIR                            report again, anywhere

    \b
    Exit status: the command's. Where the command was not started:
        2  wrong option                   123  the kernel does not allow tracing
      120  the trace directory            125  another failure of panthor-trace
           exists or can't be made        126  the command cannot be executed
      121  not root                       127  the command was not found
      122  bcc is not installed
    With --exit-verdict (of run and of report) the verdict instead:
        0  clean or recovered              12  not the kernel: panvk or the program
       10  a cap of the kernel driver      13  inconclusive
       11  the kernel, for another reason
    """


for _command in (run, report, export, probes):
    cli.add_command(_command)


def _expand(arguments: Sequence[str]) -> list[str]:
    """Put in the ``run`` that may be left out."""
    first = arguments[0] if arguments else "--help"
    if first in cli.commands or first in ("--help", "--version"):
        return list(arguments) or ["--help"]
    return ["run", *arguments]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point: one line for whatever a user can meet, never a traceback."""
    debug = bool(os.environ.get(DEBUG_VARIABLE))
    try:
        cli.main(_expand(sys.argv[1:] if arguments is None else arguments), prog_name="panthor-trace")
    except TraceError as error:
        click.echo(f"panthor-trace: {error}", err=True)
        if debug and error.detail:
            click.echo(error.detail, err=True)
        sys.exit(error.exit_code)
    except Exception as error:
        if debug:
            raise
        click.echo(f"panthor-trace: {unexpected(error)}", err=True)
        sys.exit(EXIT_FAILED)
    sys.exit(0)
