# SPDX-License-Identifier: MIT
"""Runs and judges the values of a sweep, each in a directory of its own; what is there and whole stays.

Each run is a ``panthor-trace run`` of its own, each judgement a process of its own that has become the user
who ran sudo: this process loads neither bcc nor pandas, and never reads as root what a user may have written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from ..capture.identity import Identity, acting_as
from ..errors import EXIT_NOT_ROOT, EXIT_OUTPUT, TraceError, unexpected
from ..export.files import write_output
from .outcome import Outcome
from .plan import Template, Values, label

#: What of a value goes into a file's name.
_UNFIT = re.compile(r"[^A-Za-z0-9._+=,-]")
_NAME_LENGTH = 80
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: Runs this very package without a change to the environment, which the command inherits, and without
#: looking for modules in the working directory.
_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from panthor_trace.cli import main; main()"
_PACKAGES = str(Path(__file__).resolve().parents[2])
_PLAN = "sweep.json"
#: Behind a trace's name: what was printed, and a mark (``_mark``).
_LOG, _INTERRUPTED = ".log", ".interrupted"
_FORMAT = 1


class Interrupted(Exception):
    """Somebody wants the sweep to end; carries the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass(frozen=True)
class Sweep:
    """A directory of runs of one command. ``options`` are those of ``panthor-trace run``."""

    directory: Path
    template: Template
    options: tuple[str, ...]
    owner: Identity | None

    @classmethod
    def open(cls, directory: Path, template: Template, options: Sequence[str]) -> Sweep:
        """Make the directory, or go on in it. Raises TraceError where it is another sweep's."""
        owner = Identity.invoking(os.environ)
        plan = {"format": _FORMAT, "command": list(template.words), "options": list(options)}
        sweep = cls(directory, template, tuple(options), owner)
        try:
            with acting_as(owner):
                sweep._claim(plan)
        except OSError as error:
            raise TraceError(f"cannot make {directory}: {error.strerror}", EXIT_OUTPUT) from None
        return sweep

    def _claim(self, plan: dict[str, Any]) -> None:
        with contextlib.suppress(FileExistsError):
            self.directory.mkdir()
        path = self.directory / _PLAN
        if not path.exists():
            if any(self.directory.iterdir()):
                raise TraceError(
                    f"{self.directory} is there and no sweep's: choose another with -o", EXIT_OUTPUT
                )
            write_output(path, (json.dumps(plan, indent=1) + "\n").encode())
        try:
            known = json.loads(path.read_bytes())
        except ValueError:
            known = None
        if known != plan:
            raise TraceError(
                f"{self.directory} has another sweep (its command or options differ): choose another with -o",
                EXIT_OUTPUT,
            )

    def outcome(self, values: Values) -> Outcome:
        """What came of these values; runs them where they have not been run to their end."""
        name = file_name(values)
        number = 1
        while True:
            path = self.directory / (name if number == 1 else f"{name}~{number}")
            try:
                with acting_as(self.owner):
                    if not path.exists() and not path.is_symlink():
                        break
                    complete = (path / "end.json").is_file() and not _mark(path).exists()
            except OSError as error:
                raise TraceError(f"cannot read {path}: {error.strerror}", EXIT_OUTPUT) from None
            if complete:
                return self._judge(path)
            number += 1  # cut short: kept, for a trace is never overwritten
        self._run(path, values)
        return self._judge(path)

    def _run(self, path: Path, values: Values) -> None:
        if os.geteuid() != 0:
            raise TraceError(f"{label(values)} has to be run, and recording needs root", EXIT_NOT_ROOT)
        log = path.with_name(f"{path.name}{_LOG}")
        try:
            with acting_as(self.owner):
                # Of a run that came to no trace.
                log.unlink(missing_ok=True)
                _mark(path).unlink(missing_ok=True)
                output = os.open(log, _NEW_FILE, 0o644)
        except OSError as error:
            raise TraceError(f"cannot write {log}: {error.strerror}", EXIT_OUTPUT) from None
        command = [sys.executable, "-P", "-c", _START, _PACKAGES, "run", "--no-csv", "-o", str(path)]
        command += [*self.options, "--", *self.template.with_values(values)]
        try:
            status = _wait(command, output)
        except Interrupted:
            # A full disk is no reason to do as if nobody had interrupted.
            with contextlib.suppress(OSError), acting_as(self.owner):
                os.close(os.open(_mark(path), _NEW_FILE, 0o644))
            raise
        finally:
            os.close(output)
        with acting_as(self.owner):
            if not (path / "end.json").is_file():
                raise TraceError(f"{label(values)}: {_last_words(log)}", status if status > 0 else 1)

    def _judge(self, path: Path) -> Outcome:
        """The outcome of a trace, worked out by a process that has become its owner."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _judge_and_exit(path, writing, self.owner)
        os.close(writing)
        with os.fdopen(reading, "rb") as answer:
            content = answer.read()
        os.waitpid(child, 0)
        try:
            found = json.loads(content)
        except ValueError:
            raise TraceError(f"{path} cannot be judged: panthor-trace report {path} may say why") from None
        if "error" in found:
            raise TraceError(found["error"])
        return Outcome.from_json(found)


def file_name(values: Values) -> str:
    """A name for the values: readable, and another one for every other value."""
    plain = ",".join(f"{name}={value}" for name, value in values.items())
    clean = _UNFIT.sub("_", plain)[:_NAME_LENGTH]
    if clean == plain and not clean.startswith((".", "-")) and not clean.endswith((_LOG, _INTERRUPTED)):
        return clean
    return f"{clean.lstrip('.-')}-{hashlib.sha256(plain.encode(errors='surrogateescape')).hexdigest()[:8]}"


def _mark(path: Path) -> Path:
    """A file that says of a trace that its command did not end by itself."""
    return path.with_name(f"{path.name}{_INTERRUPTED}")


def _wait(command: Sequence[str], output: int) -> int:
    """Run to its end. A signal that is to end us ends the command first, as a terminal's Ctrl-C does."""
    with _steered() as signals:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        signals.child = child
        status = child.wait()
    if signals.number:
        raise Interrupted(signals.number)
    return status


class _Signals:
    number = 0
    child: subprocess.Popen[bytes] | None = None


@contextlib.contextmanager
def _steered() -> Iterator[_Signals]:
    """Signals that end a program are kept for later; those of a terminal reach the command without us."""
    kept = _Signals()

    def keep(number: int, _frame: FrameType | None) -> None:
        kept.number = number
        if number != signal.SIGINT and kept.child is not None:
            kept.child.send_signal(number)

    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, keep) for number in ending}
    try:
        yield kept
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _last_words(log: Path) -> str:
    """The tracer's last line, or the command's."""
    with contextlib.suppress(OSError):
        lines = log.read_bytes()[-4096:].decode(errors="replace").splitlines()
        if lines:
            return lines[-1].removeprefix("panthor-trace: ")
    return f"no trace came of it; {log} may say why"


def _judge_and_exit(path: Path, writing: int, owner: Identity | None) -> None:
    """In the child."""
    try:
        if owner:
            from ..commands.run import rehearse

            rehearse()
            owner.become()
        from ..analysis import analyse
        from .outcome import outcome_of

        content: dict[str, Any] = replace(outcome_of(analyse(path)), trace=str(path)).as_json()
    except TraceError as error:
        content = {"error": str(error)}
    except BaseException as error:
        content = {"error": unexpected(error) if isinstance(error, Exception) else "interrupted"}
    try:
        with os.fdopen(writing, "wb") as file:
            file.write(json.dumps(content).encode())
    finally:
        os._exit(0)
