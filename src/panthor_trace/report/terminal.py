# SPDX-License-Identifier: MIT
"""The report on a terminal: the answer in the first line, then why, then what was lost.

Plain text of 80 columns where it does not go to a terminal, or where NO_COLOR is set (no-color.org).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..model import Tables
from ..speech import printable
from ..verdict import CapUse, KernelCap, Verdict, wording
from .allocations import Allocation, Step, growth, largest

WIDTH = 80
#: Narrower, rich would cut digits off the limits' numbers; a narrower terminal breaks the lines itself.
_NARROWEST = 72
_SECOND = 1_000_000_000
_MILLISECOND = 1_000_000
_STYLES = {KernelCap.YES: "bold red", KernelCap.NO: "bold green", KernelCap.INCONCLUSIVE: "bold yellow"}


def show(verdict: Verdict, tables: Tables, meta: Mapping[str, Any], *, err: bool = False) -> None:
    """Print the report to standard output, or error."""
    file = sys.stderr if err else sys.stdout
    width = None if file.isatty() else WIDTH
    console = Console(file=file, width=width, highlight=False, markup=False, emoji=False)
    console.width = max(console.width, _NARROWEST)
    _print(console, verdict, tables, meta)


def text(verdict: Verdict, tables: Tables, meta: Mapping[str, Any]) -> str:
    """The report as plain text of 80 columns."""
    file = StringIO()
    console = Console(file=file, width=WIDTH, no_color=True, highlight=False, markup=False, emoji=False)
    _print(console, verdict, tables, meta)
    return file.getvalue()


def _text(content: str, **more: Any) -> Text:
    """Text that cannot steer the terminal, whatever names the traced processes gave their files."""
    return Text(printable(content), **more)


def _print(console: Console, verdict: Verdict, tables: Tables, meta: Mapping[str, Any]) -> None:
    for part in _parts(verdict, tables, meta):
        # What goes into a file or a pipe is often searched: no spaces at the ends of lines.
        with console.capture() as captured:
            console.print(part)
        lines = captured.get().splitlines()
        console.file.write("".join(f"{line.rstrip()}\n" for line in lines))


def _parts(verdict: Verdict, tables: Tables, meta: Mapping[str, Any]) -> Iterator[RenderableType]:
    answer = f"{wording.cap(verdict.kernel_cap)}. {verdict.headline}"
    yield _text(answer, style=_STYLES[verdict.kernel_cap])
    yield _text(
        f"cause: {verdict.cause.value}   refused by: {verdict.refused_by}   "
        f"confidence: {verdict.confidence.value}"
    )
    yield from _failing_call(verdict)
    if verdict.buffer:
        yield _text(f"buffer: {wording.buffer(verdict.buffer)}")
    yield from _section("evidence", verdict.evidence)
    yield from _section("what would have been enough", verdict.enough)
    yield from _section("how it grows", verdict.growth)
    yield from _section("ruled out", verdict.ruled_out)
    yield from _section("what to do", (verdict.remedy,) if verdict.remedy else ())
    if verdict.caps:
        moment = "at the failure" if verdict.failing_call else "when most GPU memory was in use"
        yield _titled(f"limits {moment}", _caps_table(verdict.caps))
    allocations = largest(tables)
    if allocations:
        yield _titled("largest allocations", _allocations_table(allocations))
    steps = growth(tables, verdict)
    if steps and len(tables.bos):
        yield _titled("GPU memory from dispatch to dispatch", _growth_table(steps))
    yield from _section("missing", verdict.missing)
    yield from _section("would raise the confidence", verdict.would_raise)
    lost = [f"{count} {kind.replace('_', ' ')}" for kind, count in verdict.losses]
    yield _text(f"losses: {', '.join(lost) or 'none'}")
    yield from _holds(tables)
    off = [f"{name} ({facts['why']})" for name, facts in meta.get("layers", {}).items() if not facts["live"]]
    if off:
        yield _text(f"layers not live: {', '.join(off)}")


def _holds(tables: Tables) -> Iterator[Text]:
    """How long processes were stopped at their failures, which they would not have been without us."""
    states = tables.states
    held = states["held_ns"].dropna() / _MILLISECOND
    if len(held):
        count = wording.counted(len(held), "failure")
        longest = f", {held.max():.0f} ms at most" if len(held) > 1 else ""
        yield _text(f"held to look at the process: at {count}, for {held.sum():.0f} ms{longest}")
    elif states["hold"].notna().any():
        yield _text(f"not held at a failure: {', '.join(states['hold'].dropna().unique())}")


def _failing_call(verdict: Verdict) -> Iterator[Text]:
    call = verdict.failing_call
    if call is None:
        return
    yield _text(
        f"failing call: {wording.call(call)}, {call.since_start_ns / _SECOND:.3f} s after the start, "
        f"process {call.pid}, thread {call.tid}"
    )
    if call.command_buffer is not None:
        yield _text(f"command buffer: {call.command_buffer:#x}")


def _titled(title: str, table: Table) -> RenderableType:
    table.title, table.title_justify, table.title_style = f"{title}:", "left", ""
    return table


def _section(title: str, facts: tuple[str, ...]) -> Iterator[RenderableType]:
    if not facts:
        return
    yield _text(f"{title}:")
    for fact in facts:
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_row("-", _text(fact, overflow="fold"))
        yield Padding(grid, (0, 0, 0, 2))


def _table(*columns: tuple[str, bool]) -> Table:
    """A table of (title, is it a number) columns without lines of its own."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1), header_style="bold")
    for title, number in columns:
        table.add_column(title, justify="right" if number else "left", overflow="fold", no_wrap=number)
    return table


def _amount(value: int | None, unit: str) -> str:
    if value is None:
        return "unknown"
    return wording.size(value) if unit == "bytes" else str(value)


def _caps_table(caps: tuple[CapUse, ...]) -> Table:
    table = _table(("limit", False), ("used", True), ("of", True), ("left", True), ("where", False))
    table.columns[0].no_wrap = True
    for use in caps:
        limit = "no limit" if use.limit is None and use.used is not None else _amount(use.limit, use.unit)
        peak = f"peak {_amount(use.peak, use.unit)}" if use.peak is not None else ""
        where = "; ".join(filter(None, [use.scope, peak, "" if use.note == "no limit" else use.note]))
        left = "" if limit == "no limit" else _amount(use.headroom, use.unit)
        table.add_row(_text(use.counts), _amount(use.used, use.unit), limit, left, _text(where))
    return table


def _allocations_table(allocations: list[Allocation]) -> Table:
    table = _table(("size", True), ("label or pool", False), ("asked for in", False), ("then", False))
    for allocation in allocations:
        table.add_row(
            wording.size(allocation.size),
            _text(allocation.purpose or "-"),
            _text(allocation.owner),
            _text(allocation.fate),
        )
    return table


def _growth_table(steps: list[Step]) -> Table:
    table = _table(
        ("dispatch", False), ("workgroups", False), ("allocated", True), ("bound", True), ("live then", True)
    )
    for step in steps:
        table.add_row(
            f"{step.number} ({step.title})",
            step.workgroups or "-",
            wording.size(step.allocated),
            wording.size(step.bound),
            wording.size(step.live),
        )
    if len(steps) > 1:
        first, last = steps[0], steps[-1]
        table.add_row(
            "difference",
            "",
            *(
                _signed(after - before)
                for before, after in (
                    (first.allocated, last.allocated),
                    (first.bound, last.bound),
                    (first.live, last.live),
                )
            ),
        )
    return table


def _signed(count: int) -> str:
    return f"{'+' if count >= 0 else '-'}{wording.size(abs(count))}"
