# SPDX-License-Identifier: MIT
"""What the pictures of a report are drawn from: a bounded number of points, however long the trace is.

Pure: tables in, plain numbers out. Times are seconds since the recording began, amounts are bytes.
Whatever is thinned out keeps its peaks and what happened at failures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..model import Tables
from ..model.lookup import answered
from ..verdict import Verdict
from .allocations import workgroups

#: Stretches a line is divided into: the least and the most of each are kept.
STRETCHES = 1500
#: How many marks of one kind, pools in the stack, processes with a line of their own.
MARKS, POOLS, PROCESSES = 1500, 11, 8
#: What is left of the pools, and the chunks of tiler heaps, which belong to no buffer.
OTHER, HEAP_CHUNKS = "other", "tiler heap chunks"
LIVE, MAPPED = "live buffers", "mapped on the GPU"

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Line:
    """An amount over time: it holds from each moment to the next."""

    name: str
    seconds: Sequence[float]
    amounts: Sequence[int]


@dataclass(frozen=True)
class Mark:
    """Something at one moment, at the height of the memory then live; ``row`` is its row's number.

    It stands for ``count`` of them, and ``asked`` for that many bytes which were refused.
    """

    seconds: float
    amount: int
    words: str
    row: int
    count: int = 1
    asked: int = 0


@dataclass(frozen=True)
class DispatchPoint:
    """Dispatches of as many workgroups that took as many bytes of the same pool; ``row`` is the first.

    ``run`` tells two runs apart.
    """

    workgroups: int
    size: int
    pool: str
    refused: bool
    count: int
    number: int
    shape: str
    row: int
    run: str = ""


@dataclass(frozen=True)
class Subject:
    """The process the pictures are about, and the moment of the verdict; None: no such process, or moment."""

    pid: int | None
    at_ns: int | None
    start_ns: int

    def seconds(self, time_ns: npt.ArrayLike) -> list[float]:
        """Times as seconds since the recording began, to the microsecond."""
        since = np.asarray(time_ns, np.int64) - self.start_ns
        return [float(value) for value in np.round(since / 1e9, 6)]


def subject(tables: Tables, verdict: Verdict, meta: Mapping[str, Any]) -> Subject:
    """The process of the failure, else the one with the most memory."""
    pid = verdict.failing_call.pid if verdict.failing_call else None
    if pid is None and verdict.refusal is not None:
        pid = verdict.refusal.pid
    if pid is None and len(tables.memory):
        pid = int(tables.memory["pid"].iloc[int(tables.memory["live_bo_bytes"].to_numpy().argmax())])
    return Subject(pid, verdict.at_ns, int(meta.get("started_monotonic_ns", 0)))


def thinned(amounts: Numbers, keep: Numbers, stretches: int = STRETCHES) -> Numbers:
    """Indices of ``amounts`` that show its shape: ends, the extremes of each stretch, and ``keep``."""
    count = len(amounts)
    if count <= 2 * stretches:
        return np.arange(count)
    edges = np.linspace(0, count, stretches + 1).astype(np.int64)[:-1]
    lowest, highest = np.minimum.reduceat(amounts, edges), np.maximum.reduceat(amounts, edges)
    whose = np.searchsorted(edges, np.arange(count), side="right") - 1
    extreme = (amounts == lowest[whose]) | (amounts == highest[whose])
    # Of a long flat stretch its first moment is enough: nothing changes until the next one's.
    change = np.concatenate([[True], (amounts[1:] != amounts[:-1]) | (whose[1:] != whose[:-1])])
    candidates = np.flatnonzero(extreme & change)
    kind = whose[candidates] * 2 + (amounts[candidates] == highest[whose[candidates]])
    first = candidates[np.unique(kind, return_index=True)[1]]
    return np.unique(np.concatenate([[0, count - 1], first, keep[(keep >= 0) & (keep < count)]]))


def _last_before(times: Numbers, moments: Numbers) -> Numbers:
    """Indices of the last of ``times`` (sorted) not after each moment; -1: none."""
    return np.searchsorted(times, moments, side="right") - 1


def buffers_by_ioctl(tables: Tables) -> dict[int, int]:
    """The buffer each refused ioctl is about: the one it would have made, or was to map."""
    refused = tables.bos[~answered(tables.bos["ret"])]
    found = dict(zip(refused["ioctl_id"].astype("int64"), refused["bo_id"], strict=True))
    binds = tables.binds[tables.binds["refused"].fillna(False).astype(bool) & tables.binds["bo_id"].notna()]
    found.update(zip(binds["ioctl_id"].astype("int64"), binds["bo_id"].astype("int64"), strict=True))
    return found


def first_and_last(table: pd.DataFrame, most: int) -> pd.DataFrame:
    """``table``, or of a longer one the rows at both ends."""
    return table if len(table) <= most else pd.concat([table.iloc[: most // 2], table.iloc[-most // 2 :]])


def failure_times(tables: Tables, about: Subject) -> Numbers:
    """When the process's failures were, the first and the last of them where there are very many."""
    table = tables.failures
    return first_and_last(table[table["pid"] == about.pid], MARKS)["time_ns"].to_numpy(np.int64)


