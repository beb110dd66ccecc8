# SPDX-License-Identifier: MIT
"""What doctor found, on a terminal and as JSON. Plain: rich may be what is missing."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from ..doctor.check import Result, State
from ..doctor.checks import EXIT_MISSING, exit_status
from ..doctor.machine import Machine
from ..doctor.remedies import REMEDIES
from ..speech import printable

_WIDTH = 80
_NARROWEST = 50
_STATE, _TITLE = 10, 16
_STYLES: Mapping[State, dict[str, Any]] = {
    State.OK: {"fg": "green"},
    State.DEGRADED: {"fg": "yellow"},
    State.MISSING: {"fg": "red", "bold": True},
    State.UNKNOWN: {"fg": "cyan"},
}


def remedies(result: Result) -> dict[str, str]:
    """What to do, by distribution; empty where nothing is to be done, or nothing is known."""
    if result.finding.remedy is None:
        return {}
    given = REMEDIES[result.finding.remedy]
    facts = {name: str(value) for name, value in result.finding.facts.items()}
    return {name: _filled(text, facts) for name, text in given.items()}


def _filled(text: str, facts: Mapping[str, str]) -> str:
    for name, value in facts.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def answer(results: Sequence[Result]) -> str:
    """The first line."""
    counts = Counter(result.finding.state for result in results)
    shown = (State.MISSING, State.DEGRADED, State.UNKNOWN)
    rest = ", ".join(f"{counts[state]} {state.value}" for state in shown if counts[state])
    first = {0: "ready", EXIT_MISSING: "not ready"}.get(exit_status(results), "not known whether ready")
    return f"{first}: {rest}" if rest else f"{first}: {len(results)} checks, all ok"


def as_json(results: Sequence[Result], machine: Machine, where: Mapping[str, str | None]) -> dict[str, Any]:
    """The findings, with the remedies of every distribution."""
    return {
        "ready": {0: True, EXIT_MISSING: False}.get(exit_status(results)),
        "answer": answer(results),
        "root": machine.root,
        **where,
        "checks": [
            {
                "name": result.check.name,
                "group": result.check.group,
                "state": result.finding.state.value,
                "found": result.finding.found,
                "without": result.without or None,
                "remedies": remedies(result) or None,
                "facts": dict(result.finding.facts),
            }
            for result in results
        ],
    }


def _paragraph(text: str, width: int, first: str = "", indent: int = 0) -> list[str]:
    """Wrapped; a word longer than a line (a path, a command) is left whole."""
    return textwrap.wrap(
        printable(text),
        width,
        initial_indent=first,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _lines(
    results: Sequence[Result], distribution: str | None, width: int
) -> Iterator[tuple[str, State | None]]:
    group = ""
    for result in results:
        finding = result.finding
        if result.check.group != group:
            group = result.check.group
            yield f"{group}:", None
        head = f"  {finding.state.value:<{_STATE}}{result.check.title:<{_TITLE}}"
        for line in _paragraph(finding.found, width, head, len(head)):
            yield line, finding.state
        for label, text in _notes(result, distribution):
            indent = 2 + _STATE
            for line in _paragraph(text, width, f"{' ' * indent}{label}: ", indent + 2):
                yield line, None


def _notes(result: Result, distribution: str | None) -> Iterator[tuple[str, str]]:
    """What the trace lacks, and what to do: on this distribution, on all where that is none we know."""
    if result.without:
        yield "not recorded" if result.finding.state is State.DEGRADED else "without it", result.without
    given = remedies(result)
    texts = _by_text({distribution: given[distribution]} if distribution in given else given)
    for text, names in texts.items():
        yield "to do" if len(texts) == 1 else names, text


def _by_text(remedies_given: Mapping[Any, str]) -> dict[str, str]:
    """Distributions with one remedy, together."""
    together: dict[str, list[str]] = {}
    for name, text in remedies_given.items():
        together.setdefault(text, []).append(str(name))
    return {text: ", ".join(names) for text, names in together.items()}


def show(results: Sequence[Result], machine: Machine, where: Mapping[str, str | None]) -> None:
    """Print the answer, the table, and what to do next."""
    width = max(min(shutil.get_terminal_size((_WIDTH, 24)).columns, 120), _NARROWEST)
    colour = False if os.environ.get("NO_COLOR") else None
    status = exit_status(results)
    state = {0: State.OK, EXIT_MISSING: State.MISSING}.get(status, State.UNKNOWN)
    click.secho(answer(results), color=colour, **{**_STYLES[state], "bold": True})
    system = where["distribution_name"] or "an unknown distribution"
    for line in _paragraph(f"{system}, Linux {machine.kernel}, {where['architecture']}", width):
        click.echo(line)
    for line, of in _lines(results, where["distribution"], width):
        if of is None:
            click.echo(line, color=colour)
            continue
        head = line[: 2 + _STATE]
        click.echo(click.style(head, **_STYLES[of]) + line[2 + _STATE :], color=colour)
    for line in _paragraph(_next(status, machine), width):
        click.echo(line)


def _next(status: int, machine: Machine) -> str:
    if status == EXIT_MISSING:
        return "what is missing above comes first; nothing has been changed"
    if status and not machine.root:
        return "next: sudo panthor-trace doctor, which sees the rest"
    return "next: sudo panthor-trace -- COMMAND"
