# SPDX-License-Identifier: MIT
"""The shape of an answer."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
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
class Refusal:
    """The kernel request that was refused: which, with what errno, for how many bytes."""

    ioctl: str
    errno: str
    #: The Vulkan function it was made inside of; None outside every probed one.
    inside: str | None
    size: int | None = None
    count: int = 1


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
    evidence: tuple[str, ...] = ()
    ruled_out: tuple[str, ...] = ()
    #: What is missing, and what would raise the confidence.
    missing: tuple[str, ...] = ()
    #: What could not be recorded, by kind.
    losses: tuple[tuple[str, int], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain types for JSON."""
        content = asdict(self)
        content["cause"] = self.cause.value
        content["kernel_cap"] = self.kernel_cap.value
        content["confidence"] = self.confidence.value
        content["losses"] = dict(self.losses)
        return content