def memory_lines(tables: Tables, about: Subject) -> list[Line]:
    """The process's live, mapped and heap memory; after these the live memory of the other processes."""
    keep = failure_times(tables, about)
    own = tables.memory[tables.memory["pid"] == about.pid]
    columns = [(LIVE, "live_bo_bytes"), (MAPPED, "bound_bytes")]
    columns += [(HEAP_CHUNKS, "heap_bytes")] if own["heap_bytes"].any() else []
    lines = [_line(own, column, name, about, keep) for name, column in columns] if len(own) else []
    others = tables.memory[tables.memory["pid"] != about.pid]
    peaks = others.groupby("pid")["live_bo_bytes"].max().sort_values(ascending=False, kind="stable")
    for pid in peaks[peaks > 0].index[:PROCESSES]:
        frame = others[others["pid"] == pid]
        lines.append(_line(frame, "live_bo_bytes", f"process {pid}", about, keep))
    return lines


def _line(frame: pd.DataFrame, column: str, name: str, about: Subject, keep: Numbers) -> Line:
    times, amounts = frame["time_ns"].to_numpy(np.int64), frame[column].to_numpy(np.int64)
    chosen = thinned(amounts, _last_before(times, keep))
    return Line(name, about.seconds(times[chosen]), amounts[chosen].tolist())


def stacked_pools(tables: Tables, about: Subject) -> list[Line]:
    """Bytes live by label or pool, all at the same moments, the largest pool first."""
    exits = tables.processes.set_index("pid")["exit_ns"]
    bos = tables.bos[answered(tables.bos["ret"]) & (tables.bos["pid"] == about.pid)]
    ends = bos["closed_ns"].astype("Int64").fillna(bos["pid"].map(exits).astype("Int64"))
    ended = ends.notna().to_numpy(bool)
    sizes, names = bos["size"].to_numpy(np.int64), purposes(bos).to_numpy(object)
    times = np.concatenate([bos["created_ns"].to_numpy(np.int64), ends[ended].to_numpy(np.int64)])
    steps = np.concatenate([sizes, -sizes[ended]])
    whose = np.concatenate([names, names[ended]])
    heap = tables.memory[tables.memory["pid"] == about.pid]
    change = heap["heap_bytes"].diff().fillna(heap["heap_bytes"]).to_numpy(np.int64)
    grown = change != 0
    times = np.concatenate([times, heap["time_ns"].to_numpy(np.int64)[grown]])
    steps = np.concatenate([steps, change[grown]])
    whose = np.concatenate([whose, np.full(int(grown.sum()), HEAP_CHUNKS, object)])
    if not len(times):
        return []
    order = np.argsort(times, kind="stable")
    times, steps, whose = times[order], steps[order], whose[order]
    # Only the state after all that happened at one moment is a state.
    last = np.append(np.flatnonzero(times[1:] != times[:-1]), len(times) - 1)
    chosen = last[thinned(np.cumsum(steps)[last], _last_before(times[last], failure_times(tables, about)))]
    by_pool = dict(_by_pool(steps, whose, chosen))
    ranked = sorted(by_pool, key=lambda name: -by_pool[name][0])
    amounts = {name: by_pool[name][1] for name in ranked[:POOLS]}
    if ranked[POOLS:]:
        amounts[OTHER] = np.sum([by_pool[name][1] for name in ranked[POOLS:]], axis=0)
    seconds = about.seconds(times[chosen])
    return [Line(name, seconds, values.tolist()) for name, values in amounts.items()]


def _by_pool(
    steps: Numbers, whose: npt.NDArray[np.object_], chosen: Numbers
) -> Iterator[tuple[str, tuple[int, Numbers]]]:
    """Each pool's peak, and what it had after the steps ``chosen``; labels may be as many as buffers."""
    codes, names = pd.factorize(whose)
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(names) + 1))
    for code, name in enumerate(names):
        own = order[edges[code] : edges[code + 1]]
        amounts = np.cumsum(steps[own])
        yield str(name), (int(amounts.max()), np.append(amounts, 0)[_last_before(own, chosen)])


def buffer_sizes(bos: pd.DataFrame) -> pd.Series:
    """The size of each buffer, or what was asked for where it was refused."""
    return bos["size"].fillna(bos["requested"]).astype("int64")


