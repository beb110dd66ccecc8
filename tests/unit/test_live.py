# SPDX-License-Identifier: MIT
"""The status line: its figures are the tables', and it leaves what a command prints where it was."""

from __future__ import annotations

import os
import pty
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyte
import pytest

from panthor_trace.capture import status_line
from panthor_trace.capture.live import Figures
from panthor_trace.capture.status_line import StatusLine, text
from panthor_trace.model import build
from panthor_trace.trace.reader import Trace
from panthor_trace.trace.schema import ProcessEvent, RecordType
from panthor_trace.uapi import ioctls
from panthor_trace.uapi.ioc import number_of

from .stories import CB, MIB, STORIES, begin
from .synthetic import SyntheticTrace

ROWS, COLUMNS = 10, 60
GEM_CLOSE = ioctls.BY_NAME["GEM_CLOSE"].number


def arrivals(trace: Trace, until_ns: int = 1 << 62) -> Callable[[RecordType], list[bytes]]:
    """What the recorder would have seen by then: a call when it returned.

    A GEM_CLOSE when it was entered: from then on the tables count the buffer no more.
    """

    def fresh(kind: RecordType) -> list[bytes]:
        rows = []
        for record in trace.of(kind):
            at = int(record["exit_ns"] if "exit_ns" in record.dtype.names else record["head"]["enter_ns"])
            if kind == RecordType.IOCTL and number_of(int(record["cmd"])) == GEM_CLOSE:
                at = int(record["head"]["enter_ns"])
            if at <= until_ns:
                rows.append(record.tobytes())
        return rows

    return fresh


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_figures_are_those_of_the_tables(story: object) -> None:
    run = SyntheticTrace()
    story.tell(run)  # type: ignore[attr-defined]
    trace = run.finish(story.exit_code)  # type: ignore[attr-defined]
    tables = build(trace)
    for until in [1 << 62, *tables.memory["time_ns"].iloc[:-1]]:
        figures = Figures()
        figures.look(arrivals(trace, until))
        memory = tables.memory[tables.memory["time_ns"] <= until]
        last = memory.iloc[-1] if len(memory) else None
        assert figures.bo_bytes == (0 if last is None else last["live_bo_bytes"])
        assert figures.va_bytes == (0 if last is None else last["va_bytes"])
    assert figures.dispatches <= len(tables.dispatches)
    whole = Figures()
    whole.look(arrivals(trace))
    assert whole.dispatches == len(tables.dispatches)
    assert whole.failures == len(tables.failures)
    assert not whole.inexact


def test_what_is_closed_unmapped_and_destroyed_is_no_more() -> None:
    run = SyntheticTrace()
    begin(run)
    handle = run.bo_create(3 * MIB)
    run.vm_bind((handle, 3 * MIB), va=0x5000_0000)
    figures = Figures()
    figures.look(arrivals(run.finish()))
    assert (figures.bo_bytes, figures.va_bytes) == (5 * MIB, 5 * MIB)
    run.vm_bind((handle, 3 * MIB), unmap=True, va=0x5000_0000)
    run.bo_close(handle)
    figures = Figures()
    figures.look(arrivals(run.finish()))
    assert (figures.bo_bytes, figures.va_bytes) == (2 * MIB, 2 * MIB)
    run.ioctl("VM_DESTROY", {"id": 1})
    run.process(ProcessEvent.EXIT)
    figures = Figures()
    figures.look(arrivals(run.finish()))
    assert (figures.bo_bytes, figures.va_bytes, figures.heap_bytes) == (0, 0, 0)


def test_what_parent_and_child_share_goes_with_the_last_of_them() -> None:
    run = SyntheticTrace(pid=100)
    run.bo_create(MIB)
    run.fork(200)
    run.pid = run.tid = 200
    run.bo_create(MIB)
    run.process(ProcessEvent.EXIT)
    figures = Figures()
    figures.look(arrivals(run.finish()))
    assert figures.bo_bytes == 2 * MIB
    run.pid = run.tid = 100
    run.process(ProcessEvent.EXIT)
    figures = Figures()
    figures.look(arrivals(run.finish()))
    assert figures.bo_bytes == 0


def test_heaps() -> None:
    run = SyntheticTrace()
    run.ioctl("TILER_HEAP_CREATE", {"initial_chunk_count": 5, "chunk_size": 2 * MIB}, {"handle": 7})
    figures = Figures()
    figures.look(arrivals(run.finish()))
    assert figures.heap_bytes == 10 * MIB
    run.ioctl("TILER_HEAP_DESTROY", {"handle": 7})
    figures = Figures()
    figures.look(arrivals(run.finish()))
    assert figures.heap_bytes == 0


def test_a_flood_is_left_to_the_recording() -> None:
    run = SyntheticTrace()
    run.call("vkCmdDispatch", CB, 1, 1, 1)
    record = run.finish().of(RecordType.VULKAN)[0].tobytes()
    figures = Figures()
    figures.look(lambda kind: [record] * 6000 if kind == RecordType.VULKAN else [])
    assert (figures.dispatches, figures.inexact) == (0, True)
    assert "~" in text(figures, 1, 80)


def test_looking_costs_less_than_recording() -> None:
    """The same for the ten-thousandth record as for the first."""
    run = SyntheticTrace()
    for number in range(200):
        run.vm_bind((run.bo_create(4096), 4096), va=0x1000_0000 + (number << 20))
    fresh = arrivals(run.finish())
    records = {kind: fresh(kind) for kind in RecordType}
    count = sum(map(len, records.values()))
    figures = Figures()
    figures.look(lambda kind: records[kind])
    first = time.thread_time()
    for _ in range(50):
        figures.look(lambda kind: records[kind])
    each = (time.thread_time() - first) / 50 / count
    assert each < 50e-6  # a few microseconds where nothing else runs


