# SPDX-License-Identifier: MIT
"""What is where in each GPU address space at the moment of the verdict, laid out to be drawn.

An address space is 2^47 bytes wide and its contents are a millionth of that: gaps are drawn shortened, and
what is mapped is drawn to one scale within its space, with a least width so that a page can be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from ..model import Tables
from ..model.lifetimes import living
from ..model.lookup import look_up
from .series import Numbers, Subject, purposes

#: Spaces and stretches of one space that are drawn.
SPACES, STRETCHES = 12, 1200
#: Shares of a space's drawn width: the least of anything, the most of a gap.
_LEAST, _MOST_GAP = 0.0015, 0.04
#: The pool of a stretch in which nothing is mapped.
FREE = ""


@dataclass(frozen=True)
class Stretch:
    """Neighbouring addresses of one pool, or free; ``left`` and ``width`` are shares of the drawing."""

    va: int
    size: int
    pool: str
    buffers: int
    bo_id: int | None
    left: float
    width: float


@dataclass(frozen=True)
class Space:
    """One VM: its name, what is mapped in it, and how much address space it has."""

    name: str
    mapped: int
    of: int | None
    stretches: Sequence[Stretch]


def spaces(tables: Tables, about: Subject) -> list[Space]:
    """The VMs there were at the moment of the verdict, the process's own first, then by what they map."""
    if about.at_ns is None:
        return []
    ranges = tables.ranges
    there = ranges["start_ns"].le(about.at_ns) & ranges["end_ns"].gt(about.at_ns).fillna(True)
    mapped = ranges[there.fillna(False).astype(bool)]
    mapped = mapped.assign(bo_id=look_up(mapped["bind_id"], tables.binds.set_index("bind_id")["bo_id"]))
    found = []
    exits = tables.processes.set_index("pid")["exit_ns"]
    gone = set(exits[exits.le(about.at_ns).fillna(False).astype(bool)].index)
    vms = living(tables.vms, about.at_ns)
    for _, vm in vms[~vms["pid"].isin(gone)].iterrows():  # closing its files ends a process's VMs
        own = mapped[mapped["file"].eq(vm["file"]) & mapped["vm_id"].eq(vm["vm_id"]).fillna(False)]
        total = int(own["size"].sum())
        found.append(((vm["pid"] != about.pid, -total), vm, own, total))
    found.sort(key=lambda one: one[0])
    return [
        Space(
            f"VM {vm['vm_id']}, file {vm['fd']} of process {vm['pid']}",
            total,
            None if pd.isna(vm["user_va_range"]) else int(vm["user_va_range"]),
            laid_out(_joined(own, tables.bos)),
        )
        for _, vm, own, total in found[:SPACES]
    ]


@dataclass(frozen=True)
class _Run:
    va: int
    size: int
    pool: str
    buffers: int
    bo_id: int | None


def _joined(ranges: pd.DataFrame, bos: pd.DataFrame) -> list[_Run]:
    """Neighbours of the same pool as one, with the free addresses between them.

    Where there are very many, those that lie closest together are joined whatever they are.
    """
    if ranges.empty:
        return []
    ranges = ranges.sort_values("va", kind="stable")
    starts = ranges["va"].to_numpy(np.uint64).astype(np.int64)
    sizes = ranges["size"].to_numpy(np.uint64).astype(np.int64)
    names = look_up(ranges["bo_id"], purposes(bos).set_axis(bos["bo_id"])).fillna("unknown").to_numpy(object)
    gaps = starts[1:] - (starts + sizes)[:-1]
    new = (gaps > 0) | (names[1:] != names[:-1])
    if int(new.sum()) > STRETCHES:
        widest = np.sort(gaps[new])[-STRETCHES]
        new &= gaps > max(int(widest), 0)
    edges: Numbers = np.concatenate([[0], np.flatnonzero(new) + 1, [len(starts)]])
    ids = ranges["bo_id"].astype("Int64")
    runs: list[_Run] = []
    for first, end in pairwise(edges):
        low, high = int(starts[first]), int((starts + sizes)[first:end].max())
        if runs and low > runs[-1].va + runs[-1].size:
            last = runs[-1].va + runs[-1].size
            runs.append(_Run(last, low - last, FREE, 0, None))
        kinds = set(names[first:end])
        pool = str(names[first]) if len(kinds) == 1 else "several pools"
        count = int(ids.iloc[first:end].nunique())
        one = ids.iloc[first] if count == 1 else pd.NA
        runs.append(_Run(low, high - low, pool, count, None if pd.isna(one) else int(one)))
    return runs


def laid_out(runs: Sequence[_Run]) -> list[Stretch]:
    """``runs`` side by side over the width 1: gaps shortened, nothing narrower than can be seen."""
    if not runs:
        return []
    sizes = np.array([float(run.size) for run in runs])
    free = np.array([run.pool == FREE for run in runs])
    total = sizes[~free].sum()
    widths = sizes / total
    widths = np.where(free, np.minimum(widths, _MOST_GAP), widths)
    widths = np.maximum(widths, _LEAST)
    widths /= widths.sum()
    lefts = np.concatenate([[0.0], np.cumsum(widths)[:-1]])
    return [
        Stretch(run.va, run.size, run.pool, run.buffers, run.bo_id, round(float(left), 6), float(width))
        for run, left, width in zip(runs, lefts, widths, strict=True)
    ]
