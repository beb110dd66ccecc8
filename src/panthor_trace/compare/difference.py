# SPDX-License-Identifier: MIT
"""How run B differs from run A: what is bigger, new, failing, slower, and where they first part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..analysis import Analysis
from ..report.allocations import workgroups
from ..report.series import subject
from ..verdict.wording import size
from .measures import MEASURES, pool_bytes

#: Less is noise of the clock and of what else the machine does.
_SLOWER_NS, _SLOWER_TIMES = 1_000_000, 1.5


@dataclass(frozen=True)
class Change:
    """One number in both runs; None: not known, or not there."""

    name: str
    unit: str
    a: int | None
    b: int | None

    @property
    def difference(self) -> int | None:
        """B minus A."""
        return None if self.a is None or self.b is None else self.b - self.a


@dataclass(frozen=True)
class FailureCount:
    """One kind of failure, and how often it was in each run."""

    what: str
    error: str
    a: int
    b: int


@dataclass(frozen=True)
class DispatchPair:
    """The dispatches of one number; bytes are those allocated inside, times from submit until done."""

    number: int
    workgroups_a: str
    workgroups_b: str
    bytes_a: int
    bytes_b: int
    ns_a: int | None
    ns_b: int | None


@dataclass(frozen=True)
class Difference:
    """All of it. Dispatches are matched by their number, in the process each verdict is about."""

    changes: tuple[Change, ...]
    pools: tuple[Change, ...]
    failures: tuple[FailureCount, ...]
    dispatches: tuple[int, int]
    #: Pairs that take more memory in B, or less, the largest difference first.
    bigger: tuple[DispatchPair, ...]
    #: Pairs of which B's was noticeably later done.
    slower: tuple[DispatchPair, ...]
    #: Where the runs first part, as sentences; empty: nowhere that was recorded.
    first: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain types for JSON."""
        content = asdict(self)
        for name in ("changes", "pools"):
            for row in content[name]:
                missing = row["a"] is None or row["b"] is None
                row["difference"] = None if missing else row["b"] - row["a"]
        return content


def difference(a: Analysis, b: Analysis) -> Difference:
    """Compare two runs."""
    changes = tuple(Change(one.name, one.unit, one.of(a), one.of(b)) for one in MEASURES)
    pools_a, pools_b = pool_bytes(a), pool_bytes(b)
    pools = [Change(name, "bytes", pools_a.get(name), pools_b.get(name)) for name in {**pools_a, **pools_b}]
    pools.sort(key=lambda row: (-abs((row.b or 0) - (row.a or 0)), row.name))
    own_a, own_b = _dispatches(a), _dispatches(b)
    bigger, slower = _pairs(own_a, own_b)
    return Difference(
        changes=changes,
        pools=tuple(row for row in pools if row.a != row.b),
        failures=tuple(_failures(a, b)),
        dispatches=(len(own_a), len(own_b)),
        bigger=bigger,
        slower=slower,
        first=tuple(_first(a, b, own_a, own_b)),
    )


def _pid(run: Analysis) -> int | None:
    about = subject(run.tables, run.verdict, run.trace.meta).pid
    dispatched = run.tables.dispatches["pid"]
    if len(dispatched) and not (dispatched == about).any():
        return int(dispatched.mode().iloc[0])
    return about


def _dispatches(run: Analysis) -> pd.DataFrame:
    table = run.tables.dispatches
    return table[table["pid"] == _pid(run)].reset_index(drop=True)


def _failures(a: Analysis, b: Analysis) -> Iterator[FailureCount]:
    counts = [
        Counter(
            zip(
                run.tables.failures["what"].astype(str), run.tables.failures["error"].astype(str), strict=True
            )
        )
        for run in (a, b)
    ]
    for what, error in {**counts[0], **counts[1]}:
        in_a, in_b = (count[what, error] for count in counts)
        if in_a != in_b:
            yield FailureCount(what, error, in_a, in_b)