@pytest.mark.parametrize("columns", [30, 40, 80, 200])
def test_the_line_fits(columns: int) -> None:
    figures = Figures()
    figures.bo_bytes, figures.va_bytes, figures.heap_bytes = 28 << 30, 1 << 40, 20 << 20
    figures.dispatches, figures.failures = 123456, 3
    shown = text(figures, 3600, columns)
    assert len(shown) < columns
    assert shown.startswith("3600 s  GPU buffers 28 GiB")
    assert ("heaps 20 MiB" in shown) == (columns >= 80)


@dataclass
class Terminal:
    """A terminal with somebody who reads it."""

    master: int
    slave: int
    screen: pyte.Screen
    stream: pyte.ByteStream

    def read(self) -> list[str]:
        """What it shows now."""
        while True:
            try:
                self.stream.feed(os.read(self.master, 65536))
            except BlockingIOError:
                return [line.rstrip() for line in self.screen.display]

    def command(self, output: str) -> None:
        """The command prints something."""
        os.write(self.slave, output.encode())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(StatusLine, "_in_front", lambda _line: True)
    monkeypatch.setattr(status_line, "_SECONDS", 0)
    master, slave = pty.openpty()
    os.set_blocking(master, False)
    termios.tcsetwinsize(slave, (ROWS, COLUMNS))
    screen = pyte.Screen(COLUMNS, ROWS)
    yield Terminal(master, slave, screen, pyte.ByteStream(screen))
    os.close(master)
    os.close(slave)


def nothing(_kind: RecordType) -> list[bytes]:
    return []


#: Output of commands: lines, a line that grows, one that is rewritten, long ones, colours across writes.
OUTPUTS = (
    [f"line {number}\n" for number in range(3)],
    [f"line {number}\n" for number in range(40)],
    ["loading", ".", ".", ".", " done\n", "next\n"],
    [f"\r{percent} %" for percent in range(0, 101, 10)] + ["\n"],
    ["x" * 150 + "\n", "short\n"] * 4,
    ["\033[31mred", " still red", "\033[0m plain\n"] * 6,
    ["a\n" * 30, "no line feed at the end"],
)


def alone(output: list[str], before: str) -> list[str]:
    """The rows that ``output`` leaves on a terminal with one row less."""
    screen = pyte.Screen(COLUMNS, ROWS - 1)
    pyte.Stream(screen).feed((before + "".join(output)).replace("\n", "\r\n"))
    return [line.rstrip() for line in screen.display]


@pytest.mark.parametrize("before", ["", "$ panthor-trace\n", "shell\n" * 30], ids=["top", "second", "bottom"])
@pytest.mark.parametrize("output", OUTPUTS)
def test_what_the_command_prints_is_where_it_would_be(
    output: list[str], before: str, terminal: Terminal
) -> None:
    terminal.command(before)
    line = StatusLine.on(terminal.slave)
    assert isinstance(line, StatusLine)
    for part in output:
        line.look(nothing, time.monotonic())
        terminal.command(part)
    line.look(nothing, time.monotonic())
    shown = terminal.read()
    assert "GPU buffers 0 B" in shown[-1]
    assert shown[:-1] == alone(output, before)
    line.take_down()
    shown = terminal.read()
    assert shown[-1] == ""
    assert shown[:-1] == alone(output, before)
    terminal.command("\nafter\n" * ROWS)
    assert terminal.read()[-2] == "after"  # every row scrolls again


def test_colours_go_on_after_the_line(terminal: Terminal) -> None:
    line = StatusLine.on(terminal.slave)
    assert isinstance(line, StatusLine)
    terminal.command("\033[31mred")
    line.look(nothing, time.monotonic())
    terminal.command("more")
    terminal.read()
    assert terminal.screen.buffer[0][6].fg == "red"
    assert not terminal.screen.buffer[0][6].reverse


def test_a_resized_terminal_gets_its_row_back(terminal: Terminal) -> None:
    line = StatusLine.on(terminal.slave)
    assert isinstance(line, StatusLine)
    line.look(nothing, time.monotonic())
    termios.tcsetwinsize(terminal.slave, (ROWS, COLUMNS + 10))
    line.look(nothing, time.monotonic())
    assert terminal.read() == [""] * ROWS
    line.look(nothing, time.monotonic())
    line.take_down()
    assert terminal.read() == [""] * ROWS


def test_a_stopped_terminal_does_not_stop_the_recording(terminal: Terminal) -> None:
    line = StatusLine.on(terminal.slave)
    assert isinstance(line, StatusLine)
    termios.tcflow(terminal.slave, termios.TCOOFF)  # as Ctrl-S
    began = time.monotonic()
    for _ in range(1000):
        line.look(nothing, time.monotonic())
    assert time.monotonic() - began < 5
    termios.tcflow(terminal.slave, termios.TCOON)
    line.look(nothing, time.monotonic())
    assert "GPU buffers" in terminal.read()[-1]
    assert os.get_blocking(terminal.slave)  # the command's own opening


def test_where_there_is_no_room_there_is_no_line(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    termios.tcsetwinsize(terminal.slave, (4, COLUMNS))
    assert StatusLine.on(terminal.slave) == "the terminal is too small"
    termios.tcsetwinsize(terminal.slave, (ROWS, COLUMNS))
    monkeypatch.setattr(StatusLine, "_in_front", lambda _line: False)
    assert StatusLine.on(terminal.slave) == "panthor-trace runs in the background"
    monkeypatch.setenv("TERM", "dumb")
    assert StatusLine.on(terminal.slave) == "the terminal cannot place text (TERM)"
    assert terminal.read() == [""] * ROWS
