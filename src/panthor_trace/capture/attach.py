# SPDX-License-Identifier: MIT
"""A process that was running before the recording began, in the place of a command we started."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path

from ..errors import TraceError
from .proc import read_lines

#: Signals by which a user ends the recording; the process is not sent them.
_DETACHING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})


def _status(pid: int) -> dict[str, str]:
    lines = read_lines(Path(f"/proc/{pid}/status"))
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


class Attached:
    """Watches a process until it ends or the user has had enough; never signals it."""

    def __init__(self, pid: int) -> None:
        """``pid`` may be a thread's number as well. Raises TraceError where it cannot be traced."""
        try:
            status = _status(pid)
            self.pid = int(status["Tgid"])
            self._handle = os.pidfd_open(self.pid)
            arguments = Path(f"/proc/{self.pid}/cmdline").read_bytes().rstrip(b"\0")
            (Path(f"/proc/{self.pid}/root") / ".").stat()
        except ProcessLookupError:
            raise TraceError(f"no process {pid}") from None
        except OSError as error:
            reason = "no such process" if error.errno == 2 else error.strerror
            raise TraceError(f"cannot attach to process {pid}: {reason}") from None
        if "VmSize" not in status:
            kind = "has ended already" if status["State"].startswith("Z") else "is the kernel's own"
            raise TraceError(f"cannot attach to process {pid}: it {kind}")
        if self.pid == os.getpid():
            raise TraceError("cannot attach to panthor-trace itself")
        self.argv = tuple(os.fsdecode(part) for part in arguments.split(b"\0"))
        #: Whether the process was left running.
        self.detached = False
        self.status: int | None = None

    @property
    def root(self) -> Path:
        """The root directory it lives in."""
        return Path(f"/proc/{self.pid}/root")

    def poll(self) -> bool:
        """Whether the recording is over."""
        return self.detached or self.ended

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        poller = select.poll()
        poller.register(self._handle, select.POLLIN)
        return bool(poller.poll(0))

    def follow_stop(self) -> None:
        """A process that is stopped is nobody's job of ours; Ctrl-Z stops the tracer alone."""

    def pass_on(self, info: signal.struct_siginfo) -> None:
        """A signal came to the tracer: the ones that would end it end the recording."""
        if info.si_signo in _DETACHING:
            self.detached = True

    @property
    def exit_code(self) -> int:
        """Of the recording: it has none of the process's, which is not our child."""
        return 0

    def close(self) -> None:
        """Let go of the process."""
        os.close(self._handle)
