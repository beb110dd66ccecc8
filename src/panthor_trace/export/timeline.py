# SPDX-License-Identifier: MIT
"""A trace as a timeline viewer draws it: tracks with slices, instants and counters, arrows between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from ..analysis import Analysis
from ..model import Tables

Notes = dict[str, Any]


@dataclass(frozen=True)
class Track:
    """A row of the timeline: a thread (``tid``), or ``name`` of a process, or (pid 0) of the machine."""

    pid: int
    tid: int = 0
    name: str = ""
    #: It holds :class:`Sample`, in bytes.
    counter: bool = False


@dataclass(slots=True)
class Slice:
    """Something that took time, or with ``end`` equal to ``start`` and ``instant`` none."""

    track: Track
    start: int
    #: None: it never ended.
    end: int | None
    name: str
    category: str
    notes: Notes = field(default_factory=dict)
    instant: bool = False
    failed: bool = False
    #: Numbers of the arrows that begin, and that end here.
    leaving: list[int] = field(default_factory=list)
    arriving: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Sample:
    """The value of a counter from now on."""

    track: Track
    start: int
    value: int


#: Columns of ``memory`` that are counters of each process, and their names there.
COUNTERS = {
    "live_bo_bytes": "GPU buffers",
    "bound_bytes": "GPU buffers mapped on the GPU",
    "va_bytes": "GPU addresses in use",
    "heap_bytes": "tiler heaps",
}
FAILURES, SNAPSHOTS, GPU, VERDICT = "failures", "snapshots", "GPU", "panthor-trace"


def slices(analysis: Analysis) -> list[Slice]:
    """All calls, by the order in which those of one thread are entered, and all instants."""
    tables = analysis.tables
    vulkan, ioctls = _vulkan(tables), _ioctls(tables)
    arrows = _arrows(tables, vulkan, ioctls)
    return [
        *vulkan.values(),
        *ioctls.values(),
        *_mappings(tables),
        *arrows,
        *_origins(tables),
        *_failures(tables),
        *_snapshots(tables),
        *_gpu(tables),
        _verdict(analysis),
    ]


def samples(tables: Tables) -> Iterator[Sample]:
    """The counters of every process, where they change."""
    memory = tables.memory
    for column, name in COUNTERS.items():
        tracks = {pid: Track(pid, name=name, counter=True) for pid in memory["pid"].unique().tolist()}
        last: dict[int, int] = {}
        for pid, time, value in rows(memory, "pid", "time_ns", column):
            if last.get(pid) != value:
                last[pid] = value
                yield Sample(tracks[pid], time, value)


def rows(table: pd.DataFrame, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Rows as plain values; None for what is missing."""
    lists = []
    for column in columns:
        values = table[column]
        missing = values.isna()
        plain = values.tolist() if not missing.any() else values.astype(object).where(~missing, None).tolist()
        lists.append(plain)
    return zip(*lists, strict=True)


def _present(**notes: Any) -> Notes:
    return {name: value for name, value in notes.items() if value is not None and value != ""}


def _vulkan(tables: Tables) -> dict[int, Slice]:
    """The Vulkan calls by their ids."""
    dispatches = {
        row[0]: row[1:]
        for row in rows(tables.dispatches, "vulkan_id", "number", "groups_x", "groups_y", "groups_z")
    }
    found = {}
    columns = (
        "vulkan_id",
        "pid",
        "tid",
        "enter_ns",
        "exit_ns",
        "finished",
        "function",
        "result",
        "result_name",
    )
    more = ("command_buffer", "allocation_size", "buffer_size")
    for row in rows(tables.vulkan, *columns, *more):
        number, pid, tid, enter, leave, finished, function, result, answer, buffer, allocated, size = row
        failed = result is not None and result < 0
        notes = _present(vulkan_id=number, result=answer, size=allocated if size is None else size)
        if buffer is not None:
            notes["command_buffer"] = hex(buffer)
        if number in dispatches:
            ordinal, x, y, z = dispatches[number]
            notes.update(_present(dispatch=ordinal, workgroups=None if x is None else f"{x}x{y}x{z}"))
        name = f"{function} → {answer}" if failed else function
        end = leave if finished else None
        found[number] = Slice(Track(pid, tid), enter, end, name, "vulkan", notes, failed=failed)
    return found


