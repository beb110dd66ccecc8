# SPDX-License-Identifier: MIT
"""Kills a tracer at random instants while it holds a process, and says how that process fared.

    hold_trials.py WHAT=TRIALS… -- COMMAND…

WHAT is ``tracer``, ``both`` (tracer and guardian at one moment), ``stop`` (SIGSTOP to the tracer), or
``child`` (the tracer, while a child of the command is held). The BPF programs are loaded once and stay
attached whoever is killed, which is harder on what is tested than life: there they go with the tracer. Each
trial forks a tracer, which starts the command; one line of JSON a trial. There are more trials than asked for
where none of those met a process that was held.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from panthor_trace.capture import recorder
from panthor_trace.capture.guardian import Guardian
from panthor_trace.capture.holder import Holder
from panthor_trace.capture.launcher import Command, Signals
from panthor_trace.capture.netlink import Netlink
from panthor_trace.capture.nodes import node_at
from panthor_trace.capture.observer import Observer
from panthor_trace.capture.program import Program
from panthor_trace.capture.sink import EventSink
from panthor_trace.capture.state import StateWatch
from panthor_trace.trace.writer import TraceWriter

#: A process that is left to itself ends within this.
PATIENCE_SECONDS = 10.0
_PR_SET_CHILD_SUBREAPER = 36


def trace(program: Program, command: list[str], directory: str, tell: int) -> None:
    """What the recorder does, from the fork of the command on."""
    signals = Signals()
    target = Command(command, dict(os.environ), None, signals, may_be_held=True)
    guardian = Guardian()
    sink = EventSink(TraceWriter.create(directory, (0, 0)))
    program.open_ring(sink.on_record)
    observer = Observer(sink, program.libraries, Netlink(program.layers))
    holder = Holder(program.hold_maps, guardian)
    holder.turn_on()
    watch = StateWatch(target.pid, sink.write_state, holder, (), observer.look_at)
    program.follow(target.pid)
    os.write(tell, f"{target.pid} {guardian.pid} {int(holder.on)}\n".encode())
    target.release()
    recorder._run(program, target, sink, observer, watch, holder, signals)
    os._exit(target.exit_code)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def trial(program: Program, what: str, command: list[str]) -> dict[str, object]:
    """One tracer, one command, one kill. ``left`` is how the command ended, or "stopped" or "running"."""
    read, write = os.pipe()
    with tempfile.TemporaryDirectory() as directory:
        tracer = os.fork()
        if tracer == 0:
            os.setpgid(0, 0)
            trace(program, command, f"{directory}/trace", write)
        os.close(write)
        pid, guardian, on = (int(word) for word in os.read(read, 100).split())
        os.close(read)
        handle = os.pidfd_open(pid)
        delay = random.uniform(0, 0.08)
        if random.random() < 0.7:  # most of the time, from a moment on when it is held
            while not {"T", "Z", "gone"} & {_state(pid), *map(_state, _children(pid))}:
                time.sleep(0.0002)
            delay /= 3
        time.sleep(delay)
        held = "T" in (_state(pid), *map(_state, _children(pid)))
        if what == "both":
            os.kill(guardian, signal.SIGKILL)
        os.kill(tracer, signal.SIGSTOP if what == "stop" else signal.SIGKILL)
        killed = time.monotonic()
        left = "running"
        while time.monotonic() < killed + PATIENCE_SECONDS:
            if _state(pid) == "gone" or (what == "stop" and _state(pid) == "Z"):
                left = "ended"  # the tracer knows how
                break
            with contextlib.suppress(ChildProcessError):  # not ours as long as the tracer is being ended
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    left = str(os.waitstatus_to_exitcode(status))
                    break
            time.sleep(0.002)
        else:
            left = f"state {_state(pid)}"
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        seconds = time.monotonic() - killed
        os.close(handle)
        if what == "stop":
            os.kill(tracer, signal.SIGCONT)
        os.waitpid(tracer, 0)
    return {"held": held, "left": left, "seconds": round(seconds, 3), "delay": round(delay, 3), "on": on}


def main() -> None:
    """Run the trials."""
    separator = sys.argv.index("--")
    command = sys.argv[separator + 1 :]
    # Orphans of a killed tracer come to us, so that their end can be seen.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    program = Program([node_at("/dev/null")])
    for wanted in sys.argv[1:separator]:
        what, _, trials = wanted.partition("=")
        done = held = 0
        # One of them at least is to meet a process that is held; how often is the machine's affair.
        while done < int(trials) or (not held and done < 20 * int(trials)):
            started = [command[0], "child", *command[1:]] if what == "child" else command
            row = trial(program, what, started)
            print(json.dumps({"what": what, **row}), flush=True)
            done, held = done + 1, held + bool(row["held"])
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    program.close()


if __name__ == "__main__":
    main()
