# SPDX-License-Identifier: MIT
"""What would have been enough: by how much a request missed its limit, from the numbers of the trace.

Only what follows from recorded numbers is said. Where memory ran out, what a request needed is its size at
most: pages it had got before the refusal may be counted in the memory in use already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd

from ..limits import MIN_KERNEL_VA_BYTES
from .caps import nearest
from .case import Case
from .driver_va import addresses_of
from .verdict import Cause, LimitHit, Memory, Refusal, Verdict
from .wording import ordinal, size


def enough(case: Case, verdict: Verdict) -> Iterator[str]:
    """One sentence for each way to see it; none where the trace does not tell."""
    refusal = verdict.refusal
    if verdict.cause is Cause.DRIVER_VA:
        yield from _driver_addresses(case, verdict)
    if refusal is None:
        return
    if refusal.limit is not None and refusal.limit.name in _BY_LIMIT:
        yield from _BY_LIMIT[refusal.limit.name](case, refusal, refusal.limit)
    if verdict.memory is not None:
        yield from _memory(case, verdict, refusal, verdict.memory)


def _count(case: Case, refusal: Refusal, limit: LimitHit) -> Iterator[str]:
    if limit.value is not None:
        yield f"{limit.value} {limit.counts} were allowed; the {ordinal(limit.value + 1)} was asked for"


def _chunks(case: Case, refusal: Refusal, limit: LimitHit) -> Iterator[str]:
    if limit.value is not None:
        chunk = "" if refusal.size is None else f" of {size(refusal.size)}"
        yield f"{limit.value} chunks{chunk} were allowed; the {ordinal(limit.value + 1)} was asked for"


def _in_flight(case: Case, refusal: Refusal, limit: LimitHit) -> Iterator[str]:
    growth = case.tables.heap_growth
    refused = growth[growth["limit"] == limit.name]
    if len(refused):
        passes = refused["renderpasses_in_flight"].iloc[-1]
        yield f"{limit.value} render passes in flight were allowed; there were {passes}"


def _row(table: pd.DataFrame, case: Case, refusal: Refusal) -> pd.Series | None:
    """The refused request's row of ``table``."""
    if refusal.ioctl_id is None:
        return None
    found = table[table["ioctl_id"] == refusal.ioctl_id]
    return found.iloc[-1] if len(found) else None


def _vm_range(case: Case, refusal: Refusal, limit: LimitHit) -> Iterator[str]:
    vm = _row(case.tables.vms, case, refusal)
    # The two halves of any VM of the device are all the addresses its MMU has.
    made = case.tables.vms[
        case.tables.vms["user_va_range"].notna() & case.tables.vms["kernel_va_size"].notna()
    ]
    if vm is None or made.empty:
        return
    whole = int(made["user_va_range"].iloc[-1]) + int(made["kernel_va_size"].iloc[-1])
    most = whole - MIN_KERNEL_VA_BYTES
    asked = int(vm["requested"])
    if asked > most:
        yield (
            f"a user range of {asked:#x} bytes was asked for, at most {most:#x} would have left the kernel "
            f"its {size(MIN_KERNEL_VA_BYTES)}: {size(asked - most)} too many"
        )


def _user_range(case: Case, refusal: Refusal, limit: LimitHit) -> Iterator[str]:
    binds = case.tables.binds
    ops = binds[binds["ioctl_id"] == refusal.ioctl_id]
    if ops.empty or limit.value is None:
        return
    end = int((ops["va"].astype("float64") + ops["size"].astype("float64")).max())
    if end > limit.value:
        yield (
            f"the VM has addresses up to {limit.value:#x} for user space; the mapping would have ended at "
            f"{end:#x}, {size(end - limit.value)} beyond"
        )


def _chunk_size(case: Case, refusal: Refusal, limit: LimitHit) -> Iterator[str]:
    heap = _row(case.tables.heaps, case, refusal)
    if heap is not None and limit.value is not None:
        asked = int(heap["chunk_size"])
        which = "at most" if asked > limit.value else "at least"
        yield f"chunks of {which} {size(limit.value)} were allowed; {size(asked)} was asked for"


def _kernel_range(case: Case, refusal: Refusal, limit: LimitHit) -> Iterator[str]:
    heap = _row(case.tables.heaps, case, refusal)
    if heap is None or limit.value is None:
        return
    number, chunk = int(heap["initial_chunk_count"]), int(heap["chunk_size"])
    yield (
        f"{number} chunks of {size(chunk)} were asked for at once, {size(number * chunk)}; the kernel's part "
        f"of the VM has {size(limit.value)}, for all that the kernel puts there"
    )


