# SPDX-License-Identifier: MIT
"""The tracer's side of holding: turns it on, and continues each process it has looked at."""

from __future__ import annotations

import os
import time
from typing import Any

from ..trace.schema import Hold
from .guardian import Guardian
from .hold import HoldMaps, let_go


class Holder:
    """Processes stopped at a failure. Without ``maps`` or ``guardian`` nobody is ever held."""

    def __init__(self, maps: HoldMaps | None, guardian: Guardian | None, why: str = "") -> None:
        self._maps = maps
        self._guardian = guardian
        #: Why nobody is held.
        self.why = why
        self.on = False
        #: Held for too long, and when the guardian continued it: (process, since) -> until.
        self._late: dict[tuple[int, int], int] = {}

    def turn_on(self) -> None:
        """Hold from now on, where that is possible."""
        if self._maps is None or self._guardian is None:
            self.why = self.why or "turned off"
        elif not self._guardian.take(self._maps):
            self.why = "the guardian process did not answer"
        else:
            self._maps.turn_on()
            self.on = True

    def holds(self, pid: int) -> bool:
        """Whether a process is stopped by us: the record that says so may still be behind another one."""
        return self.on and self._maps is not None and self._maps.held.get(pid) is not None

    def release(self, pid: int, since_ns: int) -> dict[str, Any]:
        """Continue a process. Who did so, and how long it was held: None where that is not known."""
        if self._maps is None or self._guardian is None:
            raise ValueError("nobody is held")
        held = self._maps.held
        # Asked as late as can be: what it continued may have been stopped by somebody else since.
        self._late |= {(late, since): until for late, since, until in self._guardian.released()}
        handle = self._maps.handle_of(pid, since_ns)
        until_ns = self._late.pop((pid, since_ns), None)
        by = "deadline"
        if until_ns is None and handle is None:
            by = "end of the process"
        elif until_ns is None and handle is not None:
            # Off the list it is in nobody's care but ours, so the guardian is told first.
            self._guardian.will_continue(pid, since_ns, handle)
            stopped = let_go(pid, handle, lambda: held.delete(pid))
            self._guardian.has_continued(pid, since_ns)
            by, until_ns = ("tracer", time.monotonic_ns()) if stopped else ("somebody else", None)
        if handle is not None:
            os.close(handle)
            if by == "deadline":
                held.delete(pid)
        return {"held_ns": until_ns - since_ns if until_ns else None, "continued_by": by}

    def check(self) -> None:
        """Hold nobody any more where the guardian is gone."""
        if self.on and self._guardian is not None and not self._guardian.alive:
            self.turn_off("the guardian process was killed")

    def turn_off(self, why: str) -> None:
        """Hold nobody any more, and continue everybody."""
        if not self.on or self._maps is None:
            return
        self.on, self.why = False, why
        self._maps.turn_off()
        for _ in range(2):  # a BPF program that was about to hold is through by the second look
            for pid, since_ns in list(self._maps.held.items()):
                self.release(pid, since_ns)
            time.sleep(0.01)

    def close(self) -> None:
        """The recording is over."""
        self.turn_off("the recording is over")
        if self._guardian is not None:
            self._guardian.close()

    def as_json(self) -> dict[str, Any]:
        """For meta.json."""
        return {"on": self.on, "why": self.why}


#: What the trace calls an outcome.
OUTCOMES = {
    Hold.HELD: "held",
    Hold.OFF: "holding is off",
    Hold.TRACED: "a debugger has the process",
    Hold.STOPPING: "the process was being stopped by somebody else",
    Hold.CATCHES: "the process handles SIGCONT itself",
    Hold.PARENT: "the process's parent might take notice",
    Hold.OFTEN: "the process had been held before",
    Hold.ALREADY: "the process is held for another failure",
    Hold.REFUSED: "the kernel refused",
}
