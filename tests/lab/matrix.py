# SPDX-License-Identifier: MIT
"""The verdict matrix: what the verdict on each simfail scenario has to be, and how a row of it is printed.

Causes, failing calls and limits are simfail's own table (scripts/board/simfail/table.c). What a tracer adds
is here: the function inside the driver, the size of what was refused, how much of a limit was in use, the
fault of the GPU.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from board.simfail import Scenario

KIB, MIB = 1 << 10, 1 << 20

#: Who refuses, by cause.
REFUSED_BY = {
    "clean": "nobody",
    "recovered": "nobody in the end",
    "kernel-cap": "kernel",
    "kernel-memory": "kernel",
    "kernel-rejected": "kernel",
    "process-limit": "kernel",
    "gpu-fault": "GPU",
    "driver-va": "panvk",
    "application": "program",
}

#: The function each refusal comes from; where kernels differ, all that are right.
ORIGINS: dict[str, tuple[str, ...]] = {
    "vm-33rd": ("panthor_vm_pool_create_vm",),
    "vm-range": ("panthor_vm_pool_create_vm",),
    "bind-past-range": ("panthor_vm_bind_prepare_op_ctx",),
    "heap-129th": ("panthor_heap_create",),
    "group-129th": ("panthor_group_create",),
    "heap-chunk-size": ("panthor_heap_create",),
    "heap-max-chunks": ("panthor_heap_grow",),
    "heap-in-flight": ("panthor_heap_grow",),
    "kernel-va": ("panthor_vm_alloc_va",),
    "cgroup-bind": ("drm_gem_get_pages",),
    "cgroup-heap": ("drm_gem_get_pages",),
    "bo-larger-than-memory": ("drm_gem_get_pages",),
    "export-nofile": ("drm_prime_handle_to_fd_ioctl",),
    "bo-flags": ("panthor_ioctl_bo_create",),
    "bo-size-zero": ("panthor_ioctl_bo_create",),
    "bo-export-exclusive": ("panthor_gem_prime_export",),
    "bind-misaligned": ("panthor_vm_bind_prepare_op_ctx",),
    "bind-exclusive": ("panthor_vm_prepare_map_op_ctx",),
    "bind-closed-bo": ("panthor_vm_prepare_map_op_ctx",),
    "bind-destroyed-vm": ("panthor_ioctl_vm_bind",),
    "bind-array-sync": ("panthor_vm_bind_prepare_op_ctx",),
    "bind-array-async": ("panthor_vm_bind_prepare_op_ctx",),
    "heap-initial": ("panthor_heap_create",),
    "group-core-mask": ("panthor_group_create",),
    "group-ring-size": ("group_create_queue", "panthor_group_create"),
    "group-priority": ("panthor_ioctl_group_create",),
    "submit-queue": ("panthor_job_create",),
    "submit-alignment": ("panthor_job_create",),
    "processes-one-fails": ("panthor_vm_pool_create_vm",),
    "threads-one-fails": ("panthor_vm_bind_prepare_op_ctx",),
    "child-fails": ("panthor_vm_pool_create_vm",),
}

#: Bytes that were asked for: of a buffer, a bind, a mapping, a chunk.
SIZES: dict[str, int] = {
    "bind-past-range": 64 * KIB,
    "heap-max-chunks": 2 * MIB,
    "heap-in-flight": 2 * MIB,
    "cgroup-bind": 128 * MIB,
    "mmap-map-count": MIB,
    "mmap-address-space": 16 * MIB,
    "bo-never-bound": MIB,
    "bo-flags": 64 * KIB,
    "bo-size-zero": 0,
    "bind-misaligned": 64 * KIB,
    "bind-exclusive": 64 * KIB,
    "bind-closed-bo": 64 * KIB,
    "bind-destroyed-vm": 64 * KIB,
    "bind-array-sync": 4 * KIB,
    "bind-array-async": 96 * 4 * KIB,
    "threads-one-fails": MIB,
}

#: How much of which limit was in use then: the cap's name in the verdict, and the number.
USES: dict[str, tuple[str, int]] = {
    "vm-33rd": ("vms", 32),
    "heap-129th": ("heaps", 128),
    "group-129th": ("groups", 128),
    "heap-max-chunks": ("heap-chunks", 4),
    "processes-one-fails": ("vms", 32),
    "child-fails": ("vms", 32),
}

#: Scenarios whose memory cgroup may be gone before anybody has read its limit (a busy machine, a process that
#: could not be held for long enough): what is said of it then. Which memory it was is then open, not wrong.
LIMIT_UNREAD = {"cgroup-bind": "unknown", "cgroup-heap": "unknown"}

#: The first fault of the GPU; where more than one may be first, all that are right.
FAULTS: dict[str, tuple[str, ...]] = {
    "cs-fault": ("command-stream fault",),
    "cs-inherited-fault": ("command-stream fault",),
    "cs-fatal": ("command-stream fatal",),
    "submit-after-fatal": ("command-stream fatal",),
    "mmu-fault": ("page fault",),
    "job-hang": ("job time-out",),
    "progress-timeout": ("progress time-out",),
    "firmware-restarts": ("firmware time-out", "job time-out"),
    "firmware-dead": ("firmware time-out", "job time-out"),
}

#: How simfail calls what no ioctl asks for.
_CALLS = {"heap-grow": "heap growth"}

#: Columns of the matrix, with their width.
COLUMNS = {
    "cap": 6,
    "refused by": 20,
    "cause": 18,
    "failing call": 28,
    "origin": 33,
    "asked for": 12,
    "limit": 32,
    "in use": 17,
}


@dataclass(frozen=True)
class Cell:
    """One answer, and what would have been right: nothing where any answer is, for want of a fact."""

    got: str
    right: Collection[str] = ()

    @property
    def wrong(self) -> bool:
        """Whether it is not what the tables say."""
        return bool(self.right) and self.got not in self.right

    def __str__(self) -> str:
        if self.wrong:
            return f"WRONG {self.got or 'nothing'} (not {' or '.join(self.right)})"
        return f"{self.got or '-'}{' ok' if self.right else ''}"


def cells(scenario: Scenario, verdict: Mapping[str, Any]) -> dict[str, Cell]:
    """The row of one scenario; ``verdict`` is what ``report --json`` printed."""
    refusal = verdict["refusal"] or {}
    name = scenario.name
    return {
        "cap": Cell(verdict["kernel_cap"], ["yes" if scenario.cause == "kernel-cap" else "no"]),
        "refused by": Cell(verdict["refused_by"], [REFUSED_BY[scenario.cause]]),
        "cause": Cell(verdict["cause"], [scenario.cause]),
        "failing call": _failing(scenario, verdict),
        "origin": Cell(refusal.get("origin") or "", ORIGINS.get(name, ())),
        "asked for": _asked_for(name, verdict),
        "limit": _limit(scenario, verdict),
        "in use": _in_use(name, verdict),
    }


def _failing(scenario: Scenario, verdict: Mapping[str, Any]) -> Cell:
    """The refused request with its errno, or the fault of the GPU."""
    refusal = verdict["refusal"]
    if scenario.name in FAULTS:
        got = verdict["headline"].removeprefix("the GPU failed first: ").split(" (")[0]
        return Cell(got, FAULTS[scenario.name])
    got = f"{refusal['ioctl']} {refusal['errno']}" if refusal else ""
    if scenario.cause not in ("kernel-cap", "kernel-memory", "kernel-rejected", "process-limit"):
        return Cell(got)
    firsts = [outcome.failures[0] for outcome in scenario.outcomes if outcome.failures]
    right = {f"{_CALLS.get(first.call, first.call)} {first.errno}" for first in firsts}
    if "oom-kill ENOMEM" in right:
        got = "oom-kill ENOMEM" if "out-of-memory killer" in verdict["headline"] else got
    return Cell(got, sorted(right))


def _asked_for(name: str, verdict: Mapping[str, Any]) -> Cell:
    subject = verdict["refusal"] or verdict["buffer"] or {}
    size = subject.get("size")
    return Cell("" if size is None else str(size), [str(SIZES[name])] if name in SIZES else ())


def _limit(scenario: Scenario, verdict: Mapping[str, Any]) -> Cell:
    """The limit's name, with its value where simfail's table has one."""
    limit, memory = (verdict["refusal"] or {}).get("limit"), verdict["memory"]
    if memory is not None:
        got = {"name": {"cgroup": "memory.max", "machine": "memory"}.get(memory["which"], memory["which"])}
        got["value"] = memory["limit"]
    else:
        got = limit or {}
    hit = scenario.limit
    if hit is None or scenario.cause in ("recovered", "gpu-fault"):
        return Cell(got.get("name", ""))
    if scenario.name in LIMIT_UNREAD and memory is not None and memory["limit"] is None:
        return Cell(got["name"], [LIMIT_UNREAD[scenario.name]])
    text = hit.name if hit.value is None else f"{hit.name}={hit.value}"
    mine = got.get("name", "") if hit.value is None else f"{got.get('name', '')}={got.get('value')}"
    return Cell(mine, [text])


def _in_use(name: str, verdict: Mapping[str, Any]) -> Cell:
    if name not in USES:
        return Cell("")
    cap, number = USES[name]
    used = [use["used"] for use in verdict["caps"] if use["name"] == cap]
    return Cell(f"{cap}={max(used, default=None)}", [f"{cap}={number}"])


def lines(rows: Sequence[tuple[str, str, str, Mapping[str, str]]]) -> Iterator[str]:
    """The matrix as text: ``rows`` are kernel, scenario, how it was traced, and the printed cells."""
    head = f"{'kernel':7}{'scenario':23}{'trace':7}"
    yield head + "".join(f"{title:{width}}" for title, width in COLUMNS.items())
    for kernel, scenario, how, row in rows:
        printed = "".join(f"{row[title]:{width}} " for title, width in COLUMNS.items())
        yield f"{kernel:7}{scenario:23}{how:7}{printed}".rstrip()
    wrong = sum(text.startswith("WRONG") for *_, row in rows for text in row.values())
    yield f"{len(rows)} rows, {wrong or 'no'} wrong {'cell' if wrong == 1 else 'cells'}"
