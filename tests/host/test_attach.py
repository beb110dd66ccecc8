# SPDX-License-Identifier: MIT
"""--pid: a process that runs already, traced until it ends or the user has had enough."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from panthor_trace.analysis import analyse
from panthor_trace.verdict import Confidence

from .tracing import compiled, environment, tracer

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="loading BPF programs needs root")

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A shell that waits at a FIFO, then has a child make 23 buffers, and exits with status 9."""
    program = compiled(PROGRAMS / "ioctls.c", tmp_path, ["-pthread"])
    go = tmp_path / "go"
    os.mkfifo(go)
    script = f"read line < {go}; {program} /dev/null; exit 9"
    process = subprocess.Popen(["sh", "-c", script], text=True)
    yield process, go
    process.kill()
    process.wait()


def attached(directory: Path, pid: int) -> subprocess.Popen[str]:
    """The tracer, when it says that it is attached."""
    process = subprocess.Popen(
        tracer("-p", str(pid), "-o", directory, "--node", "/dev/null", "--no-csv"),
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if f"attached to process {pid}" in line:
            return process
    raise AssertionError("the tracer ended without attaching")


def test_what_a_running_process_does_from_now_on_is_recorded(
    tmp_path: Path, running: tuple[subprocess.Popen[str], Path]
) -> None:
    process, go = running
    recorder = attached(tmp_path / "trace", process.pid)
    go.write_text("go\n")
    assert process.wait(timeout=60) == 9
    _, said = recorder.communicate(timeout=60)
    assert recorder.returncode == 0, said
    analysis = analyse(tmp_path / "trace")
    assert analysis.trace.end is not None
    assert (analysis.trace.end["exit_code"], analysis.trace.end["detached"]) == (9, False)
    tables = analysis.tables
    assert len(tables.bos) == 23
    processes = tables.processes.set_index("pid")
    assert processes.loc[process.pid, "exit_status"] == 9
    (maker,) = set(tables.bos["pid"])
    assert processes.loc[maker, "parent"] == process.pid
    assert analysis.verdict.confidence is not Confidence.HIGH
    assert any(f"attached to process {process.pid}" in reason for reason in analysis.verdict.missing)


def test_ctrl_c_detaches_and_leaves_the_process_as_it_was(
    tmp_path: Path, running: tuple[subprocess.Popen[str], Path]
) -> None:
    process, go = running
    recorder = attached(tmp_path / "trace", process.pid)
    recorder.send_signal(signal.SIGINT)
    _, said = recorder.communicate(timeout=60)
    assert recorder.returncode == 0, said
    assert process.poll() is None
    end = analyse(tmp_path / "trace").trace.end
    assert end is not None
    assert (end["exit_code"], end["detached"]) == (None, True)
    go.write_text("go\n")
    assert process.wait(timeout=60) == 9


@pytest.mark.parametrize(
    ("pid", "reason"), [("999999999", "no such process"), ("2", "it is the kernel's own")]
)
def test_what_cannot_be_attached_to_is_one_line(tmp_path: Path, pid: str, reason: str) -> None:
    done = subprocess.run(
        tracer("-p", pid, "-o", tmp_path / "trace"),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 125
    assert done.stderr == f"panthor-trace: cannot attach to process {pid}: {reason}\n"
    assert not (tmp_path / "trace").exists()


def test_command_and_pid_exclude_each_other(tmp_path: Path) -> None:
    for arguments in (["-p", "1", "--", "true"], ["-o", str(tmp_path / "trace")]):
        done = subprocess.run(
            tracer(*arguments), env=environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert "one of the two" in done.stderr
