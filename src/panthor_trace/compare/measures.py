# SPDX-License-Identifier: MIT
"""What one trace measures, as numbers that runs can be compared by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..analysis import Analysis
from ..model.lookup import answered
from ..report.series import purposes
from ..verdict import CapUse


@dataclass(frozen=True)
class Measure:
    """One number: ``unit`` is "bytes", "ns" or "" for a count."""

    name: str
    unit: str
    of: Callable[[Analysis], int | None]


def _most(table: pd.DataFrame, column: str) -> int | None:
    values = table[column].dropna()
    return int(values.max()) if len(values) else None


def peak_live_bytes(analysis: Analysis) -> int | None:
    """The most that one process had in buffers at a time; None where none was made."""
    return _most(analysis.tables.memory, "live_bo_bytes")


def largest_allocation(analysis: Analysis) -> int | None:
    """The largest buffer asked for, whether or not it was made."""
    return _most(analysis.tables.bos, "size")


def _made_bytes(analysis: Analysis) -> int:
    bos = analysis.tables.bos
    return int(bos.loc[answered(bos["ret"]), "size"].sum())


def duration(analysis: Analysis) -> int | None:
    """From the start of the recording until its end; None where it never ended."""
    trace = analysis.trace
    end, start = (trace.end or {}).get("ended_monotonic_ns"), trace.meta.get("started_monotonic_ns")
    return None if end is None or start is None else int(end) - int(start)


def _waited(analysis: Analysis) -> int | None:
    """From each submit until the program knew that it was done; what overlaps counts once."""
    submits = analysis.tables.submits.dropna(subset=["done_ns"])
    if submits.empty:
        return None
    starts = submits["enter_ns"].to_numpy(np.int64)
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], submits["done_ns"].to_numpy(np.int64)[order]
    before = np.concatenate([[starts[0]], np.maximum.accumulate(ends)[:-1]])
    return int(np.clip(ends - np.maximum(starts, before), 0, None).sum())


def _in_requests(name: str) -> Callable[[Analysis], int]:
    def total(analysis: Analysis) -> int:
        calls = analysis.tables.ioctls
        own = calls[(calls["name"] == name) & calls["finished"]]
        return int((own["exit_ns"] - own["enter_ns"]).sum())

    return total


MEASURES: tuple[Measure, ...] = (
    Measure("peak of live buffers", "bytes", peak_live_bytes),
    Measure("peak of GPU addresses", "bytes", lambda run: _most(run.tables.memory, "va_bytes")),
    Measure("peak of tiler heaps", "bytes", lambda run: _most(run.tables.memory, "heap_bytes")),
    Measure("largest allocation", "bytes", largest_allocation),
    Measure("allocated in all", "bytes", _made_bytes),
    Measure("buffers made", "", lambda run: int(answered(run.tables.bos["ret"]).sum())),
    Measure("dispatches recorded", "", lambda run: len(run.tables.dispatches)),
    Measure("submits", "", lambda run: len(run.tables.submits)),
    Measure("Vulkan calls", "", lambda run: len(run.tables.vulkan)),
    Measure("requests to panthor", "", lambda run: len(run.tables.ioctls)),
    Measure("failures", "", lambda run: len(run.tables.failures)),
    Measure("whole run", "ns", duration),
    Measure("waiting for the GPU", "ns", _waited),
    Measure("in BO_CREATE", "ns", _in_requests("BO_CREATE")),
    Measure("in VM_BIND", "ns", _in_requests("VM_BIND")),
)


def pool_bytes(analysis: Analysis) -> Mapping[str, int]:
    """Bytes of the buffers made, by label where there is one, else by the pool inferred."""
    bos = analysis.tables.bos
    made = bos[answered(bos["ret"])]
    if made.empty:
        return {}
    sums = made["size"].astype("int64").groupby(purposes(made)).sum()
    return {str(name): int(total) for name, total in sums.items()}


def nearest_cap(analysis: Analysis) -> CapUse | None:
    """The limit with the smallest share left at the moment of the verdict; None where none is known."""
    known = [use for use in analysis.verdict.caps if use.limit and use.headroom is not None]
    return min(known, key=lambda use: (use.headroom or 0) / (use.limit or 1), default=None)
