# SPDX-License-Identifier: MIT
"""A process beside the tracer that sees to it that nobody is left stopped.

A process stopped at its failure waits for the tracer, which may be killed, stopped (Ctrl-Z) or stuck at that
moment. The guardian knows of every stop from the BPF side itself, and continues the process when the tracer
is gone, or has not done so within DEADLINE_SECONDS. It is in a session of its own, blocks every signal, is
spared by the out-of-memory killer, and has another name: what ends the tracer does not end it as well.

Why nobody is missed when the tracer is killed: the BPF side puts a process on the list, then looks whether
holding is on, then sends SIGSTOP; the guardian turns holding off, then looks at the list. One of the two
sees the other. The tracer tells it before it takes a process off the list. And it continues a process only
when the stop is there to be seen. The command itself has a second line of defence that needs no user space:
it was forked with PR_SET_PDEATHSIG set to SIGCONT.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import struct
import time
from collections import Counter
from pathlib import Path

from .hold import DEADLINE_SECONDS, HoldMaps, has_ended, let_go

_NAME = b"hold-guardian"
#: include/uapi/linux/prctl.h.
_PR_SET_NAME, _PR_SET_MM, _PR_SET_MM_ARG_END = 15, 35, 9
#: Position of arg_start in /proc/PID/stat, counted from the state (proc(5): fields 48 and 3).
_ARG_START = 45
#: How long a BPF program that saw the tracer alive may take to do what it was about to.
_BEREAVED_SECONDS = 1.0
#: How often a process is continued of which no stop is to be seen: let_go() waits for one each time.
_TRIES = 10
_LOOK_SECONDS = 0.01
#: How long the tracer waits for the guardian.
_ANSWER_SECONDS = 10.0
_READY, _DONE, _WILL, _HAS = b"rdwh"
#: To the guardian: which message, and of what process, held since when.
_MESSAGE = struct.Struct("<BIQ")
_RELEASED = struct.Struct("<IQQ")


class Guardian:
    """The tracer's end. Fork it early: it stays as small as the tracer is then."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _alone(other.fileno())
                _Watch(other).run()
            finally:
                os._exit(0)
        other.close()
        self._socket.setblocking(False)

    def take(self, maps: HoldMaps) -> bool:
        """Have it watch; False where it cannot, and nobody must be held then."""
        try:
            socket.send_fds(self._socket, [_MESSAGE.pack(_READY, 0, 0)], maps.descriptors)
            answered, _, _ = select.select([self._socket], [], [], _ANSWER_SECONDS)
            return bool(answered) and self._socket.recv(1) == bytes([_READY])
        except OSError:
            return False

    def will_continue(self, pid: int, since_ns: int, handle: int) -> None:
        """The tracer is about to continue a process; ``handle``: its pidfd. Until it has, watch that one."""
        with contextlib.suppress(OSError):
            socket.send_fds(self._socket, [_MESSAGE.pack(_WILL, pid, since_ns)], [handle])

    def has_continued(self, pid: int, since_ns: int) -> None:
        """It has."""
        with contextlib.suppress(OSError):
            self._socket.send(_MESSAGE.pack(_HAS, pid, since_ns))

    @property
    def alive(self) -> bool:
        """Whether it is there to help."""
        try:
            return os.waitpid(self.pid, os.WNOHANG) == (0, 0)
        except ChildProcessError:
            return False

    def released(self) -> list[tuple[int, int, int]]:
        """(process, held since, until) of those it has had to continue since the last call."""
        found = []
        with contextlib.suppress(OSError):
            while message := self._socket.recv(_RELEASED.size):
                found.append(_RELEASED.unpack(message))
        return found

    def close(self) -> None:
        """Send it away. Nobody may be held any more."""
        with contextlib.suppress(OSError):
            self._socket.send(_MESSAGE.pack(_DONE, 0, 0))
        self._socket.close()
        give_up = time.monotonic() + _ANSWER_SECONDS
        while self.alive:
            if time.monotonic() > give_up:  # somebody stopped it
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(_LOOK_SECONDS / 10)


