# SPDX-License-Identifier: MIT
"""Continues the processes that bpf/hold.c stopped at a failure.

The tracer does so as soon as it has looked at one; the guardian (guardian.py) where the tracer is late or
gone. Only the tracer takes a process off the list of those held, just before it continues it, so that its
next failure finds it off; and the BPF side when a process ends, before its number can be another's.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .bpf_map import BpfMap

#: How long a process is held at most: what a snapshot takes on a slow, busy machine, many times over.
DEADLINE_SECONDS = 1.0
#: The signal is sent a moment after the BPF program asked for it where that ran with interrupts or
#: preemption off (irq_work in bpf_send_signal_common(), kernel/trace/bpf_trace.c): on a PREEMPT_RT kernel by
#: a thread that has to be scheduled.
_ARRIVAL_SECONDS = 0.1
_STEP_SECONDS = 0.0005
_STOPS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
#: Signals sent to the process. A debugger's go to single threads, and SIGCONT may take them back.
#: In bytes: a process may have any name, and these files give it as it is.
_PENDING = re.compile(rb"^ShdPnd:\s*([0-9a-f]+)$", re.MULTILINE)


@dataclass(frozen=True)
class StopState:
    """Whether a process is stopped, and which stop signals wait for it."""

    stopped: bool
    pending: frozenset[int]

    @property
    def arrived(self) -> bool:
        """Whether our SIGSTOP has been generated: continuing the process takes it back from now on."""
        return self.stopped or signal.SIGSTOP in self.pending


def stop_state(pid: int, proc: Path = Path("/proc")) -> StopState:
    """As /proc has it: a process is stopped where one of its threads is, for its first one may have ended."""
    stopped, pending = False, set()
    with contextlib.suppress(OSError):
        for mask in _PENDING.findall((proc / str(pid) / "status").read_bytes()):
            pending |= {int(number) for number in _STOPS if int(mask, 16) >> (number - 1) & 1}
        for thread in (proc / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError):
                stopped |= (thread / "stat").read_bytes().rpartition(b")")[2].split()[0] in (b"T", b"t")
    return StopState(stopped, frozenset(pending))


def has_ended(handle: int) -> bool:
    """Whether the process of a pidfd has ended."""
    poller = select.poll()
    poller.register(handle, select.POLLIN)
    return bool(poller.poll(0))


def let_go(pid: int, handle: int, just_before: Callable[[], None] = lambda: None) -> bool:
    """Continue a process that was stopped for us, when the stop has come. ``handle``: its pidfd.

    SIGCONT takes back every stop that waits. One that somebody else asked for meanwhile (Ctrl-Z) waits behind
    ours: it is asked for again. False where no stop was to be seen: it may still come, or somebody continued
    the process already.
    """
    give_up = time.monotonic() + _ARRIVAL_SECONDS
    state = stop_state(pid)
    while not state.arrived and not has_ended(handle) and time.monotonic() < give_up:
        time.sleep(_STEP_SECONDS)
        state = stop_state(pid)
    theirs = state.pending if state.stopped else state.pending - {signal.SIGSTOP}
    just_before()
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, signal.SIGCONT)
        for number in theirs:
            signal.pidfd_send_signal(handle, number)
    return state.arrived


@dataclass(frozen=True)
class HoldMaps:
    """The maps of bpf/hold.c that user space shares."""

    #: Processes held, with when they were stopped.
    held: BpfMap
    #: Who holds: the tracer's process id at 0, or 0.
    by: BpfMap
    #: A ring buffer that becomes readable anew each time a process is stopped.
    wakeups: int

    @classmethod
    def of(cls, descriptors: list[int]) -> HoldMaps:
        """From :attr:`descriptors`, here or in another process."""
        return cls(BpfMap(descriptors[0], 8), BpfMap(descriptors[1], 4), descriptors[2])

    @property
    def descriptors(self) -> list[int]:
        """What the guardian has to be given."""
        return [self.held.descriptor, self.by.descriptor, self.wakeups]

    def turn_on(self) -> None:
        """From now on, hold. Raises OSError."""
        self.by.set(0, os.getpid())

    def turn_off(self) -> None:
        """From now on, hold nobody. Who was about to be held is on the list of those held by now."""
        with contextlib.suppress(OSError):
            self.by.set(0, 0)

    def handle_of(self, pid: int, since_ns: int) -> int | None:
        """A pidfd of the process held since then; None where it has ended."""
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return None
        # Still on the list after it was opened: it was this process that was opened.
        if self.held.get(pid) == since_ns:
            return handle
        os.close(handle)
        return None