def _pairs(a: pd.DataFrame, b: pd.DataFrame) -> tuple[tuple[DispatchPair, ...], tuple[DispatchPair, ...]]:
    both = min(len(a), len(b))
    bytes_a, bytes_b = (table["bytes_allocated"].to_numpy(np.int64)[:both] for table in (a, b))
    change = bytes_b - bytes_a
    order = np.argsort(-np.abs(change), kind="stable")
    bigger = tuple(_pair(a, b, int(at)) for at in order[: np.count_nonzero(change)])
    times_a, times_b = (
        table["submit_to_done_ns"].astype("Float64").to_numpy(np.float64, na_value=np.nan)[:both]
        for table in (a, b)
    )
    with np.errstate(invalid="ignore"):
        late = (times_b - times_a > _SLOWER_NS) & (times_b > times_a * _SLOWER_TIMES)
    # The dispatches of one submit share its time: the first stands for them.
    submits = b["submit_id"].astype("Int64").to_numpy(np.int64, na_value=-1)[:both]
    places = np.flatnonzero(late)
    places = places[np.unique(submits[places], return_index=True)[1]]
    places = places[np.argsort(-(times_b - times_a)[places], kind="stable")]
    return bigger, tuple(_pair(a, b, int(at)) for at in places)


def _pair(a: pd.DataFrame, b: pd.DataFrame, at: int) -> DispatchPair:
    rows = a.iloc[at], b.iloc[at]
    sizes = [int(row["bytes_allocated"]) for row in rows]
    times = [None if pd.isna(row["submit_to_done_ns"]) else int(row["submit_to_done_ns"]) for row in rows]
    return DispatchPair(at + 1, workgroups(rows[0]), workgroups(rows[1]), *sizes, *times)


#: What of a dispatch is compared, in words.
_ASPECTS: Mapping[str, tuple[str, ...]] = {
    "the work": ("function", "groups_x", "groups_y", "groups_z"),
    "the end of its recording": ("end_result",),
    "the memory allocated in it": ("bytes_allocated",),
}


def _first(a: Analysis, b: Analysis, own_a: pd.DataFrame, own_b: pd.DataFrame) -> Iterator[str]:
    both = min(len(own_a), len(own_b))
    for aspect, columns in _ASPECTS.items():
        differs = np.zeros(both, bool)
        for column in columns:
            left, right = (table[column].iloc[:both].reset_index(drop=True) for table in (own_a, own_b))
            same = left.eq(right).fillna(False).astype(bool) | (left.isna() & right.isna())
            differs |= ~same.to_numpy()
        if differs.any():
            at = int(differs.argmax())
            yield (
                f"{aspect}: from dispatch {at + 1} on, {_described(own_a.iloc[at], columns)} in A, "
                f"{_described(own_b.iloc[at], columns)} in B"
            )
    if len(own_a) != len(own_b):
        fewer, other = ("A", "B") if len(own_a) < len(own_b) else ("B", "A")
        most = max(len(own_a), len(own_b))
        ends = f"{fewer} ends with dispatch {both}, {other} goes on to {most}"
        yield ends if both else f"{fewer} recorded no dispatch, {other} {most}"
    yield from _first_buffer(a, b)


def _described(row: pd.Series, columns: tuple[str, ...]) -> str:
    if columns == ("bytes_allocated",):
        return f"{size(int(row['bytes_allocated']))} ({workgroups(row) or 'indirect'})"
    if columns == ("end_result",):
        return str(row["end_result"]) if pd.notna(row["end_result"]) else "none"
    return f"{row['function']} {workgroups(row)}".rstrip()


def _first_buffer(a: Analysis, b: Analysis) -> Iterator[str]:
    """The first buffer, in the order they were asked for, that differs in size or answer."""
    rows = [run.tables.bos[run.tables.bos["pid"] == _pid(run)] for run in (a, b)]
    both = min(map(len, rows))
    left, right = (
        table[["size", "ret"]].iloc[:both].astype("Float64").fillna(-1).to_numpy() for table in rows
    )
    differs = (left != right).any(axis=1)
    if differs.any():
        at = int(differs.argmax())
        described = [_buffer(table.iloc[at]) for table in rows]
        yield f"the buffers: from buffer {at + 1} on, {described[0]} in A, {described[1]} in B"
    elif len(rows[0]) != len(rows[1]):
        yield f"the buffers: {len(rows[0])} asked for in A, {len(rows[1])} in B, alike as far as both go"


def _buffer(row: pd.Series) -> str:
    answer = "" if row["ret"] == 0 else f", {row['errno']}"
    inside = f" in {row['function']}" if isinstance(row["function"], str) else ""
    return f"{size(int(row['size']))}{inside}{answer}"
