# SPDX-License-Identifier: MIT
"""Runs a command with every probe live and writes what they record into a trace directory."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import EXIT_NOT_ROOT, EXIT_OUTPUT, TraceError
from ..trace.schema import SCHEMA_VERSION, RecordType
from ..trace.writer import TraceWriter
from ..uapi import vulkan
from . import driver
from .attach import Attached
from .guardian import Guardian
from .holder import Holder
from .identity import Identity, acting_as
from .launcher import Command, Signals, check_command, shell_status
from .netlink import Netlink
from .nodes import Node, node_at, panthor_nodes
from .observer import Observer, max_map_count
from .program import Program, stopwatch
from .sink import EventSink
from .source import DEFAULT_RING_UNITS
from .state import StateWatch
from .status_line import StatusLine

#: How often the ring is drained. Waking up for every record would cost the traced process more.
DRAIN_SECONDS = 0.02
_COUNTERS_SECONDS = 1.0
#: So many records in one drain mean that the ring fills fast: drain again without a pause.
_BUSY_RECORDS = 2000
#: Descriptors the tracer itself may need.
_FILES = 4096
#: What of a command's name goes into the name of its trace, and how much.
_UNFIT = re.compile(r"[^A-Za-z0-9._+-]")
_NAME_LENGTH = 64


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    command: tuple[str, ...]
    output: str | None = None
    user: str | None = None
    drop: bool = True
    environment: tuple[tuple[str, str], ...] = ()
    root: Path = Path("/")
    nodes: tuple[str, ...] = ()
    #: "auto", "drm" or "syscall".
    ioctl_hook: str = "auto"
    #: Attach to this running process instead of starting ``command``, which is then empty.
    pid: int | None = None
    #: Stop a process at its failure until its state has been read.
    hold: bool = True
    #: Show on the terminal how it goes.
    live: bool = False
    #: Size of the ring of records in units of 4 KiB, a power of two.
    ring_units: int = DEFAULT_RING_UNITS


@dataclass
class Recording:
    """How it went: the trace, the command's exit code, and what the user has to be told."""

    path: str
    exit_code: int
    #: Whose the trace is: the user who ran sudo. None: our own.
    owner: Identity | None
    warnings: list[str] = field(default_factory=list)


def default_directory(command: Sequence[str]) -> str:
    """``panthor-trace-<command>-<date>-<pid>`` in the current directory."""
    name = _UNFIT.sub("_", Path(command[0] if command else "").name)[:_NAME_LENGTH] or "process"
    return f"panthor-trace-{name}-{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}"


def _require_root() -> None:
    if os.geteuid() != 0:
        raise TraceError(
            "recording needs root (it loads BPF programs): run it with sudo; the command itself runs as you",
            EXIT_NOT_ROOT,
        )


def _command_identity(options: Options, owner: Identity | None) -> Identity | None:
    if options.user:
        return Identity.of_user(options.user)
    return owner if options.drop else None


def _metadata(
    options: Options,
    target: Command | Attached,
    program: Program,
    nodes: Sequence[Node],
    identity: Identity | None,
    holder: Holder,
) -> dict[str, Any]:
    machine = platform.uname()
    return {
        "tool": "panthor-trace",
        "version": __version__,
        "schema_version": SCHEMA_VERSION,
        "command": list(target.argv),
        "attached_pid": target.pid if isinstance(target, Attached) else None,
        "directory": _working_directory(target.pid),
        "root": str(options.root),
        "user": identity.name or str(identity.uid) if identity else None,
        "started": datetime.now().astimezone().isoformat(),
        "started_monotonic_ns": time.monotonic_ns(),
        "machine": {
            "hostname": machine.node,
            "kernel": machine.release,
            "kernel_version": machine.version,
            "architecture": machine.machine,
            "cpus": os.cpu_count(),
            "page_size": os.sysconf("SC_PAGE_SIZE"),
            "max_map_count": max_map_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        },
        "nodes": [node.as_json() for node in nodes],
        "ioctl_hook": program.ioctl_hook,
        "ring_bytes": options.ring_units * 4096,
        "hold": holder.as_json(),
        "driver_functions": driver.as_json(),
        "layers": {name: layer.as_json() for name, layer in program.layers.items()},
        "libraries": [row["path"] for row in program.libraries.rows],
        "startup_seconds": program.seconds,
        "vulkan_functions": [function.name for function in vulkan.FUNCTIONS],
    }


