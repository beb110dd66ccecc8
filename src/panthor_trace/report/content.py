# SPDX-License-Identifier: MIT
"""What a report says, in its order, as plain text: lines, sections, tables. Each form draws its own way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..model import Tables
from ..verdict import CapUse, Verdict, wording
from .allocations import Allocation, Step, growth, largest

_SECOND = 1_000_000_000
_MILLISECOND = 1_000_000


@dataclass(frozen=True)
class Section:
    """Sentences under a title."""

    title: str
    facts: tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    """A table: columns of (title, is it a number), and rows of as many cells."""

    title: str
    columns: tuple[tuple[str, bool], ...]
    rows: tuple[tuple[str, ...], ...]
    #: The first column's words stay on one line.
    whole_first: bool = False


Part = str | Section | Grid


def answer(verdict: Verdict) -> str:
    """The first line of every report."""
    return f"{wording.cap(verdict.kernel_cap)}. {verdict.headline}"


def parts(verdict: Verdict, tables: Tables, meta: Mapping[str, Any]) -> Iterator[Part]:
    """All that follows the answer: why, the limits and buffers, what was lost."""
    yield (
        f"cause: {verdict.cause.value}   refused by: {verdict.refused_by}   "
        f"confidence: {verdict.confidence.value}"
    )
    yield from failing_call(verdict)
    yield from reasons(verdict)
    yield from grids(verdict, tables)
    yield from gaps(verdict)
    yield from recording(verdict, tables, meta)


def recording(verdict: Verdict, tables: Tables, meta: Mapping[str, Any]) -> Iterator[str]:
    """What was lost, how long processes were stopped, and which layers were not live."""
    lost = [f"{count} {kind.replace('_', ' ')}" for kind, count in verdict.losses]
    yield f"losses: {', '.join(lost) or 'none'}"
    yield from _holds(tables)
    off = [f"{name} ({facts['why']})" for name, facts in meta.get("layers", {}).items() if not facts["live"]]
    if off:
        yield f"layers not live: {', '.join(off)}"


def failing_call(verdict: Verdict) -> Iterator[str]:
    """Which call failed, when and where, and the buffer it is about."""
    call = verdict.failing_call
    if call is not None:
        yield (
            f"failing call: {wording.call(call)}, {call.since_start_ns / _SECOND:.3f} s after the start, "
            f"process {call.pid}, thread {call.tid}"
        )
        if call.command_buffer is not None:
            yield f"command buffer: {call.command_buffer:#x}"
    if verdict.buffer:
        yield f"buffer: {wording.buffer(verdict.buffer)}"


def reasons(verdict: Verdict) -> Iterator[Section]:
    """Why it is taken for that, and what to do."""
    yield from _section("evidence", verdict.evidence)
    yield from _section("what would have been enough", verdict.enough)
    yield from _section("how it grows", verdict.growth)
    yield from _section("ruled out", verdict.ruled_out)
    yield from _section("what to do", (verdict.remedy,) if verdict.remedy else ())


def gaps(verdict: Verdict) -> Iterator[Section]:
    """What is not known."""
    yield from _section("missing", verdict.missing)
    yield from _section("would raise the confidence", verdict.would_raise)


def grids(verdict: Verdict, tables: Tables, *, most: int = 10) -> Iterator[Grid]:
    """Limits, the ``most`` largest allocations, and the memory of the first and the last dispatch."""
    if verdict.caps:
        yield limits(verdict)
    allocations = largest(tables, most)
    if allocations:
        yield _allocations(allocations)
    steps = growth(tables, verdict)
    if steps and len(tables.bos):
        yield _growth(steps)


def _section(title: str, facts: tuple[str, ...]) -> Iterator[Section]:
    if facts:
        yield Section(title, facts)


def _holds(tables: Tables) -> Iterator[str]:
    """How long processes were stopped at their failures, which they would not have been without us."""
    states = tables.states
    held = states["held_ns"].dropna() / _MILLISECOND
    if len(held):
        count = wording.counted(len(held), "failure")
        longest = f", {held.max():.0f} ms at most" if len(held) > 1 else ""
        yield f"held to look at the process: at {count}, for {held.sum():.0f} ms{longest}"
    elif states["hold"].notna().any():
        yield f"not held at a failure: {', '.join(states['hold'].dropna().unique())}"


def limits(verdict: Verdict) -> Grid:
    """Every limit with its use, in the order of ``verdict.caps``."""
    moment = "at the failure" if verdict.failing_call else "when most GPU memory was in use"
    columns = (("limit", False), ("used", True), ("of", True), ("left", True), ("where", False))
    rows = tuple(_cap(use) for use in verdict.caps)
    return Grid(f"limits {moment}", columns, rows, whole_first=True)


def _cap(use: CapUse) -> tuple[str, ...]:
    limit = "no limit" if use.limit is None and use.used is not None else wording.amount(use.limit, use.unit)
    peak = f"peak {wording.amount(use.peak, use.unit)}" if use.peak is not None else ""
    where = "; ".join(filter(None, [use.scope, peak, "" if use.note == "no limit" else use.note]))
    left = "" if limit == "no limit" else wording.amount(use.headroom, use.unit)
    return use.counts, wording.amount(use.used, use.unit), limit, left, where


def _allocations(allocations: list[Allocation]) -> Grid:
    columns = (("size", True), ("label or pool", False), ("asked for in", False), ("then", False))
    rows = tuple((wording.size(one.size), one.purpose or "-", one.owner, one.fate) for one in allocations)
    return Grid("largest allocations", columns, rows)


def _growth(steps: list[Step]) -> Grid:
    columns = (
        ("dispatch", False),
        ("workgroups", False),
        ("allocated", True),
        ("bound", True),
        ("live then", True),
    )
    rows = [
        (
            f"{step.number} ({step.title})",
            step.workgroups or "-",
            wording.size(step.allocated),
            wording.size(step.bound),
            wording.size(step.live),
        )
        for step in steps
    ]
    if len(steps) > 1:
        first, last = steps[0], steps[-1]
        rows.append(
            (
                "difference",
                "",
                wording.signed_size(last.allocated - first.allocated),
                wording.signed_size(last.bound - first.bound),
                wording.signed_size(last.live - first.live),
            )
        )
    return Grid("GPU memory from dispatch to dispatch", columns, tuple(rows))
