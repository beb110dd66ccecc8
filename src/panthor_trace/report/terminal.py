# SPDX-License-Identifier: MIT
"""The report on a terminal: the answer in the first line, then its evidence, then what was lost."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import click

from ..verdict import Verdict, wording

_SECOND = 1_000_000_000


def show(verdict: Verdict, meta: Mapping[str, Any], *, err: bool = False) -> None:
    """Print the report, its first line bold on a terminal that may be coloured (no-color.org)."""
    plain = bool(os.environ.get("NO_COLOR"))
    for number, line in enumerate(lines(verdict, meta)):
        click.echo(line if number or plain else click.style(line, bold=True), err=err)


def lines(verdict: Verdict, meta: Mapping[str, Any]) -> Iterator[str]:
    """The report, line by line, without colour."""
    yield f"{wording.cap(verdict.kernel_cap)}. {verdict.headline}"
    yield (
        f"cause: {verdict.cause.value}   refused by: {verdict.refused_by}   "
        f"confidence: {verdict.confidence.value}"
    )
    call = verdict.failing_call
    if call:
        place = f"failing call: {wording.call(call)}, {call.since_start_ns / _SECOND:.3f} s after the start"
        yield f"{place}, process {call.pid}, thread {call.tid}"
        if call.command_buffer is not None:
            yield f"command buffer: {call.command_buffer:#x}"
    yield from _section("evidence", verdict.evidence)
    yield from _section("ruled out", verdict.ruled_out)
    yield from _section("missing", verdict.missing)
    lost = [f"{count} {kind.replace('_', ' ')}" for kind, count in verdict.losses]
    yield f"losses: {', '.join(lost) or 'none'}"
    off = [f"{name} ({facts['why']})" for name, facts in meta.get("layers", {}).items() if not facts["live"]]
    if off:
        yield f"layers not live: {', '.join(off)}"


def _section(title: str, facts: tuple[str, ...]) -> Iterator[str]:
    if facts:
        yield f"{title}:"
        yield from (f"  - {fact}" for fact in facts)
