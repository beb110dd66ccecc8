# SPDX-License-Identifier: MIT
"""From a trace directory to tables and verdict: what every command that looks at a trace does first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .model import Tables, build
from .trace.reader import Trace, read_trace
from .verdict import Verdict, judge


@dataclass(frozen=True)
class Analysis:
    """A trace, its tables, and the verdict on it."""

    trace: Trace
    tables: Tables
    verdict: Verdict


def analyse(directory: Path) -> Analysis:
    """Read and judge the trace in ``directory``. Raises TraceError."""
    trace = read_trace(directory)
    tables = build(trace)
    return Analysis(trace, tables, judge(tables, trace.meta, trace.end))
