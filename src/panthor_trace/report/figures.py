# SPDX-License-Identifier: MIT
"""The pictures of a page as plotly.js takes them: traces and layout, without the colours of a theme."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..model import pools
from ..speech import printable
from ..verdict import wording
from . import series
from .series import DispatchPoint, Line, Mark
from .spaces import FREE, Space

Figure = dict[str, Any]

#: Read on light and dark ground alike; the colour of failures is in none of them.
_COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#76b7b2", "#d4a81c", "#9c755f", "#ff9da7", "#8c8cd9",
            "#d37295", "#a0cb6c", "#c49c94")  # fmt: skip
FAILURE, _QUIET = "#e0202f", "#8a8f98"
#: The pools that have a colour of their own, the same on every page: two pages can be compared.
_USUAL = (
    *(pools.APPLICATION, pools.WLS, series.HEAP_CHUNKS, pools.TLS, pools.QUEUE, pools.COMMANDS),
    *(pools.SHADERS, pools.DESCRIPTORS, pools.RING, pools.DEVICE),
)
_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1))
#: Live and mapped are often the same: a thin line on a broad one shows both.
_STROKES: dict[str, dict[str, Any]] = {
    series.LIVE: {"width": 4},
    series.MAPPED: {"width": 1.5},
    series.HEAP_CHUNKS: {"width": 2},
}
#: Of the second of two runs: a ring round what the first has in the same place.
_SYMBOLS = {"B": "circle-open"}
_OTHERS: dict[str, Any] = {"width": 1, "dash": "dot"}
#: A request this much larger than all there was would leave no room for the rest.
_TOO_LARGE = 4
#: A point of 0 bytes on a logarithmic axis is drawn this much below the least one.
_BELOW = 4


def said(text: str) -> str:
    """Text of a trace for plotly.js, which takes some HTML in labels."""
    return html.escape(printable(text))


class Palette:
    """A colour for each pool or label, the same in every picture."""

    def __init__(self, names: Iterable[str]) -> None:
        wanted = dict.fromkeys(names)
        usual = {name: colour for name, colour in zip(_USUAL, _COLOURS, strict=False) if name in wanted}
        left = [colour for colour in _COLOURS if colour not in usual.values()]
        self._colours = usual | dict(zip((name for name in wanted if name not in usual), left, strict=False))

    def of(self, name: str) -> str:
        """Grey for those that there are no colours left for."""
        return self._colours.get(name, _QUIET)


def _entry(words: str, colour: str) -> dict[str, str]:
    """What the page's own legend has of a trace: as it is, for there it is text."""
    return {"words": printable(words), "colour": colour}


def _unit(amounts: Iterable[int]) -> tuple[str, int]:
    largest = max(amounts, default=0)
    return next((unit for unit in _UNITS if largest >= 2 * unit[1]), _UNITS[-1])


def _scaled(amounts: Iterable[int], unit: int) -> list[float]:
    return [round(amount / unit, 3) for amount in amounts]


def _stroke(name: str) -> dict[str, Any]:
    return _STROKES.get(name, _OTHERS if name.startswith("process ") else {})


def _over_time(unit: str) -> dict[str, Any]:
    return {
        "xaxis": {"title": {"text": "seconds since the recording began"}, "hoverformat": ".6f"},
        "yaxis": {"title": {"text": unit}, "rangemode": "tozero"},
        "hovermode": "closest",
    }


