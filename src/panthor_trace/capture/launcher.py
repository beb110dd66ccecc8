# SPDX-License-Identifier: MIT
"""Starts the command so that nothing of it happens before every probe is live, and as without us.

The child is forked early, before BCC is loaded: it is small, and none of what BCC changes in the process
(resource limits) reaches the command. It waits on a pipe; a second pipe, closed by a successful exec,
carries an exec's error back.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import shutil
import signal
import stat
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from ..errors import EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, TraceError
from .identity import Identity

_ERRNO = struct.Struct("i")
#: include/uapi/linux/prctl.h; loaded before a fork, after which as little as possible is done.
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
#: How much of a file tells a script from a binary file: as many bytes as bash looks at.
_FIRST_BYTES = 80

#: Signals that end or steer a command. They wait in the tracer until the recorder takes them.
_STEERING = frozenset(
    {
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGWINCH,
        signal.SIGCONT,
        signal.SIGCHLD,
    }
)
#: Signals that stop a job. They stop the tracer when they have stopped the command, and only then: a command
#: may catch or ignore them, and the shell must see what it would see without us.
_STOPPING = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
#: How often a command that has not executed its program yet is looked at.
_RELEASE_SECONDS = 0.02
#: Python ignores these for itself; a command expects them as the shell would leave them.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def check_command(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Refuse a command that cannot run before anything is set up. Raises TraceError (126, 127)."""
    program = command[0]
    path = environment.get("PATH", os.defpath)
    if "/" not in program:
        if not shutil.which(program, path=path):
            raise TraceError(f"{program}: command not found", EXIT_NOT_FOUND)
        return
    try:
        mode = Path(program).stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise TraceError(f"{program}: no such file or directory", EXIT_NOT_FOUND) from None
    except OSError as error:
        raise TraceError(f"{program}: {error.strerror}", EXIT_NOT_EXECUTABLE) from None
    if stat.S_ISDIR(mode):
        raise TraceError(f"{program}: is a directory", EXIT_NOT_EXECUTABLE)
    if not os.access(program, os.X_OK, effective_ids=True):
        raise TraceError(f"{program}: cannot be executed (permission denied)", EXIT_NOT_EXECUTABLE)


def _execute(argv: tuple[str, ...], environment: Mapping[str, str]) -> NoReturn:
    """Become the command. Raises OSError.

    What is executable but in no format of the kernel's is a script without ``#!``: shells, env(1) and sudo
    give it to /bin/sh, as execvp(3) does. Binary files are refused, as bash does.
    """
    try:
        os.execvpe(argv[0], argv, environment)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        path = argv[0] if "/" in argv[0] else shutil.which(argv[0], path=environment.get("PATH", os.defpath))
        if path is None or _is_binary(path):
            raise
        os.execve("/bin/sh", ["/bin/sh", path, *argv[1:]], environment)


def _is_binary(path: str) -> bool:
    with open(path, "rb") as file:  # noqa: PTH123 - as it was executed
        return b"\0" in file.read(_FIRST_BYTES).partition(b"\n")[0]


def shell_status(wait_status: int) -> int:
    """The exit status a shell would show for a wait status: the command's, or 128 + n for signal n."""
    code = os.waitstatus_to_exitcode(wait_status)
    return 128 - code if code < 0 else code


class Signals:
    """The tracer's steering signals while a command runs: blocked, taken one by one, passed on.

    A terminal sends its signals (Ctrl-C) to the command as well, so only those another process sent to
    the tracer alone are passed on.
    """

    def __init__(self) -> None:
        self._original = signal.pthread_sigmask(signal.SIG_BLOCK, _STEERING)
        # A parent that ignores SIGCHLD hands that down, and the kernel then forgets how children ended.
        self._of_children = signal.getsignal(signal.SIGCHLD)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def leave_stops_to_the_command(self) -> None:
        """From now on the tracer stops when the command does, not when the terminal says so."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)

    def stop_by(self, number: int) -> None:
        """Stop as the command was stopped by signal ``number``; returns when somebody continued us."""
        while signal.sigtimedwait(_STOPPING, 0) is not None:
            pass  # the terminal's, who sent it to both of us: once is enough
        blocked = number in _STOPPING
        if blocked:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        signal.raise_signal(number)
        if blocked:
            signal.pthread_sigmask(signal.SIG_BLOCK, {number})

    def wait(self, seconds: float) -> signal.struct_siginfo | None:
        """The next signal, or None after ``seconds``."""
        return signal.sigtimedwait(_STEERING | _STOPPING, seconds)

    def interrupted(self) -> int | None:
        """A waiting signal that ends commands, without taking it."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            if number in signal.sigpending():
                return int(number)
        return None

    def restore(self) -> None:
        """Give the signals back. Those still waiting had been meant for the command, which is gone."""
        while self.wait(0) is not None:
            pass
        with contextlib.suppress(KeyboardInterrupt):  # one that came since: it had been meant so, too
            self.hand_back()

    def hand_back(self) -> None:
        """Set signals as they were found."""
        signal.signal(signal.SIGCHLD, self._of_children)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._original)


