# SPDX-License-Identifier: MIT
"""Two runs side by side as a page: what is said of them, and their memory in the same pictures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..analysis import Analysis
from ..compare.difference import Difference
from . import comparison, figures, series
from .content import Grid, Section
from .pages import Picture, rendered
from .series import DispatchPoint, Line, Mark, Subject


def comparison_page(a: Analysis, b: Analysis, found: Difference) -> str:
    """The comparison as HTML. Raises TraceError where what it needs is not installed."""
    parts = list(comparison.parts(a, b, found))
    return rendered(
        "parts.html.j2",
        comparison.answer(a, b),
        " and ".join(run.trace.path.name if run.trace.path else "a trace" for run in (a, b)),
        list(_pictures({"A": a, "B": b})),
        about="two runs, A and B",
        sections=[part for part in parts if isinstance(part, Section)],
        grids=[part for part in parts if isinstance(part, Grid) and part.rows],
    )


def _pictures(runs: dict[str, Analysis]) -> Iterator[Picture]:
    """Each shows both runs; those in which there is nothing to draw are left out."""
    lines: list[Line] = []
    failures: list[Mark] = []
    taken: list[Line] = []
    points: list[DispatchPoint] = []
    for name, run in runs.items():
        about = series.subject(run.tables, run.verdict, run.trace.meta)
        whose = f"{name}, process {about.pid}"
        own = [line for line in series.memory_lines(run.tables, about) if line.name == series.LIVE]
        lines += [replace(line, name=whose) for line in own]
        marks = series.failure_marks(run.tables, about)
        failures += [replace(mark, words=f"{name}: {mark.words}") for mark in marks]
        taken += _taken(run, about, whose)
        found = series.dispatch_points(run.tables, about)
        points += [replace(point, run=name) for point in found]
    if lines:
        yield {
            "name": "memory",
            "title": "Live GPU memory over time, each from the start of its own recording",
            "caption": "A cross is a failure.",
            "height": None,
            "figure": figures.memory(lines, failures, []),
        }
    if taken:
        yield {
            "name": "dispatches",
            "title": "Bytes allocated until each dispatch",
            "caption": "The sum over all dispatches up to it: where the runs part, so do the lines.",
            "height": None,
            "figure": figures.by_number(taken),
        }
    if points:
        yield {
            "name": "workgroups",
            "title": "Bytes a dispatch took, by its workgroups",
            "caption": "Discs are A's, rings B's. Both axes are logarithmic: what grows with the workgroups "
            "rises to the right.",
            "height": None,
            "figure": figures.workgroups(points, figures.Palette(point.pool for point in points)),
        }


def _taken(run: Analysis, about: Subject, name: str) -> list[Line]:
    """What its dispatches have allocated by each of them; ``seconds`` are their numbers."""
    table = run.tables.dispatches[run.tables.dispatches["pid"] == about.pid]
    if table.empty:
        return []
    total = np.cumsum(table["bytes_allocated"].to_numpy(np.int64))
    chosen = series.thinned(total, np.array([], np.int64))
    return [Line(name, table["number"].to_numpy(np.int64)[chosen].tolist(), total[chosen].tolist())]
