# SPDX-License-Identifier: MIT
"""The command line. ``panthor-trace -- COMMAND`` is short for ``panthor-trace run -- COMMAND``."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

import click

from . import __version__
from .commands.diff import diff
from .commands.doctor import doctor
from .commands.export import export
from .commands.probes import probes
from .commands.report import report
from .commands.run import run
from .errors import DEBUG_VARIABLE, EXIT_FAILED, EXIT_INTERRUPTED, TraceError, unexpected
from .speech import occupy_standard_streams, printable, say, unheard


@click.group()
@click.version_option(__version__, prog_name="panthor-trace")
def cli() -> None:
    """Says why a GPU allocation failed on an Arm Mali CSF GPU: the kernel's cap, memory, or user space.

    \b
    sudo panthor-trace -- llama-bench -m model.gguf     record and report
    sudo panthor-trace -p PID                           a process that runs already
    panthor-trace report DIR                            report again, anywhere
    panthor-trace diff DIR DIR                          how two runs differ

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


for _command in (run, report, diff, export, doctor, probes):
    cli.add_command(_command)


def _expand(arguments: Sequence[str]) -> list[str]:
    """Put in the ``run`` that may be left out."""
    first = arguments[0] if arguments else "--help"
    if first in cli.commands or first in ("--help", "--version"):
        return list(arguments) or ["--help"]
    return ["run", *arguments]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point: one line for whatever a user can meet, never a traceback."""
    occupy_standard_streams()
    debug = bool(os.environ.get(DEBUG_VARIABLE))
    if not debug and not sys.warnoptions:
        warnings.simplefilter(
            "ignore"
        )  # what a distribution's pandas says of its next version is for developers
    words = _expand(sys.argv[1:] if arguments is None else arguments)
    try:
        status = cli.main(words, prog_name="panthor-trace", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        with unheard():
            error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        say("interrupted")
        sys.exit(EXIT_INTERRUPTED)
    except TraceError as error:
        say(str(error))
        if debug and error.detail:
            with unheard():
                sys.stderr.write("".join(f"{printable(line)}\n" for line in error.detail.splitlines()))
        sys.exit(error.exit_code)
    except Exception as error:
        if debug:
            raise
        if isinstance(error, OSError) and error.filename is None:
            _give_up_output(error)
        else:
            say(unexpected(error))
        sys.exit(EXIT_FAILED)
    sys.exit(status if isinstance(status, int) else 0)


def _give_up_output(error: OSError) -> None:
    """Standard output cannot be written; what is left in its buffer would fail again at the end."""
    sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - for the rest of the process
    if not isinstance(error, BrokenPipeError):
        say(f"cannot write the output: {error.strerror}")