class Command:
    """The forked, waiting and then running command."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        identity: Identity | None,
        signals: Signals,
        *,
        may_be_held: bool = False,
    ) -> None:
        """``may_be_held``: it may be stopped by us; the kernel continues it should we end meanwhile."""
        self.argv = tuple(command)
        self.status: int | None = None
        self._stopped_by: int | None = None
        self._signals = signals
        self._may_be_held = may_be_held
        #: Done before the tracer stops because the command did.
        self.before_stop: Callable[[], None] = lambda: None
        go_read, self._go = os.pipe()
        self._error, error_write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._go)
            os.close(self._error)
            self._child(go_read, error_write, dict(environment), identity)
        os.close(go_read)
        os.close(error_write)

    def _child(
        self, go: int, error_pipe: int, environment: dict[str, str], identity: Identity | None
    ) -> None:
        """Runs in the child and never returns."""
        try:
            if os.read(go, 1) != b"+":
                os._exit(0)  # the tracer gave up, or is gone
            if identity is not None:
                identity.become()
            if self._may_be_held:
                # Not earlier: a change of credentials undoes it.
                _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)
            for number in _IGNORED_BY_PYTHON:
                signal.signal(number, signal.SIG_DFL)
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
            self._signals.hand_back()
            _execute(self.argv, environment)
        except OSError as error:
            os.write(error_pipe, _ERRNO.pack(error.errno or 0))
        finally:
            os._exit(EXIT_NOT_EXECUTABLE)  # reached only where exec failed

    def release(self) -> None:
        """Let the command run. Returns once it was executed; raises TraceError (126, 127) where not."""
        self._signals.leave_stops_to_the_command()
        with contextlib.suppress(BrokenPipeError):  # killed while it waited: poll() will tell
            os.write(self._go, b"+")
        os.close(self._go)
        while not select.select([self._error], [], [], _RELEASE_SECONDS)[0] and not self.poll():
            self.follow_stop()
        answer = os.read(self._error, _ERRNO.size)
        os.close(self._error)
        if not answer:
            return
        if self.status is None:
            os.waitpid(self.pid, 0)
        code = _ERRNO.unpack(answer)[0]
        exit_code = EXIT_NOT_FOUND if code == 2 else EXIT_NOT_EXECUTABLE
        raise TraceError(f"{self.argv[0]}: {os.strerror(code)}", exit_code)

    def abandon(self) -> None:
        """End the waiting child without running the command."""
        os.close(self._go)
        os.close(self._error)
        os.waitpid(self.pid, 0)

    def poll(self) -> bool:
        """Whether the command has ended; ``status`` then holds its wait status."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            if pid and os.WIFSTOPPED(status):
                self._stopped_by = os.WSTOPSIG(status)
            elif pid:
                self.status = status
        return self.status is not None

    def follow_stop(self) -> None:
        """Where the command was found stopped, stop too: the shell sees its job stopped, as without us.

        To be called when all that was recorded up to then has been dealt with: a command that the tracer
        itself had stopped for a moment runs again by then. Whoever continues the tracer alone continues the
        command (:meth:`pass_on`).
        """
        number, self._stopped_by = self._stopped_by, None
        if number is not None and self._is_stopped():
            self.before_stop()
            self._signals.stop_by(number)

    def _is_stopped(self) -> bool:
        try:
            return Path(f"/proc/{self.pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"T"
        except OSError:
            return False

    def pass_on(self, info: signal.struct_siginfo) -> None:
        """Send the command a signal that another process sent to the tracer."""
        sent_by_process = info.si_code <= 0
        # A shell's fg continues the whole job: where the command runs already, it has had its SIGCONT.
        superfluous = info.si_signo == signal.SIGCHLD or (
            info.si_signo == signal.SIGCONT and not self._is_stopped()
        )
        if sent_by_process and not superfluous and not self.poll():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, info.si_signo)

    @property
    def exit_code(self) -> int:
        """The exit status a shell would show: the command's, or 128 + n for signal n."""
        if self.status is None:
            raise RuntimeError("the command has not ended")
        return shell_status(self.status)
