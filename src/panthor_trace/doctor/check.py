# SPDX-License-Identifier: MIT
"""What a check is, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any

from .machine import Machine


class State(Enum):
    """How a check ended."""

    OK = "ok"
    #: The main job can be done, but with less in the trace.
    DEGRADED = "degraded"
    #: The main job cannot be done.
    MISSING = "missing"
    #: It could not be looked at: not without root, or not without something else.
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One check's result. ``remedy`` is a key of remedies.REMEDIES; ``facts`` go into the JSON only."""

    state: State
    found: str
    remedy: str | None = None
    facts: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    #: What the trace will lack, where that depends on what was found; else the check's own.
    without: str | None = None


@dataclass(frozen=True)
class Check:
    """One row of the table: its group, how it is looked at, and what the trace lacks where it fails."""

    name: str
    group: str
    title: str
    look: Callable[[Machine], Finding]
    without: str


@dataclass(frozen=True)
class Result:
    """A check with what it found."""

    check: Check
    finding: Finding

    @property
    def without(self) -> str:
        """What the trace will lack; empty where nothing, or where that is not known."""
        if self.finding.state not in (State.DEGRADED, State.MISSING):
            return ""
        return self.check.without if self.finding.without is None else self.finding.without
