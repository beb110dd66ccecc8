# SPDX-License-Identifier: MIT
"""What every verdict carries besides its rule's own evidence: limits, which memory, what was ruled out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from ..model.lookup import answered
from . import wording
from .caps import caps_at
from .case import Case
from .enough import enough
from .memory import memory_of
from .pattern import allocation_pattern
from .remedies import remedy_for
from .verdict import CapUse, Cause, Confidence, Memory, Verdict

#: Limits that are fixed in the driver, as opposed to what a machine has.
_FIXED = ("vms", "groups", "heaps")
_BY_KERNEL = frozenset(
    {Cause.KERNEL_CAP, Cause.KERNEL_MEMORY, Cause.KERNEL_REJECTED, Cause.PROCESS_LIMIT, Cause.GPU_FAULT}
)


def in_context(case: Case, verdict: Verdict) -> Verdict:
    """The verdict of a rule, with the state of every limit at that moment."""
    at_ns, pid = _moment(case, verdict)
    caps = caps_at(case, at_ns, pid)
    memory = None
    if verdict.cause is Cause.KERNEL_MEMORY:
        memory = memory_of(case, at_ns, pid, verdict.refusal.size if verdict.refusal else None)
    headline = verdict.headline
    if memory is not None and verdict.refusal is not None:
        headline = f"the kernel refused, {wording.out_of(memory)}: {wording.refusal(verdict.refusal)}"
    whole = replace(
        verdict,
        headline=headline,
        at_ns=at_ns,
        caps=caps,
        memory=memory,
        evidence=verdict.evidence + tuple(_memory_evidence(memory)),
        ruled_out=verdict.ruled_out + tuple(_ruled_out(case, verdict, caps)),
        would_raise=verdict.would_raise + tuple(_would_raise(case, verdict, memory)),
    )
    return replace(
        whole,
        enough=tuple(enough(case, whole)),
        growth=tuple(allocation_pattern(case, whole)),
        remedy=remedy_for(case, whole),
    )


def _moment(case: Case, verdict: Verdict) -> tuple[int, int | None]:
    """When the verdict's failure was, and in which process: the refused request, not its late report."""
    start = int(case.meta.get("started_monotonic_ns", 0))
    call, refusal = verdict.failing_call, verdict.refusal
    if call is not None:
        at_ns = start + (
            refusal.since_start_ns
            if refusal is not None and refusal.since_start_ns is not None
            else call.since_start_ns
        )
        return at_ns, call.pid
    if refusal is not None and refusal.since_start_ns is not None:
        return start + refusal.since_start_ns, refusal.pid
    if case.oom_killed:
        pid = case.oom_killed[0]
        table = case.tables.processes
        return int(table.loc[table["pid"] == pid, "oom_killed_ns"].iloc[0]), pid
    return _fullest(case, start)


def _fullest(case: Case, start: int) -> tuple[int, int | None]:
    """When the largest amount of buffers was there, and whose: the moment to look at where nothing failed."""
    bos = case.tables.bos
    made = bos[answered(bos["ret"])]
    if made.empty:
        last = [table["exit_ns"].max() for table in (case.tables.ioctls, case.tables.vulkan) if len(table)]
        users = case.tables.ioctls["pid"]
        return int(max(last, default=start)), int(users.iloc[-1]) if len(users) else None
    closed = made[made["closed_ns"].notna()]
    changes = pd.concat(
        [
            pd.DataFrame({"time_ns": made["created_ns"], "bytes": made["size"], "pid": made["pid"]}),
            pd.DataFrame({"time_ns": closed["closed_ns"], "bytes": -closed["size"], "pid": closed["pid"]}),
        ]
    )
    changes = changes.astype({"time_ns": "int64", "bytes": "int64"}).sort_values("time_ns", kind="stable")
    row = changes.iloc[int(changes.groupby("pid")["bytes"].cumsum().to_numpy().argmax())]
    return int(row["time_ns"]), int(row["pid"])


def _memory_evidence(memory: Memory | None) -> Iterator[str]:
    if memory is not None:
        yield f"which memory: {memory.ground if memory.which != 'unknown' else 'unknown; ' + memory.ground}"


def _ruled_out(case: Case, verdict: Verdict, caps: tuple[CapUse, ...]) -> Iterator[str]:
    """Counts that speak against the other causes. Only what was recorded can rule anything out."""
    if verdict.cause in (Cause.INCONCLUSIVE, Cause.CLEAN) or not case.used_panthor:
        return
    known = {use.name: use for use in caps if use.used is not None}
    if verdict.cause is not Cause.KERNEL_CAP:
        fixed = [known[name] for name in _FIXED if name in known]
        if fixed:
            yield "a cap: " + ", ".join(f"{use.used} of {use.limit} {use.counts}" for use in fixed)
    space = [use for use in caps if use.name == "va" and use.limit and use.used is not None]
    if space and verdict.cause is not Cause.DRIVER_VA:
        fullest = max(space, key=lambda use: (use.used or 0) / (use.limit or 1))
        yield (
            f"the VM's addresses: {wording.size(fullest.used or 0)} of "
            f"{wording.size(fullest.limit or 0)} mapped"
        )
    if verdict.cause is not Cause.KERNEL_MEMORY:
        yield from _not_memory(known)
    if verdict.cause in _BY_KERNEL and len(case.tables.vulkan):
        yield f"user space by itself: the kernel refused {_refusals(case)}"
    if verdict.cause is not Cause.PROCESS_LIMIT and "mappings" in known:
        use = known["mappings"]
        yield f"the process's mappings: {use.used} of {use.limit}"


def _not_memory(known: dict[str, CapUse]) -> Iterator[str]:
    machine, group = known.get("memory"), known.get("memory-cgroup")
    if machine is not None and machine.headroom:
        text = f"memory: {wording.size(machine.headroom)} available"
        if group is not None and group.headroom is not None:
            text += f", {wording.size(group.headroom)} left in {group.scope}"
        yield text


def _refusals(case: Case) -> str:
    number = int(case.requests["failed"].sum())
    return f"{wording.counted(number, 'request')} of {len(case.requests)}"


def _would_raise(case: Case, verdict: Verdict, memory: Memory | None) -> Iterator[str]:
    """What to do for a better answer; nothing where it is as good as it gets."""
    if verdict.confidence is Confidence.HIGH and not (memory and memory.which == "unknown"):
        return
    for kind, _ in case.losses:
        if kind.startswith(("lost_", "missed_")):
            yield "a run that loses no records: a larger --ring-size, or less else on the machine"
            break
    for name, layer in case.meta.get("layers", {}).items():
        if not layer.get("live"):
            yield f"the {name} layer: {layer.get('why') or 'it was not live'}"
    if case.end is None:
        yield "a recording that is left to end by itself"
    if len(case.tables.states) == 0:
        yield "snapshots of the limits (state.jsonl): this trace has none"
    if memory is not None and memory.which == "unknown":
        yield "a trace as root, outside of containers: the memory cgroup's files could not tell"
    if verdict.cause in (Cause.DRIVER_INTERNAL, Cause.DRIVER_VA):
        yield "Mesa's own messages (MESA_DEBUG=1 in the environment) and its debug symbols"
