# SPDX-License-Identifier: MIT
"""The shape of an answer."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any


class Cause(enum.Enum):
    """What ended the program's use of the GPU, or that nothing did."""

    KERNEL_CAP = "kernel-cap"
    KERNEL_MEMORY = "kernel-memory"
    KERNEL_REJECTED = "kernel-rejected"
    GPU_FAULT = "gpu-fault"
    PROCESS_LIMIT = "process-limit"
    DRIVER_VA = "driver-va"
    DRIVER_INTERNAL = "driver-internal"
    APPLICATION = "application"
    RECOVERED = "recovered"
    CLEAN = "clean"
    INCONCLUSIVE = "inconclusive"


#: What ``--exit-verdict`` makes the exit status.
EXIT_STATUS = MappingProxyType(
    {
        Cause.CLEAN: 0,
        Cause.RECOVERED: 0,
        Cause.KERNEL_CAP: 10,
        Cause.KERNEL_MEMORY: 11,
        Cause.KERNEL_REJECTED: 11,
        Cause.GPU_FAULT: 11,
        Cause.PROCESS_LIMIT: 11,
        Cause.DRIVER_VA: 12,
        Cause.DRIVER_INTERNAL: 12,
        Cause.APPLICATION: 12,
        Cause.INCONCLUSIVE: 13,
    }
)


class KernelCap(enum.Enum):
    """Is a fixed limit of the kernel driver the culprit?"""

    YES = "yes"
    NO = "no"
    INCONCLUSIVE = "inconclusive"


class Confidence(enum.Enum):
    """How far the evidence reaches."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True)
class FailingCall:
    """The call that brought the failure to the program, or the ioctl itself where no Vulkan call did."""

    name: str
    error: str
    pid: int
    tid: int
    #: Nanoseconds since the recording began.
    since_start_ns: int
    command_buffer: int | None = None
    #: The dispatch being recorded, counted from 1 in its process; workgroup counts.
    dispatch_number: int | None = None
    workgroups: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class LimitHit:
    """The fixed limit a request ran into; ``value`` is None where the trace does not tell."""

    name: str
    value: int | None
    counts: str


@dataclass(frozen=True)
class Refusal:
    """The kernel request that was refused: which, with what errno, for how many bytes, and where inside.

    ``ioctl`` is "heap growth" for what the firmware asked for.
    """

    ioctl: str
    errno: str
    #: The Vulkan function it was made inside of; None outside every probed one.
    inside: str | None
    size: int | None = None
    count: int = 1
    #: Nanoseconds since the recording began.
    since_start_ns: int | None = None
    #: The innermost function of the driver or DRM that returned the errno; those up to the ioctl.
    origin: str | None = None
    origin_chain: str | None = None
    #: Kernel stack at the origin, innermost function first.
    kernel_stack: str | None = None
    limit: LimitHit | None = None
    #: Its row in the table ``ioctls``; None where it was no ioctl.
    ioctl_id: int | None = None
    #: The process it was refused to, where that is known.
    pid: int | None = None


@dataclass(frozen=True)
class Buffer:
    """The buffer a refusal is about, a row of ``bos``; ``pool`` is inferred, ``pool_ground`` from what."""

    bo_id: int
    size: int
    label: str | None
    pool: str | None
    pool_ground: str | None


@dataclass(frozen=True)
class CapUse:
    """One limit, how much of it was in use at the moment of the verdict, and what is left."""

    name: str
    #: What is counted, and of what: "VMs", "open file 5 of process 100".
    counts: str
    scope: str
    #: "bytes", or "" for a count.
    unit: str
    #: None: not known (the process had ended, nothing was recorded). Never 0 for "unknown".
    used: int | None
    #: None: there is no limit, or it is not known.
    limit: int | None
    #: The most that was ever in use, where the kernel keeps that.
    peak: int | None = None
    note: str = ""

    @property
    def headroom(self) -> int | None:
        """What is left."""
        return None if self.used is None or self.limit is None else max(0, self.limit - self.used)

    def as_json(self) -> dict[str, Any]:
        """Plain types for JSON."""
        return {**asdict(self), "headroom": self.headroom}


@dataclass(frozen=True)
class Memory:
    """Which memory ran out: ``cgroup``, ``machine`` or ``unknown``; ``ground`` says how that is known."""

    which: str
    ground: str
    #: The directory of the memory cgroup, its limit and peak in bytes.
    cgroup: str | None = None
    limit: int | None = None
    peak: int | None = None
    #: Processes the out-of-memory killer ended.
    killed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """The answer with what it rests on."""

    cause: Cause
    kernel_cap: KernelCap
    #: kernel, panvk, program, GPU, nobody or unknown.
    refused_by: str
    headline: str
    confidence: Confidence
    failing_call: FailingCall | None = None
    refusal: Refusal | None = None
    buffer: Buffer | None = None
    evidence: tuple[str, ...] = ()
    #: What would have been enough.
    enough: tuple[str, ...] = ()
    #: How the allocations grow of which one was refused.
    growth: tuple[str, ...] = ()
    #: What can be done next (remedies.py); None where nothing is known that would help.
    remedy: str | None = None
    ruled_out: tuple[str, ...] = ()
    #: What is missing.
    missing: tuple[str, ...] = ()
    #: What would raise the confidence.
    would_raise: tuple[str, ...] = ()
    #: Every limit with its use at ``at_ns``: the failure, or where nothing failed the fullest moment.
    caps: tuple[CapUse, ...] = ()
    at_ns: int | None = None
    #: Which memory, where memory ran out.
    memory: Memory | None = None
    #: What could not be recorded, by kind.
    losses: tuple[tuple[str, int], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain types for JSON."""
        content = asdict(self)
        content["cause"] = self.cause.value
        content["kernel_cap"] = self.kernel_cap.value
        content["confidence"] = self.confidence.value
        content["losses"] = dict(self.losses)
        content["caps"] = [use.as_json() for use in self.caps]
        content["exit_status"] = EXIT_STATUS[self.cause]
        return content
