# SPDX-License-Identifier: MIT
"""How facts are said: sizes, calls, refusals. No decisions here."""

from __future__ import annotations

import signal

from .verdict import Buffer, Cause, FailingCall, KernelCap, LimitHit, Memory, Refusal

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

#: What the kernel refused, by cause; follows "the kernel".
REFUSED = {
    Cause.KERNEL_CAP: "reached a fixed limit of panthor",
    Cause.KERNEL_MEMORY: "ran out of memory, not into a cap",
    Cause.KERNEL_REJECTED: "rejected the request as malformed or not permitted",
    Cause.GPU_FAULT: "could not use the GPU any more",
    Cause.PROCESS_LIMIT: "held the process to one of its own limits",
}


def refused(cause: Cause, limit: LimitHit | None) -> str:
    """The same of one refusal: a cap may be DRM's."""
    if limit is not None and limit.name == "mmap_offsets":
        return "reached a fixed limit of DRM"
    return REFUSED[cause]


def size(count: int) -> str:
    """Bytes in binary units."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{f'{value:.1f}'.removesuffix('.0')} {_UNITS[unit]}"


def signed_size(count: int) -> str:
    """A difference of bytes, with its sign."""
    return f"{'+' if count >= 0 else '-'}{size(abs(count))}"


def duration(nanoseconds: int) -> str:
    """A time in the unit that fits."""
    for unit, length in (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1000)):
        if nanoseconds >= length:
            return (
                f"{nanoseconds / length:.3g} {unit}"
                if nanoseconds < 1000 * length
                else (f"{nanoseconds / length:.0f} {unit}")
            )
    return f"{nanoseconds} ns"


def amount(value: int | None, unit: str, unknown: str = "unknown") -> str:
    """A number with its unit: "bytes", "ns", or "" for a count."""
    if value is None:
        return unknown
    return {"bytes": size, "ns": duration}.get(unit, str)(value)


def ending(exit_code: int | None) -> str:
    """How the command ended; a status above 128 is a signal's, as shells show it."""
    if exit_code is None:
        return "the command's exit status is not known"
    try:
        return f"the command's exit status is {exit_code} ({signal.Signals(exit_code - 128).name})"
    except ValueError:
        return f"the command's exit status is {exit_code}"


def cap(answer: KernelCap) -> str:
    """The first words of every report."""
    return f"kernel cap: {answer.value.upper()}"


def call(failing: FailingCall) -> str:
    """The failing call with its result."""
    return f"{failing.name} → {failing.error}"


def refusal(refused: Refusal) -> str:
    """The refused request with its errno, size and place."""
    amount = f" of {size(refused.size)}" if refused.size is not None else ""
    inside = f" inside {refused.inside}" if refused.inside else ""
    return f"{refused.ioctl}{amount} → {refused.errno}{inside}"


def buffer(about: Buffer) -> str:
    """A buffer by its row in ``bos``, its size, its label or the pool it was inferred to belong to."""
    kind = about.label or (f"pool {about.pool}" if about.pool else "")
    return ", ".join(filter(None, [size(about.size), kind, f"bo_id {about.bo_id}"]))


def out_of(memory: Memory) -> str:
    """Which memory ran out; follows "the kernel refused,"."""
    if memory.which == "cgroup":
        limit = f" (limit {size(memory.limit)})" if memory.limit is not None else ""
        return f"a memory cgroup is full{limit}, no cap is reached"
    if memory.which == "machine":
        return "the machine is out of memory, no cap is reached"
    return f"it {REFUSED[Cause.KERNEL_MEMORY]}"


def inside(refused: Refusal) -> list[str]:
    """Where inside the kernel a request was refused, and at which limit."""
    lines = []
    if refused.limit:
        value = "" if refused.limit.value is None else f" = {refused.limit.value}"
        lines.append(f"limit: {refused.limit.name}{value} ({refused.limit.counts})")
    if refused.origin:
        lines.append(f"origin: {refused.origin}() returned {refused.errno}")
        if refused.origin_chain and " < " in refused.origin_chain:
            lines.append(f"handed up by: {refused.origin_chain}")
    return lines


def oom_kill(pid: int, in_cgroup: bool | None) -> str:
    """The out-of-memory killer's choice; ``in_cgroup`` None: not known for whom it acted."""
    where = {True: " of its memory cgroup", False: " of the whole system", None: ""}[in_cgroup]
    return f"process {pid} was ended by the kernel's out-of-memory killer{where}"


def ordinal(number: int) -> str:
    """``1st``, ``33rd``, ``112th``."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number // 10 % 10 != 1 else "th"
    return f"{number}{ending}"


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """``1 call``, ``2 calls``."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