def _ioctls(tables: Tables) -> dict[int, Slice]:
    """The ioctls by their ids, with the size of what they make or map."""
    made = {row[0]: row[1:] for row in rows(tables.bos, "ioctl_id", "requested", "label", "pool")}
    bound: dict[int, int] = defaultdict(int)
    for number, size in rows(tables.binds, "ioctl_id", "size"):
        bound[number] += size
    found = {}
    columns = ("ioctl_id", "pid", "tid", "enter_ns", "exit_ns", "finished", "name", "errno", "failed")
    for number, pid, tid, enter, leave, finished, what, errno, failed in rows(tables.ioctls, *columns):
        notes = _present(ioctl_id=number, errno=errno)
        if number in made:
            size, label, pool = made[number]
            notes.update(_present(size=size, label=label, pool=pool))
        elif number in bound:
            notes["size"] = bound[number]
        name = f"{what} → {errno}" if failed else what
        end = leave if finished else None
        found[number] = Slice(Track(pid, tid), enter, end, name, "ioctl", notes, failed=failed)
    return found


def _mappings(tables: Tables) -> Iterator[Slice]:
    columns = ("mapping_id", "pid", "tid", "enter_ns", "exit_ns", "name", "errno", "failed", "size", "node")
    for number, pid, tid, enter, leave, what, errno, failed, size, node in rows(tables.mappings, *columns):
        notes = _present(mapping_id=number, errno=errno, size=size, node=node)
        name = f"{what} → {errno}" if failed else what
        yield Slice(Track(pid, tid), enter, leave, name, "mmap", notes, failed=failed)


def _arrows(tables: Tables, vulkan: dict[int, Slice], ioctls: dict[int, Slice]) -> Iterator[Slice]:
    """Arrows from each dispatch to the submit that took it along, and from there to where the program was
    told that it was done: an instant inside the call that said so, made here.
    """
    submitted: dict[int, Slice] = {}
    told: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, pid, call, request, done in rows(
        tables.submits, "submit_id", "pid", "vulkan_id", "ioctl_id", "done_ns"
    ):
        source = ioctls.get(request) if request is not None else vulkan.get(call)
        if source is None:
            continue
        submitted[number] = source
        source.notes["submit"] = number
        if done is not None and done >= source.start:
            source.leaving.append(2 * number + 1)
            told[pid, done].append(number)
    for number, call, submit in rows(tables.dispatches, "dispatch_id", "vulkan_id", "submit_id"):
        to = submitted.get(submit)
        if to is not None and vulkan[call].start <= to.start:
            vulkan[call].leaving.append(2 * number + 2)
            to.arriving.append(2 * number + 2)
    where = {(entry.track.pid, entry.end): entry.track for entry in ioctls.values()}
    where.update({(entry.track.pid, entry.end): entry.track for entry in vulkan.values()})
    for (pid, done), numbers in told.items():
        name = "submit done" if len(numbers) == 1 else f"{len(numbers)} submits done"
        notes = {"submit": numbers[0], "last_submit": numbers[-1]}
        track = where.get((pid, done), Track(pid, name=GPU))
        arriving = [2 * number + 1 for number in numbers]
        yield Slice(track, done, done, name, "submit", notes, instant=True, arriving=arriving)


def _origins(tables: Tables) -> Iterator[Slice]:
    """The functions of the driver in which the errnos of refused ioctls began."""
    refused = tables.ioctls[tables.ioctls["origin"].notna()]
    whole = {
        number: (function, errno, chain)
        for number, function, errno, chain in rows(refused, "ioctl_id", "origin", "errno", "origin_chain")
    }
    kernel = tables.kernel[tables.kernel["ioctl_id"].isin(whole)]
    for number, tid, pid, time, function, errno in rows(
        kernel, "ioctl_id", "tid", "pid", "exit_ns", "function", "errno"
    ):
        origin, code, chain = whole.get(number, (None, None, None))
        if (function, errno) == (origin, code):
            del whole[number]
            notes = _present(ioctl_id=number, handed_up_by=chain)
            name = f"origin: {function} → {errno}"
            yield Slice(Track(pid, tid), time, time, name, "driver", notes, instant=True, failed=True)