def purposes(bos: pd.DataFrame) -> pd.Series:
    """What each buffer is for: the label user space gave it, else the pool it was inferred to belong to."""
    label = bos["label"].astype(object).where(bos["label"].notna() & bos["label"].ne(""), bos["pool"])
    return label.astype(object).where(label.notna() & label.ne(""), "unknown").astype(str)


def failure_marks(tables: Tables, about: Subject) -> list[Mark]:
    """Every failure of the process; of very many the first and the last."""
    table = first_and_last(tables.failures[tables.failures["pid"] == about.pid], MARKS)
    words = [f"{what} → {error}" for what, error in zip(table["what"], table["error"], strict=True)]
    marks = _marks(tables, about, table["time_ns"], words, table["failure_id"])
    bo_of, sizes = buffers_by_ioctl(tables), buffer_sizes(tables.bos)
    bos = [bo_of.get(ioctl_id) for ioctl_id in table["ioctl_id"]]
    asked = [0 if bo_id is None else int(sizes.iloc[bo_id]) for bo_id in bos]
    return [replace(mark, asked=size) for mark, size in zip(marks, asked, strict=True)]


def dispatch_marks(tables: Tables, about: Subject) -> list[Mark]:
    """Dispatches when they were recorded; of very many one for each stretch, with how many it stands for."""
    table = tables.dispatches[tables.dispatches["pid"] == about.pid]
    starts = np.arange(len(table))
    if len(table) > MARKS:
        starts = np.unique(np.linspace(0, len(table), MARKS, endpoint=False).astype(np.int64))
    counts = np.diff(np.append(starts, len(table)))
    chosen = table.iloc[starts]
    words = [f"dispatch {row['number']} {workgroups(row)}".rstrip() for _, row in chosen.iterrows()]
    return _marks(tables, about, chosen["enter_ns"], words, chosen["dispatch_id"], counts)


def _marks(
    tables: Tables,
    about: Subject,
    times_ns: pd.Series,
    words: Sequence[str],
    rows: pd.Series,
    counts: Numbers | None = None,
) -> list[Mark]:
    own = tables.memory[tables.memory["pid"] == about.pid]
    times = times_ns.to_numpy(np.int64)
    amounts = np.concatenate([own["live_bo_bytes"].to_numpy(np.int64), [0]])
    heights = amounts[_last_before(own["time_ns"].to_numpy(np.int64), times)]
    every = np.ones(len(times), np.int64) if counts is None else counts
    columns = zip(about.seconds(times), heights.tolist(), words, rows, every.tolist(), strict=True)
    return [Mark(seconds, amount, text, int(row), count) for seconds, amount, text, row, count in columns]


def dispatch_points(tables: Tables, about: Subject) -> list[DispatchPoint]:
    """Bytes that dispatches took against their workgroups, by pool; alike ones are one point.

    A dispatch that took nothing, as one does whose pool has a buffer left over, is a point of 0 bytes.
    """
    axes = ["groups_x", "groups_y", "groups_z"]
    table = tables.dispatches[(tables.dispatches["pid"] == about.pid)]
    table = table[table[axes].notna().all(axis=1)]
    if table.empty:
        return []
    bos = tables.bos[tables.bos["dispatch_id"].notna()]
    refused = bos["bo_id"].isin(set(buffers_by_ioctl(tables).values()))
    made = pd.DataFrame(
        {
            "dispatch_id": bos["dispatch_id"].astype("int64"),
            "pool": purposes(bos),
            "refused": refused,
            "size": buffer_sizes(bos),
        }
    )
    made = made.groupby(["dispatch_id", "pool", "refused"])["size"].sum().reset_index()
    frame = table[["dispatch_id", "number", *axes]].merge(made, on="dispatch_id", how="left")
    frame = frame.fillna({"pool": "", "refused": False, "size": 0}).astype({"refused": bool, "size": "int64"})
    frame["workgroups"] = frame[axes].astype("float64").prod(axis=1).astype("int64")
    alike = frame.groupby(["workgroups", "size", "pool", "refused"], sort=False)
    points = frame.loc[alike.head(1).index].assign(alike=alike["number"].size().to_numpy())
    # The refused and the large are what is looked for; a workload has few shapes.
    points = points.sort_values(["refused", "size"], ascending=False, kind="stable").head(2 * MARKS)
    return [
        DispatchPoint(
            workgroups=int(row["workgroups"]),
            size=int(row["size"]),
            pool=str(row["pool"]),
            refused=bool(row["refused"]),
            count=int(row["alike"]),
            number=int(row["number"]),
            shape=workgroups(row),
            row=int(row["dispatch_id"]),
        )
        for _, row in points.iterrows()
    ]
