# SPDX-License-Identifier: MIT
"""The report: its order, its width, and one whole report as it is to look."""

from __future__ import annotations

import io
import os
import pty
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from panthor_trace.model import build
from panthor_trace.report.terminal import show, text
from panthor_trace.trace.reader import Trace
from panthor_trace.trace.schema import Counter
from panthor_trace.verdict import EXIT_STATUS, Cause, judge
from panthor_trace.verdict.wording import size

from .synthetic import ENOMEM, OUT_OF_DEVICE_MEMORY, SyntheticTrace, cgroup

GOLDEN = Path(__file__).parent / "golden"
MIB = 1 << 20
CB = 0xCB0


def report_of(trace: Trace) -> str:
    tables = build(trace)
    return text(judge(tables, trace.meta, trace.end), tables, trace.meta)


def refused() -> Trace:
    """What the reported case looks like, in small."""
    run = SyntheticTrace()
    run.ioctl("VM_CREATE", {}, {"id": 1, "user_va_range": 1 << 47})
    run.state("process", maps=300, cgroups=[cgroup("/sys/fs/cgroup/tight", 250 * MIB, 90 * MIB, 90 * MIB)])
    with run.vulkan("vkAllocateMemory", 1):
        run.vm_bind((run.bo_create(42 * MIB), 42 * MIB))
    run.call("vkBeginCommandBuffer", CB)
    for number in range(1, 4):
        with run.vulkan("vkCmdDispatch", CB, 32 * number, 1, 1):
            run.vm_bind((run.bo_create(number * MIB), number * MIB))
    with run.vulkan("vkCmdDispatch", CB, 64, 2, 1):
        handle = run.bo_create(152 * MIB)
        run.vm_bind((handle, 152 * MIB), error=ENOMEM)
        run.bo_close(handle)
    run.state(
        "failure",
        maps=512,
        cgroups=[cgroup("/sys/fs/cgroup/tight", 250 * MIB, 249 * MIB, 250 * MIB, max=60, oom_kill=0)],
    )
    run.call("vkEndCommandBuffer", CB, result=OUT_OF_DEVICE_MEMORY)
    run.throw("N2vk22OutOfDeviceMemoryErrorE")
    run.lose(Counter.LOST_ARRAY, 2)
    return run.finish(134)


def test_whole_report() -> None:
    """Set PANTHOR_TRACE_GOLDEN=1 to write the file anew, then read the difference."""
    path = GOLDEN / "kernel-memory.txt"
    report = report_of(refused())
    if os.environ.get("PANTHOR_TRACE_GOLDEN"):
        path.write_text(report)
    assert report == path.read_text()


def test_report_is_plain_and_eighty_columns_wide() -> None:
    report = report_of(refused())
    assert "\x1b" not in report
    assert max(len(line) for line in report.splitlines()) <= 80
    assert not [line for line in report.splitlines() if line != line.rstrip()]


def test_answer_comes_first_and_losses_last() -> None:
    report = report_of(refused())
    assert report.startswith("kernel cap: NO. the kernel refused, a memory cgroup is full")
    order = ["failing call:", "evidence:", "ruled out:", "limits at", "largest", "dispatch to", "losses:"]
    places = [report.index(words) for words in order]
    assert places == sorted(places)
    assert report.splitlines()[-1] == "losses: 2 lost array"


def test_layer_that_was_not_live_is_named_last() -> None:
    run = SyntheticTrace()
    run.layers["ioctl"] = {"live": False, "why": "no BTF"}
    assert report_of(run.finish(0)).splitlines()[-1] == "layers not live: ioctl (no BTF)"


def test_ten_largest_allocations_only() -> None:
    run = SyntheticTrace()
    for number in range(1, 24):
        run.bo_create(number * MIB)
    lines = report_of(run.finish(0)).splitlines()
    first = lines.index("largest allocations:") + 3
    assert [line.split()[0] for line in lines[first : first + 10]] == [str(n) for n in range(23, 13, -1)]
    assert "MiB" not in lines[first + 10]


def test_run_without_buffers_has_no_tables_of_them() -> None:
    run = SyntheticTrace()
    run.call("vkCreateInstance")
    report = report_of(run.finish(0, nodes=()))
    assert "largest allocations" not in report
    assert "dispatch to dispatch" not in report


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    trace = refused()
    tables = build(trace)
    show(judge(tables, trace.meta, trace.end), tables, trace.meta)
    return capsys.readouterr().out


def test_report_is_plain_where_it_does_not_go_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys) == report_of(refused())


def test_every_cause_has_an_exit_status() -> None:
    assert set(EXIT_STATUS) == set(Cause)
    assert set(EXIT_STATUS.values()) == {0, 10, 11, 12, 13}


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (152 << 20, "152 MiB"),
        ((1 << 47) - 1, "128 TiB"),
        (1 << 62, "4194304 TiB"),
    ],
)
def test_sizes_are_in_binary_units(count: int, said: str) -> None:
    assert size(count) == said


STEERING = "\x1b[2J\x1b]0;title\x07\x9b31m\u202e\r\n\udcff"


def test_no_name_steers_the_terminal() -> None:
    """Whatever text is in a trace: labels, directories, reasons, messages."""
    run = SyntheticTrace()
    run.ioctl("VM_CREATE", {}, {"id": 1, "user_va_range": 1 << 47})
    run.state(
        "process", maps=3, cgroups=[cgroup(f"/sys/fs/cgroup/{STEERING}", 250 * MIB, 250 * MIB, 250 * MIB)]
    )
    with run.vulkan("vkAllocateMemory", 1):
        run.vm_bind((run.bo_create(42 * MIB), 42 * MIB), error=ENOMEM)
    trace = run.finish(134)
    tables = build(trace)
    verdict = judge(tables, trace.meta, trace.end)
    tables.bos["label"] = STEERING
    layers = {"vulkan": {"live": False, "why": STEERING}}
    report = text(
        replace(verdict, headline=STEERING, evidence=(STEERING,), missing=(STEERING,), remedy=STEERING),
        tables,
        {**trace.meta, "layers": layers},
    )
    assert report.count("\\x1b[2J") >= 6
    assert not [letter for letter in report if not letter.isprintable() and letter != "\n"]


@pytest.mark.parametrize("columns", [20, 40, 60])
def test_narrow_terminal_costs_no_digit(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    trace = refused()
    tables = build(trace)
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        reader = os.fdopen(master, "rb", buffering=0)
        said: list[bytes] = []
        thread = threading.Thread(target=lambda: _read_all(reader, said))
        thread.start()
        show(judge(tables, trace.meta, trace.end), tables, trace.meta)
        terminal.flush()
    thread.join(10)
    shown = b"".join(said).decode()
    assert "65530" in shown
    assert "250 MiB" in shown


def _read_all(reader: io.FileIO, said: list[bytes]) -> None:
    try:
        while part := reader.read(4096):
            said.append(part)
    except OSError:  # the terminal's other end is gone
        pass
