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
        #: Held for too long and continued by the guardian: (process, since).
        self._late: set[tuple[int, int]] = set()

    def turn_on(self) -> None:
        """Hold from now on, where that is possible."""
        if self._maps is None or self._guardian is None:
            self.why = self.why or "turned off"
        elif not self._guardian.take(self._maps):
            self.why = "the guardian process did not answer"
        else:
            self._maps.turn_on()
            self.on = True

    def release(self, pid: int, since_ns: int) -> dict[str, Any]:
        """Continue a process; how long it was held, and by whom it was continued."""
        if self._maps is None or self._guardian is None:
            raise ValueError("nobody is held")
        handle = self._maps.handle_of(pid, since_ns)
        ended_by = "tracer"
        if handle is None:
            ended_by = "end of the process"
        else:
            try:
                # Asked as late as can be: what it continued may have been stopped by somebody else since.
                self._late |= set(self._guardian.released())
                if (pid, since_ns) in self._late:
                    ended_by = "deadline"
                elif not let_go(pid, handle):
                    ended_by = "somebody else"
            finally:
                os.close(handle)
            self._maps.held.delete(pid)
        return {"held_ns": time.monotonic_ns() - since_ns, "continued_by": ended_by}

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
