# SPDX-License-Identifier: MIT
"""The report as a page with pictures, and with tables that lead to one another."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from ..analysis import Analysis
from ..verdict import CapUse, Verdict, wording
from . import content, figures, rows, series, spaces
from .environment import environment
from .pages import Picture, rendered

#: A limit is shown as reached from this share of it on.
_NEARLY = 0.95


def page(analysis: Analysis) -> str:
    """The report as HTML. Raises TraceError where what it needs is not installed."""
    about = series.subject(analysis.tables, analysis.verdict, analysis.trace.meta)
    drawn = list(_figures(analysis, about))
    listed = rows.listings(analysis.tables, about)
    verdict, meta = analysis.verdict, analysis.trace.meta
    return rendered(
        "report.html.j2",
        content.answer(verdict),
        analysis.trace.path.name if analysis.trace.path else "a trace",
        drawn,
        cap=verdict.kernel_cap.value,
        verdict=verdict,
        command=shlex.join(str(word) for word in meta.get("command", ())),
        recorded=str(meta.get("started", ""))[:19].replace("T", " "),
        # Losses stand with the reasons.
        environment=[fact for fact in environment(analysis) if fact[0] != "lost records"],
        failing=list(content.failing_call(verdict)),
        reasons=list(content.reasons(verdict)),
        gaps=list(content.gaps(verdict)),
        recording=list(content.recording(verdict, analysis.tables, meta)),
        caps=_caps(verdict),
        listings=listed,
        shown={row.name for listing in listed for row in listing.rows},
        contents=[("limits", "limits")] * bool(verdict.caps)
        + [(figure["name"], figure["short"]) for figure in drawn]
        + [(listing.name, listing.title.lower()) for listing in listed],
    )


def _caps(verdict: Verdict) -> dict[str, Any] | None:
    """The limits as bars, with the words of the table they are elsewhere."""
    if not verdict.caps:
        return None
    grid = content.limits(verdict)
    bars = [_bar(use, cells) for use, cells in zip(verdict.caps, grid.rows, strict=True)]
    return {"title": grid.title, "bars": bars}


def _bar(use: CapUse, cells: tuple[str, ...]) -> dict[str, Any]:
    counts, used, limit, left, where = cells
    share = use.used / use.limit if use.used is not None and use.limit else 0.0
    return {
        "counts": counts,
        "where": where,
        "percent": round(min(100 * share, 100), 2),
        "full": share >= _NEARLY,
        "used": used,
        "limit": limit if use.limit is not None else "",
        "note": limit if limit == "no limit" else "",
        "left": left if use.headroom is not None else "",
    }


def _figures(analysis: Analysis, about: series.Subject) -> Iterator[Picture]:
    """The pictures that there is anything to draw in."""
    tables = analysis.tables
    failures = series.failure_marks(tables, about)
    lines = series.memory_lines(tables, about)
    pools = series.stacked_pools(tables, about)
    points = series.dispatch_points(tables, about)
    found = spaces.spaces(tables, about)
    names = [line.name for line in pools] + [point.pool for point in points if point.pool]
    names += [stretch.pool for space in found for stretch in space.stretches if stretch.pool]
    palette = figures.Palette(names)
    whose = f"process {about.pid}"
    if lines:
        yield {
            "name": "memory",
            "short": "memory over time",
            "title": f"GPU memory over time, {whose}{' and others' if len(lines) > 3 else ''}",
            "caption": "A cross is a failure, a tick a dispatch being recorded: a click leads to its row.",
            "figure": figures.memory(lines, failures, series.dispatch_marks(tables, about)),
            "height": None,
        }
    if pools:
        yield {
            "name": "pools",
            "short": "what it is for",
            "title": f"What it is for, {whose}",
            "caption": "Live buffers by label, or by the pool of panvk they were inferred to belong to.",
            "figure": figures.stack(pools, failures, palette),
            "height": None,
        }
    if points:
        yield {
            "name": "workgroups",
            "short": "bytes by workgroups",
            "title": f"Bytes a dispatch took, by its workgroups, {whose}",
            "caption": _at_ends(analysis, about),
            "figure": figures.workgroups(points, palette),
            "height": None,
        }
    if any(space.stretches for space in found):
        drawn = figures.address_spaces([space for space in found if space.stretches], palette)
        yield {
            "name": "addresses",
            "short": "GPU addresses",
            "title": f"GPU addresses, {about.seconds([about.at_ns or 0])[0]:.3f} s after the start",
            "caption": "What is mapped in each VM, in the order of addresses; gaps are shortened.",
            "figure": drawn,
            "height": drawn["layout"]["height"],
        }


def _at_ends(analysis: Analysis, about: series.Subject) -> str:
    """What the picture of dispatches cannot show: buffers taken when a command buffer ended."""
    caption = "Both axes are logarithmic: what grows with the workgroups rises to the right."
    bos = analysis.tables.bos
    taken = bos[(bos["pid"] == about.pid) & bos["function"].eq("vkEndCommandBuffer").fillna(False)]
    if taken.empty:
        return caption
    largest = int(series.buffer_sizes(taken).max())
    pools = ", ".join(series.purposes(taken).unique())
    return (
        f"{caption} Not in it: {wording.counted(len(taken), 'buffer')} taken when command buffers ended "
        f"(vkEndCommandBuffer), {wording.size(largest)} at most: {pools}."
    )
