# SPDX-License-Identifier: MIT
"""What came of one run of a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..analysis import Analysis


@dataclass(frozen=True)
class Outcome:
    """One row of a sweep's table. None: not known."""

    exit_status: int | None
    #: The verdict's cause and confidence, and whether a cap of the kernel is the culprit.
    cause: str
    kernel_cap: str
    confidence: str
    headline: str
    #: The command failed, or the verdict says that something did.
    failed: bool
    peak_live_bytes: int | None
    largest_allocation: int | None
    #: The limit that was nearest at the moment of the verdict.
    limit: str | None = None
    limit_unit: str = ""
    limit_value: int | None = None
    headroom: int | None = None
    duration_ns: int | None = None
    trace: str = ""

    def as_json(self) -> dict[str, Any]:
        """Plain types for JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Outcome:
        """The same from JSON."""
        return cls(**content)


def outcome_of(run: Analysis) -> Outcome:
    """The row of one trace."""
    from ..compare.measures import duration, largest_allocation, nearest_cap, peak_live_bytes
    from ..verdict import EXIT_STATUS, Cause

    verdict, nearest = run.verdict, nearest_cap(run)
    status = (run.trace.end or {}).get("exit_code")
    judged = EXIT_STATUS[verdict.cause] != 0 and verdict.cause is not Cause.INCONCLUSIVE
    return Outcome(
        exit_status=status,
        cause=verdict.cause.value,
        kernel_cap=verdict.kernel_cap.value,
        confidence=verdict.confidence.value,
        headline=verdict.headline,
        failed=judged or status != 0,
        peak_live_bytes=peak_live_bytes(run),
        largest_allocation=largest_allocation(run),
        limit=nearest.counts if nearest else None,
        limit_unit=nearest.unit if nearest else "",
        limit_value=nearest.limit if nearest else None,
        headroom=nearest.headroom if nearest else None,
        duration_ns=duration(run),
        trace=str(run.trace.path or ""),
    )