def _failures(tables: Tables) -> Iterator[Slice]:
    """All failures on a track of their own, exceptions on their threads as well."""
    columns = (
        "failure_id",
        "kind",
        "pid",
        "tid",
        "time_ns",
        "what",
        "error",
        "vulkan_id",
        "ioctl_id",
        "origin_chain",
    )
    for number, kind, pid, tid, time, what, error, call, request, chain in rows(tables.failures, *columns):
        notes = _present(
            failure_id=number, kind=kind, tid=tid, vulkan_id=call, ioctl_id=request, origin=chain
        )
        name = f"throw {error}" if kind == "exception" else f"{what} → {error}"
        yield Slice(Track(pid, name=FAILURES), time, time, name, kind, notes, instant=True, failed=True)
        if kind == "exception":
            yield Slice(Track(pid, tid), time, time, name, kind, dict(notes), instant=True, failed=True)
    for pid, time in rows(tables.processes, "pid", "oom_killed_ns"):
        if time is not None:
            name = "chosen by the out-of-memory killer"
            yield Slice(Track(pid, name=FAILURES), time, time, name, "memory", instant=True, failed=True)


def _snapshots(tables: Tables) -> Iterator[Slice]:
    """The state of the machine and of a process, as annotations of the moment it is of."""
    states = tables.states
    names = [name for name in states.columns if name not in ("time_ns", "why", "what", "pid", "as_of_ns")]
    for pid, time, why, what, *values in rows(states, "pid", "as_of_ns", "why", "what", *names):
        notes = _present(what=what, **dict(zip(names, values, strict=True)))
        name = f"snapshot: {why}"
        yield Slice(Track(pid or 0, name=SNAPSHOTS), time, time, name, "snapshot", notes, instant=True)


def _gpu(tables: Tables) -> Iterator[Slice]:
    """Faults, and what the firmware asked for: no call shows these."""
    for time, pid, fault, detail in rows(tables.gpu_faults, "time_ns", "pid", "fault", "detail"):
        notes = _present(detail=detail)
        yield Slice(Track(pid or 0, name=GPU), time, time, fault, "gpu", notes, instant=True, failed=True)
    columns = ("pid", "time_ns", "operation", "errno", "chunks", "max_chunks", "limit")
    for pid, time, operation, errno, chunks, most, limit in rows(tables.heap_growth, *columns):
        notes = _present(chunks=chunks, max_chunks=most, limit=limit)
        name = f"heap {operation} → {errno}" if errno else f"heap {operation}"
        failed = bool(errno)
        yield Slice(Track(pid or 0, name=GPU), time, time, name, "gpu", notes, instant=True, failed=failed)


def _verdict(analysis: Analysis) -> Slice:
    """The answer, from the beginning of the recording to its end."""
    verdict, meta, end = analysis.verdict, analysis.trace.meta, analysis.trace.end or {}
    notes = _present(
        cause=verdict.cause.value,
        refused_by=verdict.refused_by,
        confidence=verdict.confidence.value,
        command=" ".join(str(word) for word in meta.get("command", ())),
        started=meta.get("started"),
        evidence="\n".join(verdict.evidence),
    )
    start = meta.get("started_monotonic_ns", 0)
    name = f"kernel cap: {verdict.kernel_cap.value.upper()}. {verdict.headline}"
    return Slice(Track(0, name=VERDICT), start, end.get("ended_monotonic_ns"), name, "verdict", notes)


def nested(entries: Sequence[Slice]) -> Iterator[tuple[int, bool, Slice]]:
    """The beginnings (True) and ends of the slices of one track, in the order they are to be written in.

    Calls of one thread lie within one another or apart. Where damage has them overlap, the inner one ends
    with the outer one. An instant belongs into the slice that ends at its time.
    """
    ordered = sorted(
        entries, key=lambda one: (one.start, not one.instant, -_end(one) if one.end is not None else -_NEVER)
    )
    open_: list[tuple[int, Slice]] = []
    for entry in ordered:
        while open_ and (open_[-1][0] < entry.start or (open_[-1][0] == entry.start and not entry.instant)):
            end, closed = open_.pop()
            yield end, False, closed
        yield entry.start, True, entry
        if not entry.instant:
            end = max(_end(entry), entry.start)
            open_.append((min(end, open_[-1][0]) if open_ else end, entry))
    while open_:
        end, closed = open_.pop()
        if end != _NEVER:
            yield end, False, closed


_NEVER = 1 << 63


def _end(entry: Slice) -> int:
    return _NEVER if entry.end is None else entry.end
