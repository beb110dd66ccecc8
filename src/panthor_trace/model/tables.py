# SPDX-License-Identifier: MIT
"""All tables of a trace, and the ones made here: failures, processes, losses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from ..trace.reader import Trace
from ..trace.schema import COUNTER_COUNT, Counter, RecordType
from .buffers import bindings, buffer_objects, with_bindings
from .calls import ioctl_calls, recordings, vulkan_calls
from .cxx import type_name
from .dispatches import dispatches, with_requests, with_submits
from .driver import driver_calls, gpu_faults, kernel_stacks, origins
from .groups import groups
from .ledger import memory
from .lifetimes import end_with_files
from .mappings import mappings, refused_files
from .nesting import NONE, enclosing, parents
from .processes import libraries, modules, processes, uevents
from .spaces import heap_growth, heaps, vms
from .stacks import stacks
from .states import states
from .submits import submits


@dataclass(frozen=True)
class Tables:
    """The tables of docs/tables.md. Ids are row numbers; times are nanoseconds of CLOCK_MONOTONIC."""

    ioctls: pd.DataFrame
    bos: pd.DataFrame
    binds: pd.DataFrame
    ranges: pd.DataFrame
    mappings: pd.DataFrame
    groups: pd.DataFrame
    submits: pd.DataFrame
    vulkan: pd.DataFrame
    recordings: pd.DataFrame
    dispatches: pd.DataFrame
    failures: pd.DataFrame
    stacks: pd.DataFrame
    memory: pd.DataFrame
    processes: pd.DataFrame
    libraries: pd.DataFrame
    modules: pd.DataFrame
    refused_files: pd.DataFrame
    uevents: pd.DataFrame
    vms: pd.DataFrame
    heaps: pd.DataFrame
    heap_growth: pd.DataFrame
    kernel: pd.DataFrame
    kernel_stacks: pd.DataFrame
    gpu_faults: pd.DataFrame
    states: pd.DataFrame
    losses: pd.DataFrame

    def __iter__(self) -> Iterator[tuple[str, pd.DataFrame]]:
        for field in fields(self):
            yield field.name, getattr(self, field.name)


#: Every table's name.
TABLE_NAMES = tuple(field.name for field in fields(Tables))


def build(trace: Trace) -> Tables:
    """All tables of ``trace``."""
    calls = vulkan_calls(trace)
    ioctl_table, raw = ioctl_calls(trace, calls)
    kernel = driver_calls(trace, ioctl_table)
    ioctl_table = pd.concat([ioctl_table, origins(kernel, ioctl_table)], axis=1)
    vm_table = vms(ioctl_table, raw, kernel)
    vm_table, heap_table, group_table = end_with_files(
        (vm_table, "vm_id"),
        (heaps(ioctl_table, raw, vm_table), "handle"),
        (groups(ioctl_table, raw), "handle"),
    )
    growth = heap_growth(kernel, heap_table)
    spans = recordings(calls)
    recorded = dispatches(calls)
    bos = buffer_objects(trace, ioctl_table, raw, calls, recorded)
    binds, ranges = bindings(trace, ioctl_table, raw, bos, vm_table)
    bos = with_bindings(bos, binds, ranges)
    given, carried = submits(trace, calls, ioctl_table, raw)
    recorded = with_requests(recorded, ioctl_table, bos, binds)
    process_table = processes(trace, _cgroup_kills(trace, kernel))
    mapped = mappings(trace, calls, ioctl_table, raw, bos)
    frames, stack_heads = stacks(trace)
    failures = _failures(trace, calls, ioctl_table, mapped, stack_heads)
    return Tables(
        ioctls=ioctl_table,
        bos=bos,
        binds=binds,
        ranges=ranges,
        groups=group_table,
        mappings=mapped,
        submits=given,
        vulkan=calls,
        recordings=spans.reset_index(),
        dispatches=with_submits(recorded, spans, given, carried),
        failures=failures,
        stacks=frames,
        memory=memory(bos, binds, ranges, heap_table, growth, process_table),
        processes=process_table,
        libraries=libraries(trace),
        modules=modules(trace),
        refused_files=refused_files(trace),
        uevents=uevents(trace),
        vms=vm_table,
        heaps=heap_table,
        heap_growth=growth,
        kernel=kernel,
        kernel_stacks=kernel_stacks(trace),
        gpu_faults=gpu_faults(trace, kernel),
        states=states(trace),
        losses=_losses(trace),
    )


_FAILURE_INTEGERS = ["pid", "tid", "time_ns", "vulkan_id", "ioctl_id", "mapping_id", "recording_id"]
_FAILURE_COLUMNS = ["kind", "what", "error", *_FAILURE_INTEGERS, "origin", "origin_chain", "origin_stack_id"]


def _failures(
    trace: Trace,
    calls: pd.DataFrame,
    ioctl_table: pd.DataFrame,
    mapped: pd.DataFrame,
    stack_heads: pd.DataFrame,
) -> pd.DataFrame:
    """Every failing ioctl (ordinary errnos apart), mmap, Vulkan call, and every C++ exception, by time."""
    ioctls_failed = ioctl_table[ioctl_table["failed"]]
    mapped_failed = mapped[mapped["failed"]]
    vulkan_failed = calls[calls["result"].lt(0).fillna(False).astype(bool)]
    parts = [
        ioctls_failed.assign(kind="ioctl", time_ns=ioctls_failed["exit_ns"]).rename(
            columns={"name": "what", "errno": "error"}
        ),
        mapped_failed.assign(kind="mmap", time_ns=mapped_failed["exit_ns"]).rename(
            columns={"name": "what", "errno": "error"}
        ),
        vulkan_failed.assign(kind="vulkan", time_ns=vulkan_failed["exit_ns"]).rename(
            columns={"function": "what", "result_name": "error"}
        ),
        _exceptions(trace, calls),
    ]
    columns = [*_FAILURE_COLUMNS, "enter_ns"]
    whole = [part.reindex(columns=columns) for part in parts if len(part)]
    if not whole:
        return pd.DataFrame(columns=["failure_id", *_FAILURE_COLUMNS, "stack_id"])
    frame = pd.concat([part.astype(object) for part in whole]).sort_values("time_ns", kind="stable")
    frame = frame.reset_index(drop=True).astype(
        dict.fromkeys([*_FAILURE_INTEGERS, "origin_stack_id", "enter_ns"], "Int64")
    )
    frame.insert(0, "failure_id", np.arange(len(frame), dtype=np.int64))
    found = stack_heads.drop_duplicates(["kind", "tid", "enter_ns"]).set_index(["kind", "tid", "enter_ns"])
    keys = pd.MultiIndex.from_arrays(
        [frame["kind"], frame["tid"].astype("int64"), frame["enter_ns"].astype("int64")]
    )
    frame["stack_id"] = found["stack_id"].reindex(keys).astype("Int64").to_numpy()
    return frame.drop(columns=["enter_ns"])


def _exceptions(trace: Trace, calls: pd.DataFrame) -> pd.DataFrame:
    """C++ exceptions by type, with the Vulkan call each was thrown inside of."""
    thrown = trace.of(RecordType.EXCEPTION)
    tid, at = thrown["head"]["tid"].astype(np.int64), thrown["head"]["enter_ns"].astype(np.int64)
    ordered = calls.sort_values(["tid", "enter_ns"], kind="stable")
    spans = tuple(ordered[name].to_numpy() for name in ("tid", "enter_ns", "exit_ns"))
    within = enclosing(spans[0], spans[1], spans[2], parents(*spans), tid, at)
    ids = ordered["vulkan_id"].to_numpy()
    return pd.DataFrame(
        {
            "kind": "exception",
            "pid": thrown["head"]["tgid"].astype(np.int64),
            "tid": tid,
            "time_ns": at,
            "enter_ns": at,
            "what": "__cxa_throw",
            "error": [type_name(name.decode(errors="replace")) for name in thrown["type_name"]],
            "vulkan_id": pd.array([pd.NA if row == NONE else ids[row] for row in within], "Int64"),
        }
    )


def _cgroup_kills(trace: Trace, kernel: pd.DataFrame) -> dict[int, tuple[bool, int | None]]:
    """By process that the out-of-memory killer chose: whether it acted for a memory cgroup, and its limit."""
    if "victim" not in kernel:
        return {}
    page = trace.meta.get("machine", {}).get("page_size", 4096)
    known = kernel["victim"].notna() & kernel["memory_cgroup"].notna()
    kills = {}
    for _, row in kernel[(kernel["function"] == "oom_kill_process") & known].iterrows():
        pages = row.get("limit_pages")
        limit = int(pages) * page if row["memory_cgroup"] and not pd.isna(pages) and pages else None
        kills[int(row["victim"])] = bool(row["memory_cgroup"]), limit
    return kills


def _losses(trace: Trace) -> pd.DataFrame:
    """One row a kind of loss that happened: what could not be recorded, and how often."""
    counters = trace.of(RecordType.COUNTERS)
    last = counters["values"][-1] if len(counters) else np.zeros(COUNTER_COUNT, np.uint64)
    rows = [(counter.name.lower(), int(last[counter])) for counter in Counter if last[counter]]
    dropped = (trace.end or {}).get("dropped_netlink", 0)
    if dropped:
        rows.append(("dropped_netlink", dropped))
    if trace.torn_bytes:
        rows.append(("torn_bytes", trace.torn_bytes))
    discarded = (trace.end or {}).get("discarded_records", 0)
    if discarded:
        rows.append(("discarded_records", discarded))
    return pd.DataFrame(rows, columns=["loss", "count"])
