# SPDX-License-Identifier: MIT
"""The report as a bug report: Markdown as GitLab and GitHub know it, and readable as plain text in a mail."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..analysis import Analysis
from ..model import Tables
from ..speech import printable
from ..trace.schema import RecordType
from ..verdict import wording
from ..verdict.remedies import ADDRESSES
from . import content
from .content import Grid, Section
from .environment import environment, files, unknown
from .privacy import Nothing, Scrubber
from .stacks import stack_lines

#: More tell no more: a bug report is read by people.
_ALLOCATIONS = 5
_STACKS = 3
_LOG_LINES = 20
_SPECIAL = re.compile(
    r"[\\`*|~]|(?<!\w)_|_(?!\w)|\](?=[(\[])|<(?=[A-Za-z/!?])|&(?=#?\w+;)|^[-+#>=]|(?<=^\d)[.)](?=\s|$)|(?<=^\d\d)[.)](?=\s|$)"
)


def markdown(analysis: Analysis, *, keep_paths: bool = False) -> str:
    """The whole bug report. Without ``keep_paths`` nothing in it says whose machine it was."""
    clean = Nothing() if keep_paths else Scrubber(analysis.trace, analysis.tables)
    lines = [line for part in _parts(analysis, clean) for line in part]
    if not keep_paths:
        lines += ["", "<sub>Names, home paths and model files were taken out by panthor-trace.</sub>"]
    return "\n".join(lines) + "\n"


def _parts(analysis: Analysis, clean: Scrubber) -> Iterator[Iterable[str]]:
    verdict, tables, meta = analysis.verdict, analysis.tables, analysis.trace.meta
    yield _title(analysis, clean)
    address = ADDRESSES.get(verdict.refused_by)
    if address and verdict.remedy:
        yield (
            f"<!-- If it is a fault of theirs, this is for {address}. Add what you did and expected. -->",
            "",
        )
    yield (f"**{wording.cap(verdict.kernel_cap)}.** {_prose(clean.text(verdict.headline))}", "")
    facts = [("cause", verdict.cause.value), ("refused by", verdict.refused_by)]
    facts += [("confidence", verdict.confidence.value)]
    facts += [tuple(line.split(": ", 1)) for line in content.failing_call(verdict)]  # type: ignore[misc]
    yield _table(Grid("", (("verdict", False), ("", False)), tuple(facts)), clean)
    for section in (*content.reasons(verdict), *content.gaps(verdict)):
        yield _section(section, clean)
    for grid in content.grids(verdict, tables, most=_ALLOCATIONS):
        yield _heading(grid.title)
        yield _table(grid, clean)
    yield from _code_sections(analysis, clean)
    yield _heading("environment")
    yield _table(Grid("", (("", False), ("", False)), tuple(environment(analysis))), clean, code=1)
    builds = files(tables, clean.program)
    if builds.rows:
        yield ("",)
        yield _table(builds, clean, code=0)
    yield _heading("how to reproduce")
    command = shlex.join(clean.command([str(word) for word in meta.get("command") or ()]))
    attached = meta.get("attached_pid") is not None
    yield _code(["# attached to, while it ran:"] * attached + [f"sudo panthor-trace -- {command}"], "sh")
    yield ("", f"Then {wording.ending((analysis.trace.end or {}).get('exit_code'))}.")
    if missing := unknown(tables):
        yield _section(Section("please add, the trace does not have it", missing), Nothing())


def _title(analysis: Analysis, clean: Scrubber) -> Iterable[str]:
    verdict = analysis.verdict
    program = next(iter(reversed([path for path in _programs(analysis) if path])), "")
    where = f" in {clean.program(program).rsplit('/', 1)[-1]}" if program else ""
    what = wording.call(verdict.failing_call) if verdict.failing_call else verdict.headline
    return (f"# {_prose(clean.text(what))}{_prose(where)} ({verdict.cause.value})", "")


def _programs(analysis: Analysis) -> list[str]:
    """The program of the process that failed; where none did, of the first."""
    table = analysis.tables.processes
    call = analysis.verdict.failing_call
    rows = table[table["pid"] == call.pid] if call else table.head(1)
    return [str(path) for path in rows["path"].dropna()]


def _code_sections(analysis: Analysis, clean: Scrubber) -> Iterator[Iterable[str]]:
    """What is code or a log: kernel stack, user stacks, what the driver logged."""
    stack = analysis.verdict.refusal.kernel_stack if analysis.verdict.refusal else None
    if stack:
        yield _heading("kernel stack of the refusal")
        yield _code([clean.text(line) for line in stack.split(" < ")])
    user = list(stack_lines(_of_the_failure(analysis), most=_STACKS))
    if user:
        yield _heading("failures, with user stacks")
        yield _code([clean.text(line) for line in user])
    log = [bytes(row).decode(errors="replace") for row in analysis.trace.of(RecordType.MESSAGE)["text"]]
    if log:
        yield _heading("kernel log of the driver")
        yield _code([clean.text(line.rstrip()) for line in log[-_LOG_LINES:]])


def _of_the_failure(analysis: Analysis) -> Tables:
    """The tables with the failures of the process that the verdict is about, where it is about one."""
    call, failures = analysis.verdict.failing_call, analysis.tables.failures
    if call is None:
        return analysis.tables
    return replace(analysis.tables, failures=failures[failures["pid"] == call.pid])


def _heading(title: str) -> Iterable[str]:
    return ("", f"## {title[:1].upper()}{title[1:]}", "")


def _section(section: Section, clean: Scrubber) -> Iterable[str]:
    return (*_heading(section.title), *(f"- {_prose(clean.text(fact))}" for fact in section.facts))


def _prose(text: str) -> str:
    """Text that shows as it is: nothing in it is taken for markup."""
    return _SPECIAL.sub(r"\\\g<0>", printable(text))


def _table(grid: Grid, clean: Scrubber, *, code: int | None = None) -> Iterable[str]:
    """A table; the column ``code`` is shown as code."""
    if not grid.rows:
        return ()
    rows = [
        [
            _code_cell(clean.text(cell)) if at == code else _prose(clean.text(cell))
            for at, cell in enumerate(row)
        ]
        for row in grid.rows
    ]
    rule = ["--:" if number else ":--" for _, number in grid.columns]
    lines = [[title for title, _ in grid.columns], rule, *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def _code_cell(text: str) -> str:
    text = printable(text).replace("|", "\\|")
    fence = "``" if "`" in text else "`"
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"


def _code(lines: Iterable[str], language: str = "") -> Iterable[str]:
    """A block of code, whatever backticks are in it."""
    shown = [printable(line) for text in lines for line in text.split("\n")]
    longest = max((len(run) for line in shown for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return (f"{fence}{language}", *shown, fence)
