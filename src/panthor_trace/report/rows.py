# SPDX-License-Identifier: MIT
"""The tables of the page: failures, dispatches and buffers, which lead to one another.

Of a long trace not every row can be there: first come the failed and what they are about, then the largest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..model import Tables
from ..model.lookup import look_up
from ..model.stacks import describe
from ..verdict import wording
from .allocations import workgroups
from .series import MARKS, Subject, buffer_sizes, buffers_by_ioctl, first_and_last, purposes

#: Rows of each table on the page: as many as there are marks that lead to them.
MOST = MARKS


@dataclass(frozen=True)
class Cell:
    """A cell: its words, what it sorts by, the row it leads to, and text that is folded away."""

    words: str
    key: float | str | None = None
    link: str = ""
    folded: Sequence[str] = ()


@dataclass(frozen=True)
class Row:
    """A row by the name that links to it have."""

    name: str
    cells: Sequence[Cell]
    failed: bool = False


@dataclass(frozen=True)
class Listing:
    """A table: columns of (title, is it a number); ``total`` is how many rows the trace has."""

    name: str
    title: str
    columns: Sequence[tuple[str, bool]]
    rows: Sequence[Row]
    total: int


def listings(tables: Tables, about: Subject) -> list[Listing]:
    """The tables that have rows, with links among what is shown."""
    return [listing for listing in _Page(tables, about).listings() if listing.rows]


class _Page:
    """Which rows are shown, and how they hang together."""

    def __init__(self, tables: Tables, about: Subject) -> None:
        self._tables = tables
        self._about = about
        bos, dispatches = tables.bos, tables.dispatches
        self._bo_of_ioctl = buffers_by_ioctl(tables)
        self._failures = first_and_last(tables.failures, MOST)
        failed_bos = set(self._bo_of_ioctl.values())
        refused = bos["bo_id"].isin(failed_bos)
        size = self._sizes = buffer_sizes(bos)
        order = pd.DataFrame({"refused": refused.astype(bool), "size": size})
        chosen = order.sort_values(["refused", "size"], ascending=False, kind="stable").index[:MOST]
        self._bos = bos.loc[chosen].assign(purpose=purposes(bos.loc[chosen]), amount=size, refused=refused)
        owners = set(self._bos["dispatch_id"].dropna())
        order = dispatches[["failed_ioctls", "bytes_allocated"]].assign(
            owner=dispatches["dispatch_id"].isin(owners)
        )
        ranked = order.sort_values(
            ["failed_ioctls", "owner", "bytes_allocated"], ascending=False, kind="stable"
        )
        self._dispatches = dispatches.loc[sorted(ranked.index[:MOST])]
        self._dispatch_numbers = dispatches.set_index("vulkan_id")["dispatch_id"]
        self._shown = {
            "failure": set(self._failures["failure_id"]),
            "dispatch": set(self._dispatches["dispatch_id"]),
            "bo": set(self._bos["bo_id"]),
        }

    def listings(self) -> Iterator[Listing]:
        """All three."""
        number, words = True, False
        yield Listing(
            "failures",
            "Failures",
            (("time", number), ("process", number), ("what", words), ("error", words), ("origin", words),
             ("inside", words), ("dispatch", words), ("buffer", words), ("stack", words)),
            list(self._failure_rows()),
            len(self._tables.failures),
        )  # fmt: skip
        yield Listing(
            "dispatches",
            "Dispatches",
            (("dispatch", number), ("process", number), ("time", number), ("workgroups", number),
             ("allocated", number), ("bound", number), ("buffers", words), ("command buffer", words),
             ("end of recording", words), ("submit to done", number)),
            list(self._dispatch_rows()),
            len(self._tables.dispatches),
        )  # fmt: skip
        yield Listing(
            "buffers",
            "Buffers",
            (("buffer", number), ("size", number), ("label or pool", words), ("process", number),
             ("made", number), ("lived", number), ("asked for in", words), ("dispatch", words),
             ("VM", number), ("GPU address", number), ("then", words)),
            list(self._buffer_rows()),
            len(self._tables.bos),
        )  # fmt: skip

    def _failure_rows(self) -> Iterator[Row]:
        functions = look_up(self._failures["vulkan_id"], self._tables.vulkan["function"])
        dispatches = look_up(self._failures["vulkan_id"], self._dispatch_numbers)
        wanted = self._failures["stack_id"].dropna()
        table = self._tables.stacks
        stacks = dict(list(table[table["stack_id"].isin(wanted)].groupby("stack_id")))
        for (_, row), function, dispatch in zip(
            self._failures.iterrows(), functions, dispatches, strict=True
        ):
            frames = stacks.get(row["stack_id"]) if pd.notna(row["stack_id"]) else None
            stack = [] if frames is None else [describe(frame) for _, frame in frames.iterrows()]
            origin = str(row["origin"]) if pd.notna(row["origin"]) else ""
            chain = str(row["origin_chain"]).split(" < ") if pd.notna(row["origin_chain"]) else []
            inside = "" if pd.isna(function) or row["kind"] == "vulkan" else str(function)
            yield Row(
                f"failure-{row['failure_id']}",
                (
                    self._time(row["time_ns"]),
                    _number(row["pid"]),
                    Cell(str(row["what"])),
                    Cell(str(row["error"])),
                    Cell(origin, folded=chain if len(chain) > 1 else ()),
                    Cell(inside),
                    self._dispatch_link(dispatch),
                    self._bo_link(self._bo_of_ioctl.get(row["ioctl_id"])),
                    Cell(f"{len(stack)} frames" if stack else "", folded=stack),
                ),
                failed=True,
            )

    def _dispatch_rows(self) -> Iterator[Row]:
        owned = self._bos[self._bos["dispatch_id"].isin(self._shown["dispatch"])]
        buffers = owned.groupby("dispatch_id")["bo_id"].agg(list).to_dict()
        for _, row in self._dispatches.iterrows():
            axes = row[["groups_x", "groups_y", "groups_z"]]
            count = None if axes.isna().any() else float(np.prod(axes.to_numpy(float)))
            mine = buffers.get(row["dispatch_id"], [])
            end = row["end_result"]
            command_buffer = row["command_buffer"]
            yield Row(
                f"dispatch-{row['dispatch_id']}",
                (
                    _number(row["number"]),
                    _number(row["pid"]),
                    self._time(row["enter_ns"]),
                    Cell(workgroups(row) or "indirect", count),
                    _size(row["bytes_allocated"]),
                    _size(row["bytes_bound"]),
                    self._buffers_cell(mine),
                    Cell("" if pd.isna(command_buffer) else f"{int(command_buffer):#x}"),
                    Cell("" if pd.isna(end) else str(end)),
                    _duration(row["submit_to_done_ns"]),
                ),
                failed=bool(row["failed_ioctls"]),
            )

    def _buffers_cell(self, bo_ids: Sequence[int]) -> Cell:
        if not bo_ids:
            return Cell("")
        link = self._bo_link(bo_ids[0])
        more = f" and {len(bo_ids) - 1} more" if len(bo_ids) > 1 else ""
        return Cell(link.words + more, link.key, link.link)

    def _buffer_rows(self) -> Iterator[Row]:
        failure_of = self._failures.assign(bo=self._failures["ioctl_id"].map(self._bo_of_ioctl))
        failure_of = failure_of[failure_of["bo"].notna()]
        failures = dict(zip(failure_of["bo"].astype("int64"), failure_of["failure_id"], strict=True))
        for _, row in self._bos.iterrows():
            closed, made = row["closed_ns"], row["created_ns"]
            failure = failures.get(int(row["bo_id"]))
            fate = self._fate(row, failure)
            lived = _duration(None if pd.isna(closed) or row["ret"] != 0 else closed - made)
            yield Row(
                f"bo-{row['bo_id']}",
                (
                    _number(row["bo_id"]),
                    _size(row["amount"]),
                    Cell(str(row["purpose"]), folded=_ground(row)),
                    _number(row["pid"]),
                    self._time(made),
                    lived,
                    Cell("" if pd.isna(row["function"]) else str(row["function"])),
                    self._dispatch_link(row["dispatch_id"]),
                    _number(row["vm_id"]),
                    Cell("", None) if pd.isna(row["va"]) else Cell(f"{int(row['va']):#x}", float(row["va"])),
                    fate,
                ),
                failed=bool(row["refused"]),
            )

    def _fate(self, row: pd.Series, failure: int | None) -> Cell:
        if failure is not None:
            error = self._tables.failures["error"].iloc[int(failure)]
            return self._link("failure", failure, f"refused: {error}")
        if row["ret"] != 0:
            return Cell(f"refused: {row['errno']}" if row["errno"] else "unfinished")
        closed = "closed" if pd.notna(row["closed_ns"]) else "live"
        return Cell(closed if row["binds"] else f"{closed}, never bound")

    def _time(self, time_ns: object) -> Cell:
        if pd.isna(time_ns):  # type: ignore[call-overload]
            return Cell("", None)
        (seconds,) = self._about.seconds([int(str(time_ns))])
        return Cell(f"{seconds:.6f} s", seconds)

    def _link(self, kind: str, number: int, words: str) -> Cell:
        there = int(number) in self._shown[kind]
        return Cell(words, float(number), f"{kind}-{number}" if there else "")

    def _bo_link(self, bo_id: object) -> Cell:
        if bo_id is None or pd.isna(bo_id):  # type: ignore[call-overload]
            return Cell("", None)
        number = int(str(bo_id))
        return self._link("bo", number, f"{number}: {wording.size(int(self._sizes.iloc[number]))}")

    def _dispatch_link(self, dispatch_id: object) -> Cell:
        if dispatch_id is None or pd.isna(dispatch_id):  # type: ignore[call-overload]
            return Cell("", None)
        row = self._tables.dispatches.iloc[int(str(dispatch_id))]
        return self._link("dispatch", int(row["dispatch_id"]), f"{row['number']}: {workgroups(row)}")


def _ground(row: pd.Series) -> Sequence[str]:
    known = pd.notna(row["pool_ground"]) and row["pool_ground"] and row["purpose"] == row["pool"]
    return (str(row["pool_ground"]),) if known else ()


def _number(value: object) -> Cell:
    return Cell("", None) if pd.isna(value) else Cell(str(value), float(str(value)))  # type: ignore[call-overload]


def _size(count: object) -> Cell:
    if pd.isna(count):  # type: ignore[call-overload]
        return Cell("", None)
    number = int(float(str(count)))
    return Cell(wording.size(number), float(number))


def _duration(nanoseconds: object) -> Cell:
    if nanoseconds is None or pd.isna(nanoseconds):  # type: ignore[call-overload]
        return Cell("", None)
    milliseconds = float(str(nanoseconds)) / 1e6
    return Cell(f"{milliseconds:,.3f} ms", milliseconds)
