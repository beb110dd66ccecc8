# SPDX-License-Identifier: MIT
"""The table of a sweep, as the parts a report is drawn from, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence

from ..sweep.outcome import Outcome
from ..sweep.plan import Ceiling, Values
from ..verdict import wording
from .content import Grid, Part

Rows = Sequence[tuple[Values, Outcome]]


def parts(rows: Rows, name: str, ceiling: Ceiling | None, left_out: Sequence[Values]) -> Iterator[Part]:
    """The table, and what it comes to."""
    names = list(rows[0][0]) if rows else []
    columns = (
        *((one, True) for one in names),
        *(("result", False), ("verdict", False)),
        *(("peak live", True), ("largest", True), ("nearest limit: left", False)),
    )
    cells = tuple((*values.values(), *_cells(outcome)) for values, outcome in rows)
    yield Grid("", columns, cells)
    if ceiling is not None:
        yield from _ceiling(rows, name, ceiling)
    if left_out:
        yield f"not run, for an earlier one failed: {', '.join(' '.join(one.values()) for one in left_out)}"


def _cells(outcome: Outcome) -> tuple[str, ...]:
    result = "ok" if not outcome.failed else f"exit {outcome.exit_status}"
    if outcome.exit_status is None:
        result = "unknown"
    verdict = outcome.cause if outcome.confidence == "high" else f"{outcome.cause} ({outcome.confidence})"
    left = "-"
    if outcome.limit is not None:
        left = f"{outcome.limit}: {wording.amount(outcome.headroom, outcome.limit_unit)}"
    return (
        result,
        verdict,
        wording.amount(outcome.peak_live_bytes, "bytes", "-"),
        wording.amount(outcome.largest_allocation, "bytes", "-"),
        left,
    )


def _ceiling(rows: Rows, name: str, ceiling: Ceiling) -> Iterator[str]:
    works, fails = ceiling.works, ceiling.fails
    if fails is None:
        yield f"ceiling: above {name}={works}: no value failed"
        return
    cause = next(outcome for values, outcome in rows if values[name] == str(fails))
    why = f"{name}={fails} fails ({cause.cause}: {cause.headline})"
    if works is None:
        yield f"ceiling: below {name}={fails}: no value worked; {why}"
    else:
        yield f"ceiling: {name}={works} works, {why}"


def as_json(rows: Rows, command: Sequence[str], ceiling: Ceiling | None, left_out: Sequence[Values]) -> str:
    """All of it."""
    content = {
        "command": list(command),
        "results": [{"values": dict(values), **outcome.as_json()} for values, outcome in rows],
        "ceiling": None if ceiling is None else {"works": ceiling.works, "fails": ceiling.fails},
        "not_run": [dict(values) for values in left_out],
    }
    return json.dumps(content, indent=1) + "\n"


def as_csv(rows: Rows) -> str:
    """One row a value; empty: not known."""
    file = io.StringIO()
    names = list(rows[0][0]) if rows else []
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*names, *Outcome.__dataclass_fields__])
    for values, outcome in rows:
        found: Mapping[str, object] = outcome.as_json()
        writer.writerow([*values.values(), *("" if value is None else value for value in found.values())])
    return file.getvalue().replace("\r", "\\r")
