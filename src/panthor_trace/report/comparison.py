# SPDX-License-Identifier: MIT
"""Two runs side by side, as the parts a report is drawn from."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ..analysis import Analysis
from ..compare.difference import Change, Difference, DispatchPair
from ..verdict import wording
from .content import Grid, Part, Section

#: More of them tell no more.
_ROWS = 10
_UNKNOWN = "unknown"


def answer(a: Analysis, b: Analysis) -> str:
    """The first line: how the verdicts compare."""
    causes = a.verdict.cause.value, b.verdict.cause.value
    if causes[0] == causes[1]:
        return f"the same verdict: {causes[0]}. {b.verdict.headline}"
    return f"{causes[0]} in A, {causes[1]} in B. A: {a.verdict.headline}; B: {b.verdict.headline}"


def parts(a: Analysis, b: Analysis, found: Difference) -> Iterator[Part]:
    """All of the comparison."""
    yield answer(a, b)
    yield Grid("runs", (("", False), ("A", False), ("B", False)), tuple(_runs(a, b)), whole_first=True)
    yield Section("first divergence", found.first or ("none: dispatches and buffers are the same",))
    rows = tuple(_row(change) for change in found.changes if change.a is not None or change.b is not None)
    yield Grid("measured", _COLUMNS, rows)
    if found.failures:
        columns = (("failure", False), ("A", True), ("B", True))
        failures = [(f"{one.what} → {one.error}", str(one.a), str(one.b)) for one in found.failures]
        yield Grid("failures that are not in both alike", columns, tuple(failures[:_ROWS]))
    if found.pools:
        pools = tuple(_row(change) for change in found.pools[:_ROWS])
        yield Grid("allocated, by label or pool", _COLUMNS, pools)
    if found.bigger:
        yield _pairs("dispatches that allocate differently", found.bigger, "bytes")
    if found.slower:
        yield _pairs("dispatches done later after their submit", found.slower, "ns")


_COLUMNS = (("", False), ("A", True), ("B", True), ("B - A", True), ("B / A", True))


def _runs(a: Analysis, b: Analysis) -> Iterator[tuple[str, str, str]]:
    runs = (a, b)

    def row(name: str, values: list[str]) -> tuple[str, str, str]:
        same = values[0] == values[1] != _UNKNOWN
        return name, values[0], "the same" if same else values[1]

    yield "trace", str(a.trace.path or "-"), str(b.trace.path or "-")
    yield row("command", [shlex.join(map(str, run.trace.meta.get("command") or ())) for run in runs])
    machines = [run.trace.meta.get("machine") or {} for run in runs]
    yield row("kernel", [str(machine.get("kernel", _UNKNOWN)) for machine in machines])
    yield row("Vulkan driver", [_driver(run) for run in runs])
    yield row("exit status", [str((run.trace.end or {}).get("exit_code", _UNKNOWN)) for run in runs])
    yield row("confidence", [run.verdict.confidence.value for run in runs])


def _driver(run: Analysis) -> str:
    """The build of Mesa's Vulkan driver: its version is in no trace."""
    modules = run.tables.modules
    names = modules["path"].fillna("").astype(str).str.rsplit("/", n=1).str[-1]
    found = modules[names.str.match(r"libvulkan_\w+\.so") & modules["build_id"].notna()]
    return f"build id {str(found['build_id'].iloc[0])[:16]}" if len(found) else _UNKNOWN


def _times(ratio: float) -> str:
    """To two digits, never as a power of ten."""
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}" if ratio >= 0.01 else "< 0.01"


def _row(change: Change) -> tuple[str, ...]:
    values = [wording.amount(value, change.unit, "-") for value in (change.a, change.b)]
    if change.difference is None:
        word = "new" if change.a is None and change.b is not None else "gone" if change.b is None else ""
        return change.name, *values, word, ""
    if change.difference == 0:
        return change.name, *values, "", ""
    sign = "+" if change.difference > 0 else "-"
    times = _times(change.b / change.a) if change.a and change.b else ""
    return change.name, *values, sign + wording.amount(abs(change.difference), change.unit), times


def _pairs(title: str, pairs: tuple[DispatchPair, ...], unit: str) -> Grid:
    columns = (("dispatch", True), ("workgroups A", False), ("B", False), ("A", True), ("B", True))
    rows = []
    for pair in pairs[:_ROWS]:
        values = (pair.bytes_a, pair.bytes_b) if unit == "bytes" else (pair.ns_a, pair.ns_b)
        same = "the same" if pair.workgroups_a == pair.workgroups_b else pair.workgroups_b or "-"
        amounts = [wording.amount(value, unit) for value in values]
        rows.append((str(pair.number), pair.workgroups_a or "-", same, *amounts))
    more = f", {len(rows)} of {len(pairs)}" if len(pairs) > len(rows) else ""
    return Grid(title + more, columns, tuple(rows))
