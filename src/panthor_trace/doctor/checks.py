# SPDX-License-Identifier: MIT
"""The table of checks, in the order of the report, and how many of them leave the main job undone."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ..errors import EXIT_NO_VERDICT
from . import gpu, kernel, limits, tracer, vulkan
from .check import Check, Finding, Result, State
from .machine import Machine

#: Without it there is nothing to answer with.
_ALL = "everything: nothing can be recorded"
_GPU = "every request to the GPU's driver, and with them the answer"

CHECKS: tuple[Check, ...] = (
    Check("machine", "kernel", "processor", kernel.machine, _ALL),
    Check("bpf", "kernel", "BPF programs", kernel.bpf, _ALL),
    Check("lockdown", "kernel", "lockdown", kernel.lockdown, _ALL),
    Check("tracefs", "kernel", "tracefs", kernel.tracefs, _ALL),
    Check("events", "kernel", "tracepoints", kernel.events, _ALL),
    Check("btf", "kernel", "types", kernel.types, _GPU),
    Check(
        "kprobes", "kernel", "kprobes", kernel.kprobes,
        "where inside the driver a request was refused, and how tiler heaps grow",
    ),
    Check(
        "uprobes", "kernel", "uprobes", kernel.uprobes,
        "Vulkan calls, dispatches and exceptions: which of them a refusal belongs to",
    ),
    Check(
        "taskstats", "kernel", "accounting", kernel.taskstats,
        "what processes used by their end: memory at its peak, time lost to reclaim and swap",
    ),
    Check("rights", "tracer", "rights", tracer.rights, _ALL),
    Check("python", "tracer", "Python", tracer.python, _ALL),
    Check("bcc", "tracer", "bcc", tracer.bcc, _ALL),
    Check("click", "tracer", "click", partial(tracer.module, name="click"), _ALL),
    *(
        Check(name, "tracer", name, partial(tracer.module, name=name), "the report, its tables")
        for name in ("numpy", "pandas", "rich")
    ),
    Check(
        "pyroute2", "tracer", "pyroute2", partial(tracer.module, name="pyroute2"),
        "accounting of processes, and events of the GPU's device",
    ),
    Check("driver", "GPU", "driver", gpu.driver_bound, _GPU),
    Check("uapi", "GPU", "uAPI", gpu.uapi, "which ioctls the driver has"),
    Check("node", "GPU", "render node", gpu.permission, "the GPU itself: programs will not find it"),
    Check(
        "functions", "GPU", "its functions", gpu.functions,
        "where inside the driver a request was refused, and how tiler heaps grow",
    ),
    Check("module-btf", "GPU", "its types", gpu.types, "values inside the driver: sizes of heaps and chunks"),
    Check(
        "libvulkan", "Vulkan", "loader", partial(vulkan.library, layer="vulkan"),
        "Vulkan calls and dispatches, of programs of this system",
    ),
    Check("icd", "Vulkan", "panvk", vulkan.icd, "the GPU itself: this system's programs don't reach it"),
    Check(
        "libstdc++", "Vulkan", "C++ exceptions", partial(vulkan.library, layer="exception"),
        "exceptions: why a C++ program ended",
    ),
    Check(
        "cgroup", "limits", "memory cgroup", limits.memory_cgroup,
        "whether a memory cgroup was full, or the whole machine",
    ),
    Check(
        "mappings", "limits", "mappings", limits.mappings,
        "nothing; programs may be refused mappings, which panvk reports as an error of the GPU's memory",
    ),
)  # fmt: skip

#: A script's answer is 0 where all the main job needs is there, and 13 where that could not all be seen.
EXIT_MISSING = 1


def examine(machine: Machine, checks: Iterable[Check] = CHECKS) -> list[Result]:
    """Look at everything. What a check itself fails by is a finding as well."""
    results = []
    for check in checks:
        try:
            finding = check.look(machine)
        except Exception as error:  # a kernel we have not met must not keep the rest from being seen
            finding = Finding(State.UNKNOWN, f"{type(error).__name__}: {error}")
        results.append(Result(check, finding))
    return results


def exit_status(results: Iterable[Result]) -> int:
    """0, EXIT_MISSING or EXIT_NO_VERDICT."""
    states = {result.finding.state for result in results}
    if State.MISSING in states:
        return EXIT_MISSING
    return EXIT_NO_VERDICT if State.UNKNOWN in states else 0