def _offsets(case: Case, refusal: Refusal, limit: LimitHit) -> Iterator[str]:
    if limit.value is None or refusal.size is None:
        return
    yield (
        f"{size(limit.value)} of mmap offsets are all that a device has, for the buffers of all programs; "
        f"{size(refusal.size)} were asked for in one piece"
    )
    known = case.tables.states["memory_available"].dropna()
    if len(known) and refusal.size > int(known.max()):
        yield f"memory would not have been enough either: {size(int(known.max()))} were available at most"


def _mappings(case: Case, refusal: Refusal, limit: LimitHit) -> Iterator[str]:
    yield f"{limit.value} mappings were allowed, all were in use; one more was asked for"


def _address_space(case: Case, refusal: Refusal, limit: LimitHit) -> Iterator[str]:
    table = case.tables.mappings
    rows = table[table["failed"] & table["address_space"].notna()]
    if rows.empty or limit.value is None or refusal.size is None:
        return
    used = int(rows["address_space"].iloc[-1])
    if used + refusal.size > limit.value:
        over = used + refusal.size - limit.value
        yield (
            f"{size(limit.value)} of address space were allowed, {size(used)} were in use and "
            f"{size(refusal.size)} asked for: {size(over)} more would have been enough"
        )


def _descriptors(case: Case, refusal: Refusal, limit: LimitHit) -> Iterator[str]:
    if limit.value is not None:
        yield f"{limit.value} open descriptors were allowed, all were in use; one more was asked for"


_BY_LIMIT: dict[str, Callable[[Case, Refusal, LimitHit], Iterator[str]]] = {
    "vms": _count,
    "groups": _count,
    "heaps": _count,
    "heap_max_chunks": _chunks,
    "heap_target_in_flight": _in_flight,
    "min_kernel_va": _vm_range,
    "user_va_range": _user_range,
    "heap_chunk_size": _chunk_size,
    "kernel_va_range": _kernel_range,
    "mmap_offsets": _offsets,
    "vm.max_map_count": _mappings,
    "RLIMIT_AS": _address_space,
    "RLIMIT_NOFILE": _descriptors,
}


def _memory(case: Case, verdict: Verdict, refusal: Refusal, memory: Memory) -> Iterator[str]:
    if refusal.size is None or verdict.at_ns is None:
        return
    states = case.tables.states
    before = states[states["time_ns"] <= verdict.at_ns]
    if memory.which == "cgroup" and memory.limit is not None:
        if refusal.size > memory.limit:
            yield (
                f"{refusal.ioctl} needed {size(refusal.size)}, the whole cgroup may have "
                f"{size(memory.limit)}: at least {size(refusal.size - memory.limit)} more"
            )
            return
        row = nearest(before[before["cgroup"] == memory.cgroup], verdict.at_ns, "cgroup_current")
        if row is not None:
            used = int(row["cgroup_current"])
            over = used + refusal.size - memory.limit
            if over > 0:
                yield (
                    f"{refusal.ioctl} needed up to {size(over)} more than the cgroup allowed: "
                    f"{size(refusal.size)} asked for, {size(used)} of {size(memory.limit)} in use "
                    f"{_when(row, verdict.at_ns)}"
                )
    elif memory.which == "machine":
        row = nearest(before, verdict.at_ns, "memory_available")
        if row is not None and refusal.size > int(row["memory_available"]):
            free = int(row["memory_available"])
            yield (
                f"{refusal.ioctl} needed {size(refusal.size)}, {size(free)} were available "
                f"{_when(row, verdict.at_ns)}: at least {size(refusal.size - free)} more"
            )


def _when(row: pd.Series, at_ns: int) -> str:
    return f"{(at_ns - int(row['time_ns'])) / 1e9:.2f} s before"


def _driver_addresses(case: Case, verdict: Verdict) -> Iterator[str]:
    """How much room was left among the addresses panvk gives its own buffers."""
    if verdict.buffer is None:
        return
    bos = case.tables.bos
    own = addresses_of(case, bos[bos["bo_id"] == verdict.buffer.bo_id].iloc[-1])
    if own is not None:
        yield (
            f"{size(verdict.buffer.size)} were wanted in one piece; {size(own.used)} of "
            f"{size(own.high - own.low)} are in use, the largest piece left is {size(own.largest_gap)}"
        )
