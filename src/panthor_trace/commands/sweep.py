# SPDX-License-Identifier: MIT
"""``panthor-trace sweep --set NAME=VALUES -- COMMAND {NAME}``: one command with many values, each traced."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from ..errors import TraceError
from ..speech import say
from . import examples
from .report import refuse_on_terminal
from .run import run

#: Options of ``run`` that every run of a sweep is given.
_OF_RUN = ("user", "no_drop", "env", "root", "node", "ioctl_hook", "no_hold")
_INTERRUPTED = "interrupted; what is there is kept: the same sweep goes on from it"


def _sets(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> dict[str, list[str]]:
    sets: dict[str, list[str]] = {}
    for one in given:
        name, sign, values = one.partition("=")
        listed = [value for value in values.split(",") if value]
        if not sign or not name or not listed or name in sets:
            raise click.BadParameter(f"{one!r} is not NAME=VALUE,VALUE,… with a name of its own")
        sets[name] = list(dict.fromkeys(listed))
    return sets


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog=examples(
        "sudo panthor-trace sweep --set ub=64,128 -- llama-bench -m a.gguf -ub {ub}",
        "sudo panthor-trace sweep --bisect --set c=512,65536 -- llama-cli -m m -c {c}",
    ),
)
@click.option(
    "--set", "sets", multiple=True, required=True, metavar="NAME=VALUE,…", callback=_sets,
    help="What {NAME} in the command is to be; of several --set, every combination.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="Where the traces go.")
@click.option("--bisect", is_flag=True, help="Find the largest number that works, by halving.")
@click.option("--step", type=click.IntRange(min=1), default=1, help="With --bisect: only multiples of it.")
@click.option(
    "--stop", type=click.Choice(["failure", "never"]), default="failure",
    help="After the first value that fails, or when all have been run.",
)  # fmt: skip
@click.option("--json", "form", flag_value="json", help="The table as JSON.")
@click.option("--csv", "form", flag_value="csv", help="The table as CSV.")
@click.option("--html", "form", flag_value="html", help="The table as a page with a picture.")
@click.argument("command", nargs=-1, required=True)
def sweep(
    sets: dict[str, list[str]],
    output: Path | None,
    bisect: bool,
    step: int,
    stop: str,
    form: str | None,
    command: tuple[str, ...],
    **recording: Any,
) -> None:
    """Run COMMAND traced once for each value, and show the results as one table.

    The traces are in DIR (panthor-trace-sweep-COMMAND), one a value, beside a .log with what the command
    printed. The same sweep again runs only what is not there. The command has no standard input.
    """
    from ..sweep.plan import Ceiling, Template, Values, combinations, halvings, label, numbers, until_failure
    from ..sweep.plan import bisect as search
    from ..sweep.runner import Interrupted, Sweep

    refuse_on_terminal(form or "", None)
    template = Template(command)
    template.check(list(sets))
    name = next(iter(sets))
    candidates = numbers(sets[name]) if bisect else []
    if bisect and (len(sets) > 1 or len(candidates) < 2):
        raise click.UsageError("--bisect takes one --set of two numbers or more")
    directory = output or Path(f"panthor-trace-sweep-{Path(command[0]).name}")
    work = Sweep.open(directory, template, list(_options(recording)))
    done: dict[tuple[str, ...], tuple[Values, Any]] = {}
    ceiling: Ceiling | None = None
    left_out: list[Values] = []
    runs = [{name: str(value)} for value in candidates] if bisect else combinations(sets)
    status, ended_by = 0, ""
    bar: Any
    with click.progressbar(
        length=len(runs) + halvings(candidates, step),
        label="sweep",
        file=sys.stderr if sys.stderr.isatty() else io.StringIO(),
        item_show_func=lambda shown: str(shown or ""),
    ) as bar:

        def fails(values: Values) -> bool:
            key = tuple(values.values())
            if key not in done:
                bar.current_item = label(values)
                bar.render_progress()
                done[key] = values, work.outcome(values)
                bar.update(1)
            return bool(done[key][1].failed)

        try:
            if bisect:
                ceiling = search(candidates, lambda value: fails({name: str(value)}), step)
            else:
                left_out = list(until_failure(runs, fails, stop=stop == "failure"))
            bar.update(int(bar.length or 0) - bar.pos)
        except Interrupted as interrupted:
            status = 128 + interrupted.number
            ended_by = _INTERRUPTED
        except KeyboardInterrupt:  # between two runs
            status = 128 + signal.SIGINT
            ended_by = _INTERRUPTED
        except TraceError as error:
            if not done:
                raise
            status, ended_by = error.exit_code, str(error)
    if ended_by:
        say(ended_by)
    _show(_ordered(list(done.values()), bisect), form, command, name, ceiling, left_out)
    sys.exit(status)


def _ordered(rows: list[Any], by_number: bool) -> list[Any]:
    return sorted(rows, key=lambda row: int(next(iter(row[0].values())))) if by_number else rows


def _options(recording: dict[str, Any]) -> Iterator[str]:
    """The options of ``run`` as they were given, to be given again."""
    for parameter in run.params:
        value = recording.get(parameter.name or "")
        if parameter.name not in _OF_RUN or value == parameter.default or not value:
            continue
        flag = parameter.opts[0]
        if value is True:
            yield flag
        elif parameter.name == "env":
            yield from (word for name, content in value for word in (flag, f"{name}={content}"))
        elif isinstance(value, tuple):
            yield from (word for one in value for word in (flag, str(one)))
        else:
            yield from (flag, str(value))


def _show(
    rows: list[Any],
    form: str | None,
    command: tuple[str, ...],
    name: str,
    ceiling: Any,
    left_out: list[Any],
) -> None:
    from ..report import sweep as table
    from ..report.sweep_html import sweep_page
    from ..report.terminal import show_parts

    write: dict[str, Callable[[], str]] = {
        "json": lambda: table.as_json(rows, command, ceiling, left_out),
        "csv": lambda: table.as_csv(rows),
        "html": lambda: sweep_page(rows, command, name, ceiling, left_out),
    }
    if form:
        click.echo(write[form]().encode(errors="backslashreplace"), nl=False)
    elif rows:
        show_parts(table.parts(rows, name, ceiling, left_out))


sweep.params += [parameter for parameter in run.params if parameter.name in _OF_RUN]