def _line(line: Line, colour: str, unit: int, hover: str, stroke: Mapping[str, Any]) -> dict[str, Any]:
    """An amount that holds until the next one."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": said(line.name),
        "meta": _entry(line.name, colour),
        "x": line.seconds,
        "y": _scaled(line.amounts, unit),
        "line": {"shape": "hv", "color": colour, **stroke},
        "hovertemplate": f"%{{y:,.3~f}} {hover}",
    }


def memory(lines: Sequence[Line], failures: Sequence[Mark], dispatches: Sequence[Mark]) -> Figure:
    """Memory over time, with the moments of dispatches and of failures on the line of live buffers."""
    name, unit = _unit(amount for line in lines for amount in line.amounts)
    traces = [
        _line(line, colour, unit, f"{name} at %{{x:.6f}} s", _stroke(line.name))
        for line, colour in zip(lines, _COLOURS, strict=False)
    ]
    for marks, title, symbol, row, colour in (
        (dispatches, "dispatches", "line-ns-open", "dispatch", _QUIET),
        (failures, "failures", "x", "failure", FAILURE),
    ):
        if marks:
            traces.append(_marks(marks, unit, title, symbol, row, colour))
    most = max((amount for line in lines for amount in line.amounts), default=0)
    refused = [mark for mark in failures if 0 < mark.asked <= _TOO_LARGE * most]
    if refused:
        traces.append(_asked(refused, unit))
    return {"data": traces, "layout": _over_time(name)}


def by_number(lines: Sequence[Line]) -> Figure:
    """Amounts by the number of the dispatch, which stands where a line has its time."""
    name, unit = _unit(amount for line in lines for amount in line.amounts)
    traces = [
        _line(line, colour, unit, f"{name} by dispatch %{{x}}", {})
        for line, colour in zip(lines, _COLOURS, strict=False)
    ]
    return {
        "data": traces,
        "layout": {
            "xaxis": {"title": {"text": "dispatch"}},
            "yaxis": {"title": {"text": name}, "rangemode": "tozero"},
            "hovermode": "closest",
        },
    }


def by_value(
    values: Sequence[str], amounts: Mapping[str, Sequence[int | None]], failed: Sequence[bool], name: str
) -> Figure:
    """Amounts of runs by the value each was given; None: not known. Values stand in their order."""
    unit, size = _unit(amount for line in amounts.values() for amount in line if amount is not None)
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": title,
            "meta": _entry(title, colour),
            "x": [said(value) for value in values],
            "y": [None if amount is None else round(amount / size, 3) for amount in line],
            "line": {"color": colour},
            "marker": {
                "size": 11,
                "symbol": ["x" if bad else "circle" for bad in failed],
                "color": [FAILURE if bad else colour for bad in failed],
            },
            "hovertemplate": f"%{{y:,.3~f}} {unit} with %{{x}}",
        }
        for (title, line), colour in zip(amounts.items(), _COLOURS, strict=False)
    ]
    return {
        "data": traces,
        "layout": {
            "xaxis": {"title": {"text": said(name)}, "type": "category"},
            "yaxis": {"title": {"text": unit}, "rangemode": "tozero"},
            "hovermode": "closest",
        },
    }


def _marks(
    marks: Sequence[Mark], unit: int, title: str, symbol: str, row: str, colour: str
) -> dict[str, Any]:
    texts = [
        f"{said(mark.words)}{f' and the next {mark.count - 1}' if mark.count > 1 else ''}<br>"
        f"{mark.seconds:.6f} s, {wording.size(mark.amount)} live"
        + (f"<br>{wording.size(mark.asked)} asked for" if mark.asked else "")
        for mark in marks
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": title,
        "meta": _entry(title, colour),
        "x": [mark.seconds for mark in marks],
        "y": _scaled((mark.amount for mark in marks), unit),
        "marker": {"symbol": symbol, "size": 11, "color": colour, "line": {"width": 1.5, "color": colour}},
        "hovertext": texts,
        "hoverinfo": "text",
        "customdata": [f"{row}-{mark.row}" for mark in marks],
    }


def _asked(refused: Sequence[Mark], unit: int) -> dict[str, Any]:
    """How far up the memory would have gone: a line from what was live to what was asked for on top."""
    seconds = [moment for mark in refused for moment in (mark.seconds, mark.seconds, None)]
    tops = [(mark.amount, mark.amount + mark.asked) for mark in refused]
    amounts = [amount for low, high in tops for amount in (low / unit, high / unit, None)]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "asked for, refused",
        "meta": _entry("asked for, refused", FAILURE),
        "x": seconds,
        "y": amounts,
        "line": {"color": FAILURE, "width": 2, "dash": "dot"},
        "marker": {"symbol": "triangle-up-open", "size": 9, "color": FAILURE},
        "hoverinfo": "skip",
    }


def stack(lines: Sequence[Line], failures: Sequence[Mark], palette: Palette) -> Figure:
    """Bytes by label or pool on top of each other, with a line down at each failure."""
    total = [sum(amounts) for amounts in zip(*(line.amounts for line in lines), strict=True)]
    name, unit = _unit(total)
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": said(line.name),
            "meta": _entry(line.name, palette.of(line.name)),
            "x": line.seconds,
            "y": _scaled(line.amounts, unit),
            "stackgroup": "all",
            "fillcolor": palette.of(line.name),
            "line": {"shape": "hv", "width": 0.5, "color": palette.of(line.name)},
            "hovertemplate": f"{said(line.name)}: %{{y:,.3~f}} {name}<extra></extra>",
        }
        for line in lines
    ]
    shapes = [
        {"type": "line", "x0": mark.seconds, "x1": mark.seconds, "y0": 0, "y1": 1, "yref": "paper",
         "line": {"color": FAILURE, "width": 1, "dash": "dot"}}
        for mark in failures[:50]
    ]  # fmt: skip
    return {"data": traces, "layout": {**_over_time(name), "hovermode": "x unified", "shapes": shapes}}


def workgroups(points: Sequence[DispatchPoint], palette: Palette) -> Figure:
    """Bytes a dispatch took against its workgroups, both logarithmic: a straight line is proportional."""
    sizes = [point.size for point in points if point.size]
    floor = max(min(sizes, default=4096) // _BELOW, 1)
    by_pool: dict[tuple[str, str], list[DispatchPoint]] = {}
    for point in points:
        by_pool.setdefault((point.run, point.pool), []).append(point)
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": said(_whose(run, pool or "took none")),
            "meta": _entry(_whose(run, pool or "took none"), palette.of(pool)),
            "x": [max(point.workgroups, 1) for point in own],
            "y": [point.size or floor for point in own],
            "marker": {
                "size": [min(9 + point.count.bit_length(), 20) for point in own],
                "color": [FAILURE if point.refused else palette.of(pool) for point in own],
                "symbol": ["x" if point.refused else _SYMBOLS.get(run, "circle") for point in own],
                "opacity": 0.85,
                "line": {"width": 2 if run in _SYMBOLS else 0},
            },
            "hovertext": [_point_text(point) for point in own],
            "hoverinfo": "text",
            "customdata": [f"dispatch-{point.row}" for point in own],
        }
        for (run, pool), own in by_pool.items()
    ]
    axis = {"type": "log", "showexponent": "all"}
    counts = _powers(1, max((point.workgroups for point in points), default=1))
    amounts = _powers(min(sizes, default=4096), max(sizes, default=4096))
    return {
        "data": traces,
        "layout": {
            "xaxis": {**axis, "title": {"text": "workgroups of the dispatch"}, "tickvals": counts,
                      "ticktext": [f"{count:,}" for count in counts]},
            "yaxis": {**axis, "tickvals": [floor, *amounts],
                      "ticktext": ["none", *map(wording.size, amounts)]},
            "hovermode": "closest",
        },
    }  # fmt: skip


def _whose(run: str, words: str) -> str:
    return f"{run}: {words}" if run else words


def _point_text(point: DispatchPoint) -> str:
    alike = _whose(point.run, f"{point.count} dispatches, the first: " if point.count > 1 else "dispatch ")
    refused = ", refused" if point.refused else ""
    took = f"{wording.size(point.size)} of {said(point.pool)}" if point.size else "took no buffer"
    return f"{alike}{point.number}<br>{point.shape} workgroups<br>{took}{refused}"


def _powers(low: int, high: int) -> list[int]:
    """Powers of two that cover ``low`` to ``high``, about seven of them."""
    first, last = low.bit_length() - 1, (high - 1).bit_length()
    step = max(1, -(-(last - first) // 7))
    return [1 << power for power in range(first, last + step, step)]


def address_spaces(found: Sequence[Space], palette: Palette) -> Figure:
    """Each VM as a bar: what is mapped, in the order of addresses, with the gaps between shortened."""
    names = [f"{number}. {said(space.name)}" for number, space in enumerate(found, 1)]
    by_pool: dict[str, dict[str, list[Any]]] = {}
    for name, space in zip(names, found, strict=True):
        for one in space.stretches:
            bars = by_pool.setdefault(one.pool, {"y": [], "base": [], "x": [], "text": [], "to": []})
            bars["y"].append(name)
            bars["base"].append(round(one.left, 6))
            bars["x"].append(round(one.width, 6))
            bars["to"].append("" if one.bo_id is None else f"bo-{one.bo_id}")
            what = said(one.pool) if one.pool != FREE else "free"
            count = f", {wording.counted(one.buffers, 'buffer')}" if one.buffers else ""
            bars["text"].append(
                f"{what}: {wording.size(one.size)}{count}<br>{one.va:#x} to {one.va + one.size:#x}"
            )
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": said(pool) if pool != FREE else "free, shortened",
            "meta": _entry(pool or "free, shortened", "none" if pool == FREE else palette.of(pool)),
            "y": bars["y"],
            "base": bars["base"],
            "x": bars["x"],
            "marker": {"color": "rgba(0,0,0,0)" if pool == FREE else palette.of(pool),
                       "line": {"width": 1 if pool == FREE else 0.3, "color": _QUIET}},
            "hovertext": bars["text"],
            "hoverinfo": "text",
            "customdata": bars["to"],
        }
        for pool, bars in by_pool.items()
    ]  # fmt: skip
    notes = [
        {"x": 0, "y": name, "xref": "paper", "xanchor": "left", "yanchor": "bottom", "yshift": 19,
         "showarrow": False, "align": "left",
         "text": f"{said(space.name)}: {wording.size(space.mapped)} mapped"
                 + ("" if space.of is None else f" of {wording.size(space.of)}")}
        for name, space in zip(names, found, strict=True)
    ]  # fmt: skip
    layout = {
        "barmode": "overlay",
        "bargap": 0.45,
        "xaxis": {"visible": False, "range": [0, 1]},
        "yaxis": {"visible": False, "autorange": "reversed", "fixedrange": True},
        "annotations": notes,
        "height": 20 + 72 * len(found),
        "hovermode": "closest",
    }
    return {"data": traces, "layout": layout}