def _alone(kept: int) -> None:
    """Be out of reach of what happens to the tracer."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    # Above all the pipe on which the command waits: it tells it that the tracer is gone.
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("-1000")
    with contextlib.suppress(OSError, IndexError, ValueError):
        libc = ctypes.CDLL(None)
        start = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[_ARG_START])
        libc.prctl(_PR_SET_MM, _PR_SET_MM_ARG_END, ctypes.c_ulong(start), 0, 0)
        libc.prctl(_PR_SET_NAME, _NAME, 0, 0, 0)


class _Watch:
    """The guardian's end."""

    def __init__(self, tracer: socket.socket) -> None:
        self._tracer = tracer
        self._maps: HoldMaps | None = None
        #: Those held: (process, since) -> its pidfd.
        self._known: dict[tuple[int, int], int] = {}
        #: Off the list, and about to be continued by the tracer.
        self._promised: set[tuple[int, int]] = set()
        #: Those that have been continued.
        self._released: set[tuple[int, int]] = set()
        self._tries: Counter[tuple[int, int]] = Counter()

    def run(self) -> None:
        """Until the tracer says that it is done, or is gone."""
        poller = select.epoll()
        poller.register(self._tracer, select.EPOLLIN)
        while True:
            for descriptor, _ in poller.poll(self._until_next()):
                if descriptor != self._tracer.fileno():
                    continue
                kind, process, descriptors = self._receive()
                if kind == _READY:
                    self._maps = HoldMaps.of(descriptors)
                    # Nobody reads that ring: only what is new to it counts.
                    poller.register(self._maps.wakeups, select.EPOLLIN | select.EPOLLET)
                    self._tracer.send(bytes([_READY]))
                elif kind == _WILL:
                    self._promised.add(process)
                    if process in self._known:
                        os.close(self._known[process])
                    self._known[process] = descriptors[0]
                elif kind == _HAS:
                    self._promised.discard(process)
                elif kind == _DONE:
                    return
                else:
                    self._bereaved()
                    return
            self._look()
            self._release(overdue=True)

    def _receive(self) -> tuple[int, tuple[int, int], list[int]]:
        """A message; of kind 0 where the tracer is gone."""
        try:
            message, descriptors, _, _ = socket.recv_fds(self._tracer, _MESSAGE.size, 3)
        except OSError:
            message, descriptors = b"", []
        kind, pid, since = _MESSAGE.unpack(message or bytes(_MESSAGE.size))
        return kind, (pid, since), descriptors

    def _until_next(self) -> float | None:
        waiting = [since for pid, since in self._known if (pid, since) not in self._released]
        if not waiting:
            return None
        return max(0.0, DEADLINE_SECONDS - (time.monotonic_ns() - min(waiting)) / 1e9)

    def _look(self) -> None:
        """Bring what is known up to date with the list."""
        if self._maps is None:
            return
        listed = set(self._maps.held.items()) | self._promised
        for gone in self._known.keys() - listed:
            os.close(self._known.pop(gone))
            self._released.discard(gone)
            del self._tries[gone]
        for pid, since in listed - self._known.keys():  # none that is promised
            handle = self._maps.handle_of(pid, since)
            if handle is not None:
                self._known[pid, since] = handle

    def _release(self, *, overdue: bool) -> None:
        """Continue those held; with ``overdue`` only the ones held for too long."""
        limit = time.monotonic_ns() - int(DEADLINE_SECONDS * 1e9) if overdue else time.monotonic_ns()
        for (pid, since), handle in self._known.items():
            if since > limit or (pid, since) in self._released:
                continue
            self._tries[pid, since] += 1
            if not (has_ended(handle) or let_go(pid, handle) or self._tries[pid, since] >= _TRIES):
                continue
            self._released.add((pid, since))
            with contextlib.suppress(OSError):
                message = _RELEASED.pack(pid, since, time.monotonic_ns())
                self._tracer.send(message, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    def _bereaved(self) -> None:
        """The tracer is gone: continue everybody, and whoever is stopped by what still runs."""
        if self._maps is None:
            return
        self._maps.turn_off()
        until = time.monotonic() + _BEREAVED_SECONDS
        while time.monotonic() < until:
            self._look()
            self._release(overdue=False)
            time.sleep(_LOOK_SECONDS)