def record(options: Options, say: Callable[[str], None]) -> Recording:
    """Run ``options.command`` traced, or trace ``options.pid``. Raises TraceError where nothing was traced.

    From the moment the command runs, nothing that goes wrong here ends or alters it.
    """
    _require_root()
    environment = dict(os.environ)
    # The trace is the invoking user's whoever the command runs as: root must not write where that user can
    # put links in the way, nor leave files behind that the user cannot remove.
    owner = Identity.invoking(os.environ)
    identity = _command_identity(options, owner)
    if identity:
        environment.update(identity.environment())
    environment.update(options.environment)
    attached = Attached(options.pid) if options.pid is not None else None
    if attached is None:
        with acting_as(identity):
            check_command(options.command, environment)
    nodes = [*panthor_nodes(), *(node_at(path) for path in options.nodes)]
    if not nodes:
        say("no panthor device on this machine: only Vulkan calls and exceptions will be recorded")

    path = options.output or default_directory(attached.argv if attached else options.command)
    signals = Signals()
    hold = options.hold and attached is None
    guardian = None
    try:
        with acting_as(owner):
            writer = TraceWriter.create(path, (os.geteuid(), os.getegid()))
        try:
            target = attached or Command(options.command, environment, identity, signals, may_be_held=hold)
            guardian = Guardian() if hold else None
            recording = _record_into(
                writer, options, environment, identity, nodes, target, signals, guardian, say
            )
        except BaseException:  # raised only as long as the command has not run
            writer.discard()
            raise
        recording.owner = owner
        return recording
    finally:
        if guardian:
            guardian.close()
        if attached:
            attached.close()
        signals.restore()


def _record_into(
    writer: TraceWriter,
    options: Options,
    environment: Mapping[str, str],
    identity: Identity | None,
    nodes: Sequence[Node],
    target: Command | Attached,
    signals: Signals,
    guardian: Guardian | None,
    say: Callable[[str], None],
) -> Recording:
    _spare_from_oom()
    _allow_many_files()
    _be_somewhere()
    sink = EventSink(writer)
    program = netlink = None
    try:
        program = Program(nodes, options.ioctl_hook, options.ring_units)
        with stopwatch(program.seconds, "netlink"):
            netlink = Netlink(program.layers)
        root = target.root if isinstance(target, Attached) else options.root
        program.attach_libraries(root, environment)
        program.open_ring(sink.on_record)
        observer = Observer(sink, program.libraries, netlink)
        if isinstance(target, Attached):
            program.attach_process(target.pid)
            observer.follow(target.pid, running=True)
        else:
            program.follow(target.pid)
            observer.follow(target.pid)
        for name, layer in program.layers.items():
            if not layer.live:
                say(f"{name} layer not live: {layer.why}")
        holder = Holder(program.hold_maps, guardian, _why_not_held(options, program))
        holder.turn_on()
        _write_start(writer, _metadata(options, target, program, nodes, identity, holder))
        interrupted = signals.interrupted()
        if interrupted:
            what = (
                "the process was attached to" if isinstance(target, Attached) else "the command was started"
            )
            raise TraceError(f"interrupted before {what}", 128 + interrupted)
    except BaseException:
        if isinstance(target, Command):
            target.abandon()
        for opened in (program, netlink):
            if opened:
                opened.close()
        raise
    line = _status_line(say) if options.live else None  # while nobody else writes to the terminal
    if isinstance(target, Attached):
        say(f"attached to process {target.pid} ({' '.join(target.argv)}); Ctrl-C detaches")
    else:
        try:
            if line:
                target.before_stop = line.take_down
            target.release()
        except TraceError:
            if line:
                line.take_down()
            program.close()
            netlink.close()
            raise
    devices = {os.makedev(node.rdev >> 20, node.rdev & 0xFFFFF) for node in nodes}
    watch = StateWatch(target.pid, sink.write_state, holder, devices, observer.look_at)
    try:
        _drain_until_end(program, target, sink, observer, watch, holder, signals, line)
    except Exception as error:  # whatever it is, the command is waited for all the same
        sink.failure = sink.failure or f"{type(error).__name__}: {error}"
        holder.close()
        _wait_for_end(target, signals)
    if line:
        line.take_down()
    program.close()
    netlink.close()
    return _finish(writer, program, target, sink, observer, netlink)


def _status_line(say: Callable[[str], None]) -> StatusLine | None:
    """Where standard error is a terminal."""
    if not os.isatty(2):
        return None
    line = StatusLine.on(2)
    if isinstance(line, str):
        say(f"no live view: {line}")
        return None
    return line


