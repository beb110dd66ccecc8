# SPDX-License-Identifier: MIT
"""The report on a terminal: the answer in the first line, then why, then what was lost.

Plain text of 80 columns where it does not go to a terminal, or where NO_COLOR is set (no-color.org).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from io import StringIO
from typing import Any, TextIO

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..model import Tables
from ..speech import printable
from ..verdict import KernelCap, Verdict
from . import content
from .content import Grid, Part, Section

WIDTH = 80
#: Narrower, rich would cut digits off the limits' numbers; a narrower terminal breaks the lines itself.
_NARROWEST = 72
_STYLES = {KernelCap.YES: "bold red", KernelCap.NO: "bold green", KernelCap.INCONCLUSIVE: "bold yellow"}


def show(verdict: Verdict, tables: Tables, meta: Mapping[str, Any], *, err: bool = False) -> None:
    """Print the report to standard output, or error."""
    file = sys.stderr if err else sys.stdout
    _print(_console(file), _parts(verdict, tables, meta))


def show_parts(parts: Iterable[Part], *, err: bool = False) -> None:
    """Print any lines, sections and tables the way the report has them."""
    console = _console(sys.stderr if err else sys.stdout)
    _print(console, (drawn for part in parts for drawn in _drawn(part)))


def _console(file: TextIO) -> Console:
    width = None if file.isatty() else WIDTH
    console = Console(file=file, width=width, highlight=False, markup=False, emoji=False)
    console.width = max(console.width, _NARROWEST)
    return console


def text(verdict: Verdict, tables: Tables, meta: Mapping[str, Any]) -> str:
    """The report as plain text of 80 columns."""
    return _plain(_parts(verdict, tables, meta))


def parts_text(parts: Iterable[Part]) -> str:
    """Any lines, sections and tables as plain text of 80 columns."""
    return _plain(drawn for part in parts for drawn in _drawn(part))


def _plain(drawn: Iterable[RenderableType]) -> str:
    file = StringIO()
    console = Console(file=file, width=WIDTH, no_color=True, highlight=False, markup=False, emoji=False)
    _print(console, drawn)
    return file.getvalue()


def _text(content: str, **more: Any) -> Text:
    """Text that cannot steer the terminal, whatever names the traced processes gave their files."""
    return Text(printable(content), **more)


def _print(console: Console, drawn: Iterable[RenderableType]) -> None:
    for part in drawn:
        # What goes into a file or a pipe is often searched: no spaces at the ends of lines.
        with console.capture() as captured:
            console.print(part)
        lines = captured.get().splitlines()
        console.file.write("".join(f"{line.rstrip()}\n" for line in lines))


def _parts(verdict: Verdict, tables: Tables, meta: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield _text(content.answer(verdict), style=_STYLES[verdict.kernel_cap])
    for part in content.parts(verdict, tables, meta):
        yield from _drawn(part)


def _drawn(part: Part) -> Iterator[RenderableType]:
    if isinstance(part, Grid):
        yield _table(part)
    elif isinstance(part, Section):
        yield _text(f"{part.title}:")
        for fact in part.facts:
            grid = Table.grid(padding=(0, 1, 0, 0))
            grid.add_row("-", _text(fact, overflow="fold"))
            yield Padding(grid, (0, 0, 0, 2))
    else:
        yield _text(part)


def _table(grid: Grid) -> Table:
    """A table without lines of its own."""
    table = Table(
        title=f"{grid.title}:" if grid.title else None,
        title_justify="left",
        title_style="",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1),
        header_style="bold",
    )
    for number, (title, is_number) in enumerate(grid.columns):
        table.add_column(
            title,
            justify="right" if is_number else "left",
            overflow="fold",
            no_wrap=is_number or (number == 0 and grid.whole_first),
        )
    for row in grid.rows:
        table.add_row(*(_text(cell) for cell in row))
    return table
