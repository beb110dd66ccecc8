# SPDX-License-Identifier: MIT
"""The command runs as without us: status, signals, streams, user; and errors are one line."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from dataclasses import fields
from pathlib import Path

import pytest

from panthor_trace.analysis import analyse
from panthor_trace.model import Tables
from panthor_trace.trace.reader import read_trace

from .tracing import environment, started, trace, tracer

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="loading BPF programs needs root")

NOBODY = 65534


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
)
def test_exit_status_is_the_commands(tmp_path: Path, script: str, status: int) -> None:
    done = trace(tmp_path / "trace", "--no-csv", "--", "sh", "-c", script)
    assert done.returncode == status
    assert read_trace(tmp_path / "trace").end is not None


def test_streams_pass_through_and_the_report_is_on_stderr(tmp_path: Path) -> None:
    done = trace(tmp_path / "trace", "--no-csv", "--", "sh", "-c", "cat; echo own >&2", input="given\n")
    assert done.stdout == "given\n"
    assert "own\n" in done.stderr
    assert "kernel cap: INCONCLUSIVE" in done.stderr


@pytest.mark.parametrize(
    ("command", "status", "line"),
    [
        (["no-such-command-here"], 127, "no-such-command-here: command not found"),
        (["/no/such/file"], 127, "/no/such/file: no such file or directory"),
        (["/etc/passwd"], 126, "/etc/passwd: cannot be executed (permission denied)"),
    ],
)
def test_command_that_cannot_run(tmp_path: Path, command: list[str], status: int, line: str) -> None:
    done = trace(tmp_path / "trace", "--", *command)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.splitlines()[-1] == f"panthor-trace: {line}"
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "trace").exists()


def test_exec_error_leaves_no_trace_behind(tmp_path: Path) -> None:
    """Found only by executing it: a file of the right mode in no format the kernel knows."""
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF\x00garbage")
    broken.chmod(0o755)
    done = trace(tmp_path / "trace", "--", str(broken))
    assert done.returncode == 126
    assert done.stderr.splitlines()[-1] == f"panthor-trace: {broken}: Exec format error"
    assert not (tmp_path / "trace").exists()


def test_existing_directory_stops_before_the_command_runs(tmp_path: Path) -> None:
    (tmp_path / "trace").mkdir()
    done = trace(tmp_path / "trace", "--", "touch", str(tmp_path / "ran"))
    assert done.returncode == 120
    assert "never overwritten" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_runs_as_the_user_who_ran_sudo(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    (tmp_path / "work").mkdir(mode=0o777)
    (tmp_path / "work").chmod(0o777)
    sudo = environment(SUDO_UID=str(NOBODY), SUDO_GID=str(NOBODY))
    script = "id -u; id -g; echo $HOME"
    done = trace(tmp_path / "work" / "trace", "--", "sh", "-c", script, env=sudo)
    assert done.stdout.split()[:2] == [str(NOBODY)] * 2, done.stderr
    assert done.stdout.split()[2] != os.environ.get("HOME")
    written = [tmp_path / "work" / "trace", *(tmp_path / "work" / "trace").rglob("*")]
    assert len(written) > 5
    assert {path.stat().st_uid for path in written} == {NOBODY}
    as_root = trace(tmp_path / "work" / "trace2", "--no-drop", "--", "id", "-u", env=sudo)
    assert as_root.stdout == "0\n"


def test_directory_the_user_could_not_make_is_refused(tmp_path: Path) -> None:
    (tmp_path / "roots").mkdir(mode=0o755)
    sudo = environment(SUDO_UID=str(NOBODY), SUDO_GID=str(NOBODY))
    done = trace(tmp_path / "roots" / "trace", "--", "true", env=sudo)
    assert done.returncode == 120
    assert "cannot create the trace directory" in done.stderr
    assert not (tmp_path / "roots" / "trace").exists()


def test_environment_is_kept_and_can_be_added_to(tmp_path: Path) -> None:
    env = environment(KEPT="as it was")
    done = trace(tmp_path / "trace", "--env", "NEW=a=b", "--", "sh", "-c", "echo $KEPT $NEW", env=env)
    assert done.stdout == "as it was a=b\n"


def test_signal_sent_to_the_tracer_reaches_the_command(tmp_path: Path) -> None:
    process, _ = started(tmp_path, "while :; do sleep 0.05; done", traps="trap 'echo caught; exit 3' TERM")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (3, "caught\n"), err


def test_ctrl_c_ends_the_command_as_without_us_and_the_report_comes(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    pid, terminal = pty.fork()
    if pid == 0:
        script = f"trap 'echo once >> {tmp_path}/caught' INT; echo x > {ready}; sleep 30; exit 4"
        os.execvpe(
            tracer()[0],
            tracer("-o", tmp_path / "trace", "--no-csv", "--", "sh", "-c", script),
            environment(),
        )
    ready.read_text()
    time.sleep(0.2)  # the shell has to be in sleep, which nothing announces
    os.write(terminal, b"\x03")
    said = b""
    try:
        while part := os.read(terminal, 4096):
            said += part
    except OSError:  # the terminal's other end is gone
        pass
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 4
    assert (tmp_path / "caught").read_text() == "once\n"
    assert b"kernel cap:" in said


def test_killed_tracer_leaves_the_command_running_and_the_trace_readable(tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    process, command = started(tmp_path, f"/bin/true; sleep 1.5; read line < {go}; exit 0")
    time.sleep(1.2)  # longer than the tracer keeps anything to itself
    process.kill()
    process.wait()
    state = Path(f"/proc/{command}/stat").read_text().rsplit(")", 1)[1].split()[0]
    assert state in ("S", "R")
    go.write_text("go\n")
    for _ in range(100):
        if not Path(f"/proc/{command}").exists():
            break
        time.sleep(0.05)
    assert not Path(f"/proc/{command}").exists()
    analysis = analyse(tmp_path / "trace")
    assert analysis.trace.end is None
    assert analysis.tables.processes["path"].str.endswith("/true").any()
    assert any("ended early" in reason for reason in analysis.verdict.missing)


def test_full_disk_costs_the_trace_not_the_command(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], check=True)
    try:
        script = "for i in $(seq 500); do /bin/true; done; sleep 0.3; exit 6"
        done = trace(small / "trace", "--", "sh", "-c", script)
        assert done.returncode == 6, done.stderr
        assert "the trace is incomplete: No space left on device" in done.stderr
        assert "Traceback" not in done.stderr
        assert len(read_trace(small / "trace").records) > 0
    finally:
        subprocess.run(["umount", small], check=True)


def test_report_and_export_work_without_root_and_without_bcc(tmp_path: Path) -> None:
    assert trace(tmp_path / "trace", "--no-csv", "--", "true").returncode == 0
    shadow = tmp_path / "shadow"
    shadow.mkdir()
    (shadow / "bcc.py").write_text("raise ImportError('no bcc here')\n")
    env = environment()
    env["PYTHONPATH"] = f"{shadow}:{env['PYTHONPATH']}"
    report = subprocess.run(
        tracer("report", "--json", tmp_path / "trace"), env=env, capture_output=True, text=True, check=True
    )
    assert json.loads(report.stdout)["cause"] == "inconclusive"
    subprocess.run(tracer("export", tmp_path / "trace"), env=env, capture_output=True, check=True)
    assert len(list((tmp_path / "trace" / "csv").glob("*.csv"))) == len(fields(Tables))
    recording = subprocess.run(
        tracer("-o", tmp_path / "t2", "--", "true"), env=env, capture_output=True, text=True, check=False
    )
    assert recording.returncode == 122
    assert "install python3-bpfcc" in recording.stderr


def test_interrupt_before_the_command_runs_leaves_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(
        tracer("-o", tmp_path / "trace", "--", "touch", str(tmp_path / "ran")),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "trace").exists():  # made just before the probes are, which takes a second
        time.sleep(0.005)
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err.splitlines()[-1] == "panthor-trace: interrupted before the command was started"
    assert list(tmp_path.iterdir()) == []
