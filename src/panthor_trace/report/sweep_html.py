# SPDX-License-Identifier: MIT
"""A sweep as a page: its table, and the memory of every value in one picture."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from ..sweep.plan import Ceiling, Values
from . import figures, sweep
from .content import Grid, Section
from .pages import Picture, rendered
from .sweep import Rows


def sweep_page(
    rows: Rows, command: Sequence[str], name: str, ceiling: Ceiling | None, left_out: Sequence[Values]
) -> str:
    """The sweep as HTML. Raises TraceError where what it needs is not installed."""
    parts = list(sweep.parts(rows, name, ceiling, left_out))
    said = tuple(part for part in parts if isinstance(part, str))
    grids = [part for part in parts if isinstance(part, Grid) and part.rows]
    return rendered(
        "parts.html.j2",
        shlex.join(command),
        f"{len(rows)} traces",
        list(_pictures(rows)),
        about="one command with many values",
        sections=[Section("what it comes to", said)] if said else [],
        grids=grids,
    )


def _pictures(rows: Rows) -> Iterator[Picture]:
    amounts = {
        "peak of live buffers": [outcome.peak_live_bytes for _, outcome in rows],
        "largest allocation": [outcome.largest_allocation for _, outcome in rows],
    }
    if any(amount is not None for line in amounts.values() for amount in line):
        yield {
            "name": "memory",
            "title": "GPU memory by value",
            "caption": "A cross is a run that failed: what it had until then. The largest allocation may be "
            "the one it was refused.",
            "height": None,
            "figure": figures.by_value(
                [", ".join(values.values()) for values, _ in rows],
                amounts,
                [outcome.failed for _, outcome in rows],
                ", ".join(rows[0][0]),
            ),
        }
