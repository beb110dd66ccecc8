# SPDX-License-Identifier: MIT
"""From a trace directory to tables and verdict: what every command that looks at a trace does first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .model import Tables, build
from .trace.process import only_process
from .trace.reader import Trace, read_trace
from .verdict import Verdict, judge


@dataclass(frozen=True)
class Analysis:
    """A trace, its tables, and the verdict on it."""

    trace: Trace
    tables: Tables
    verdict: Verdict


def analyse(directory: Path, process: int | None = None, exit_code: int | None = None) -> Analysis:
    """Read and judge the trace in ``directory``. Raises TraceError.

    With ``process``, only that one and its children, of which it is told how it ended.
    """
    trace = read_trace(directory)
    if process is not None:
        trace = only_process(trace, process, exit_code)
    tables = build(trace)
    return Analysis(trace, tables, judge(tables, trace.meta, trace.end))
