# SPDX-License-Identifier: MIT
"""The command line. ``panthor-trace -- COMMAND`` is short for ``panthor-trace run -- COMMAND``."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from . import __version__
from .commands import examples
from .commands.diff import diff
from .commands.doctor import doctor
from .commands.export import export
from .commands.probes import probes
from .commands.report import report
from .commands.run import run
from .commands.sweep import sweep
from .errors import DEBUG_VARIABLE, EXIT_FAILED, EXIT_INTERRUPTED, TraceError, unexpected
from .speech import occupy_standard_streams, printable, say, unheard

#: Options that are the group's, not those of ``run``.
_OWN = ("-h", "--help", "-V", "--version")
_HELP = {"help_option_names": ["-h", "--help"]}


class _Cli(click.Group):
    """The group, with a ``run`` that may be left out, also where a shell asks what could come next."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Put it in."""
        return super().make_context(info_name, _expand(args), parent, **extra)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Subcommands and options, those of ``run`` as well; a command by its path."""
        if "/" in incomplete:
            return [CompletionItem(incomplete, type="file")]
        items = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            known = {item.value for item in items}
            with click.Context(run, ctx, "run") as inner:
                items += [item for item in run.shell_complete(inner, incomplete) if item.value not in known]
        return items


@click.group(
    cls=_Cli,
    context_settings=_HELP,
    epilog=examples(
        "panthor-trace doctor",
        "sudo panthor-trace -- llama-bench -m model.gguf -p 128 -ub 128",
        "panthor-trace report DIR",
    ),
)
@click.version_option(__version__, "-V", "--version", prog_name="panthor-trace")
def cli() -> None:
    """Says why a GPU allocation failed on an Arm Mali CSF GPU: the kernel's cap, memory, or user space.

    Before a COMMAND, or options of run, the word "run" can be left out.

    \b
    Exit status: the command's. Where the command was not started:
        2  wrong option                   123  the kernel does not allow tracing
      120  the trace directory            125  another failure of panthor-trace
           exists or can't be made        126  the command cannot be executed
      121  not root                       127  the command was not found
      122  bcc is not installed
    With --exit-verdict (of run and of report) the verdict instead:
        0  clean or recovered             12  not the kernel: panvk or the program
       10  a cap of the kernel driver     13  inconclusive
       11  the kernel, for another reason
    """


for _command in (run, report, diff, sweep, export, doctor, probes):
    cli.add_command(_command)
    # Inherited too, but click keeps a command's help option as the first one who asked for it had it.
    _command.context_settings = {**_command.context_settings, **_HELP}


def _expand(arguments: Sequence[str]) -> list[str]:
    """Put in the ``run`` that may be left out."""
    if not arguments or arguments[0] in cli.commands or arguments[0] in _OWN:
        return list(arguments)
    return ["run", *arguments]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point: one line for whatever a user can meet, never a traceback."""
    occupy_standard_streams()
    debug = bool(os.environ.get(DEBUG_VARIABLE))
    if not debug and not sys.warnoptions:
        warnings.simplefilter(
            "ignore"
        )  # what a distribution's pandas says of its next version is for developers
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
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
