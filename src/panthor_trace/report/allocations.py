# SPDX-License-Identifier: MIT
"""What the report shows of buffers: the largest ones, and how memory grew from dispatch to dispatch."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from ..model import Tables
from ..verdict import Verdict


@dataclass(frozen=True)
class Allocation:
    """One buffer: its size, what it is for, who asked for it, what became of it."""

    size: int
    #: Label or pool, where either is known.
    purpose: str
    owner: str
    fate: str


@dataclass(frozen=True)
class Step:
    """A dispatch and the GPU memory at its end."""

    title: str
    number: int
    workgroups: str
    allocated: int
    bound: int
    live: int


def largest(tables: Tables, count: int = 10) -> list[Allocation]:
    """The largest buffers, refused ones included."""
    bos = tables.bos
    order = bos["size"].astype("float64").sort_values(ascending=False, kind="stable").index[:count]
    return [
        Allocation(int(bo["size"]), _purpose(bo), owner(tables, bo["vulkan_id"]), _fate(tables, bo))
        for _, bo in bos.loc[order].iterrows()
    ]


def _purpose(bo: pd.Series) -> str:
    """The label user space gave it, else the pool it was inferred to belong to."""
    for column in ("label", "pool"):
        value = bo.get(column)
        if value is not None and not pd.isna(value) and str(value):
            return str(value)
    return ""


def owner(tables: Tables, vulkan_id: object) -> str:
    """The Vulkan call a request was made in, with the dispatch's number and workgroups."""
    if pd.isna(vulkan_id):  # type: ignore[call-overload]
        return "no probed call"
    found = tables.dispatches[tables.dispatches["vulkan_id"] == vulkan_id]
    if len(found):
        dispatch = found.iloc[0]
        return f"dispatch {dispatch['number']} {workgroups(dispatch)}".rstrip()
    return str(tables.vulkan["function"].iloc[int(vulkan_id)])  # type: ignore[call-overload]


def workgroups(dispatch: pd.Series) -> str:
    """``64x2x1``; empty for an indirect dispatch."""
    counts = [dispatch.get(f"groups_{axis}") for axis in "xyz"]
    if any(count is None or pd.isna(count) for count in counts):
        return ""
    return "x".join(str(count) for count in counts)


def _fate(tables: Tables, bo: pd.Series) -> str:
    if bo["ret"] != 0:
        return f"refused: {bo['errno']}" if bo["errno"] else "unfinished"
    binds = tables.binds[tables.binds["bo_id"].eq(bo["bo_id"]).fillna(False).astype(bool)]
    refused = binds[binds["ret"].lt(0).fillna(False).astype(bool)]
    if len(refused):
        return f"bind: {refused['errno'].iloc[-1]}"
    closed = "closed" if pd.notna(bo["closed_ns"]) else "live"
    return closed if len(binds) else f"{closed}, never bound"


def live_bytes(tables: Tables, at_ns: int, pid: int | None = None) -> int:
    """Size of all buffers that had been made and not closed at ``at_ns``."""
    bos = tables.bos
    there = bos["ret"].eq(0) & (bos["created_ns"] <= at_ns) & bos["closed_ns"].gt(at_ns).fillna(True)
    if pid is not None:
        there &= bos["pid"] == pid
    return int(bos.loc[there.fillna(False).astype(bool), "size"].sum())


def growth(tables: Tables, verdict: Verdict) -> list[Step]:
    """The first dispatch and the failing one (or the last before the failure, or the last)."""
    dispatches = tables.dispatches
    call = verdict.failing_call
    title = "last"
    if call is not None:
        dispatches = dispatches[dispatches["pid"] == call.pid]
        if verdict.at_ns is not None:
            dispatches = dispatches[dispatches["enter_ns"] <= verdict.at_ns]
        title = "failing" if call.dispatch_number is not None else "last before the failure"
        if call.dispatch_number is not None:
            dispatches = dispatches[dispatches["number"] <= call.dispatch_number]
    if dispatches.empty:
        return []
    steps = [("first", dispatches.iloc[0])]
    if len(dispatches) > 1:
        steps.append((title, dispatches.iloc[-1]))
    return [
        Step(
            name,
            int(row["number"]),
            workgroups(row),
            int(row["bytes_allocated"]),
            int(row["bytes_bound"]),
            live_bytes(tables, int(row["exit_ns"]), int(row["pid"])),
        )
        for name, row in steps
    ]
