# SPDX-License-Identifier: MIT
"""The state of one layer of the capture, as the trace and the report tell it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Layer:
    """One layer of the capture: live or not and why, and the probes that could not attach."""

    live: bool = False
    why: str = ""
    probes: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """For meta.json."""
        return {"live": self.live, "why": self.why, "probes": self.probes, "missing": self.missing}