def _why_not_held(options: Options, program: Program) -> str:
    """Why no process is stopped at its failure; empty where it is."""
    if not options.hold:
        return "turned off (--no-hold)"
    if options.pid is not None:
        return "a process attached to has a parent that may notice it being stopped"
    return "" if program.hold_maps else "the kernel's type information does not show whether that is safe"


def _spare_from_oom() -> None:
    """Out of memory, the kernel ends the largest process: without us that would not be us.

    Done when the command is forked already, which keeps its own setting.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("-1000")


def _be_somewhere() -> None:
    """Where our working directory has been removed: the compiler wants one. The command keeps its own."""
    try:
        Path.cwd()
    except FileNotFoundError:
        os.chdir("/")


def _working_directory(pid: int) -> str | None:
    """With " (deleted)" behind it where it has been removed."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115 - may hold any bytes
    except OSError:
        return None


def _allow_many_files() -> None:
    """Every probe takes a descriptor or two, some hundred in all. The command keeps its own limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= _FILES:
        return
    for most in (max(hard, _FILES), hard):  # the first takes CAP_SYS_RESOURCE, which containers may withhold
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, _FILES), most))
            return


def _write_start(writer: TraceWriter, metadata: Mapping[str, Any]) -> None:
    try:
        writer.write_json("meta.json", metadata)
    except OSError as error:
        raise TraceError(
            f"cannot write the trace {writer.path}: {error.strerror}; choose another directory with -o",
            EXIT_OUTPUT,
        ) from None


def _wait_for_end(target: Command | Attached, signals: Signals) -> None:
    """See the command to its end without recording."""
    while not target.poll():
        target.follow_stop()
        info = signals.wait(DRAIN_SECONDS)
        if info is not None:
            target.pass_on(info)


def _drain_until_end(
    program: Program,
    target: Command | Attached,
    sink: EventSink,
    observer: Observer,
    watch: StateWatch,
    holder: Holder,
    signals: Signals,
    line: StatusLine | None,
) -> None:
    """Drain until the command has ended, then take what is left."""
    next_counters, received = 0.0, 0
    watch.sample("start")
    while not target.poll():
        program.drain()
        fresh = sink.arrivals()
        watch.failures(fresh(RecordType.FAILURE))
        observer.observe(fresh)
        now = time.monotonic()
        watch.look(fresh)
        if line:
            line.look(fresh, now)
        watch.periodic(now)
        if now >= next_counters:
            holder.check()
            sink.add_counters(program.counters())
            sink.add(RecordType.KERNEL_STACK, program.kernel_stacks())
            next_counters = now + _COUNTERS_SECONDS
        sink.flush(now=now)
        if not holder.holds(target.pid):
            target.follow_stop()
        info = signals.wait(0 if sink.received - received > _BUSY_RECORDS else DRAIN_SECONDS)
        received = sink.received
        if info is not None:
            target.pass_on(info)
    program.drain()
    fresh = sink.arrivals()
    watch.failures(fresh(RecordType.FAILURE))
    holder.close()
    observer.observe(fresh)
    watch.look(fresh)
    watch.sample("end")
    for kind, records in program.unfinished().items():
        sink.add(kind, records)
    sink.add(RecordType.KERNEL_STACK, program.kernel_stacks())
    sink.add_counters(program.counters())
    sink.flush()


def _finish(
    writer: TraceWriter,
    program: Program,
    target: Command | Attached,
    sink: EventSink,
    observer: Observer,
    netlink: Netlink,
) -> Recording:
    recording = Recording(writer.path, target.exit_code, owner=None)
    status = target.status if isinstance(target, Command) else observer.statuses.get(target.pid)
    end = {
        "ended": datetime.now().astimezone().isoformat(),
        "ended_monotonic_ns": time.monotonic_ns(),
        "exit_code": shell_status(status) if status is not None else None,
        "wait_status": status,
        "root_pid": target.pid,
        "detached": isinstance(target, Attached) and target.detached,
        "layers": {name: layer.as_json() for name, layer in program.layers.items()},
        "dropped_netlink": netlink.dropped,
        "write_failure": sink.failure,
        "discarded_records": sink.discarded,
        "tracer_peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    try:
        writer.write_json("end.json", end)
    except OSError as error:
        sink.failure = sink.failure or error.strerror
    if sink.failure:
        recording.warnings.append(
            f"the trace is incomplete: {sink.failure} while writing {writer.path} "
            f"({sink.discarded} records lost); the command was not affected"
        )
    writer.close()
    return recording
