# SPDX-License-Identifier: MIT
"""The report as one page that needs nothing else: no network, no second file.

Whatever a trace says is text: jinja2 escapes it, the figures' labels are escaped for plotly.js, and the
page's policy runs the two scripts it has by their hashes and no other.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from collections.abc import Iterator
from importlib import resources
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..analysis import Analysis
from ..export.optional import optional
from ..speech import printable
from ..verdict import CapUse, Verdict, wording
from . import content, figures, rows, series, spaces
from .environment import environment

if TYPE_CHECKING:
    import jinja2

#: A limit is shown as reached from this share of it on.
_NEARLY = 0.95
_PAGE = resources.files(__package__) / "page"


def page(analysis: Analysis) -> str:
    """The report as HTML. Raises TraceError where what it needs is not installed."""
    templates, plotly = _libraries()
    from markupsafe import Markup  # jinja2's own

    about = series.subject(analysis.tables, analysis.verdict, analysis.trace.meta)
    drawn = list(_figures(analysis, about))
    listed = rows.listings(analysis.tables, about)
    data = json.dumps({figure["name"]: figure["figure"] for figure in drawn}, separators=(",", ":"))
    scripts = [plotly, (_PAGE / "report.js").read_text()]
    verdict, meta = analysis.verdict, analysis.trace.meta
    return templates.from_string((_PAGE / "report.html.j2").read_text()).render(
        answer=content.answer(verdict),
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
        figures=drawn,
        listings=listed,
        shown={row.name for listing in listed for row in listing.rows},
        contents=[("limits", "limits")] * bool(verdict.caps)
        + [(figure["name"], figure["short"]) for figure in drawn]
        + [(listing.name, listing.title.lower()) for listing in listed],
        trace=analysis.trace.path.name if analysis.trace.path else "a trace",
        version=__version__,
        policy=_policy(scripts),
        style=Markup((_PAGE / "report.css").read_text()),
        # Inside a script element only its end would mean anything.
        data=Markup(data.replace("<", "\\u003c")),
        scripts=[Markup(script) for script in scripts],
    )


def _libraries() -> tuple[jinja2.Environment, str]:
    with optional():
        import jinja2
        from plotly.offline import get_plotlyjs
    templates = jinja2.Environment(
        autoescape=True, finalize=_printable, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    return templates, get_plotlyjs()


def _printable(value: object) -> object:
    """Text of a trace without what would steer a reader's eye, as on a terminal; our own markup as it is."""
    return printable(value) if type(value) is str else value


def _policy(scripts: list[str]) -> str:
    """Nothing is fetched or sent, only ``scripts`` run. plotly.js sets styles and makes pictures."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
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


def _figures(analysis: Analysis, about: series.Subject) -> Iterator[dict[str, Any]]:
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
