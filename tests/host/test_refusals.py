# SPDX-License-Identifier: MIT
"""What a user can meet before the command runs: one line that says what to do, an exit code of its own.

Each situation is made for real, in name spaces of the test's own. The command must never have run.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from panthor_trace.capture.nodes import panthor_nodes

from .tracing import environment, trace, tracer

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="loading BPF programs needs root")

NOBODY = 65534


def run_apart(preparation: str, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run ``command`` in a mount name space of its own, after the shell lines ``preparation``."""
    script = f"{preparation}\nexec {shlex.join(command)}"
    return subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def assert_refused(done: subprocess.CompletedProcess[str], status: int, *words: str) -> None:
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    said = [
        line
        for line in done.stderr.splitlines()
        if "no panthor device" not in line and "not live" not in line
    ]
    assert len(said) == 1, done.stderr
    assert said[0].startswith("panthor-trace: ")
    for word in words:
        assert word in said[0]


@pytest.fixture
def touch(tmp_path: Path) -> list[str]:
    """A command that leaves a file behind if it runs."""
    return ["touch", str(tmp_path / "ran")]


def test_without_root(tmp_path: Path, touch: list[str]) -> None:
    """An ordinary user, who may however read the interpreter wherever it is installed."""
    able = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
    user = ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    done = subprocess.run(
        ["setpriv", *user, *able, *tracer("-o", tmp_path / "trace", "--", *touch)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert_refused(done, 121, "needs root", "sudo")
    assert not (tmp_path / "ran").exists()


def test_without_bcc(tmp_path: Path, touch: list[str]) -> None:
    (tmp_path / "bcc.py").write_text("raise ImportError('no bcc here')\n")
    env = environment()
    env["PYTHONPATH"] = f"{tmp_path}:{env['PYTHONPATH']}"
    done = trace(tmp_path / "trace", "--", *touch, env=env)
    assert_refused(done, 122, "install python3-bpfcc")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == ["bcc.py"]


def test_with_the_other_bcc(tmp_path: Path, touch: list[str]) -> None:
    """PyPI has a project of that name."""
    (tmp_path / "bcc.py").write_text("")
    env = environment()
    env["PYTHONPATH"] = f"{tmp_path}:{env['PYTHONPATH']}"
    assert_refused(trace(tmp_path / "trace", "--", *touch, env=env), 122, "PyPI")


def test_without_tracefs(tmp_path: Path, touch: list[str]) -> None:
    """A kernel without tracing has no directory to mount tracefs on; /sys may not be added to."""
    done = run_apart("mount -t tmpfs none /sys/kernel", tracer("-o", tmp_path / "trace", "--", *touch))
    assert_refused(done, 123, "tracefs", "CONFIG_BPF_SYSCALL")
    assert list(tmp_path.iterdir()) == []


def test_without_bpf(tmp_path: Path, touch: list[str]) -> None:
    """bpf(2) refused, as in a container or under lockdown: root without the capabilities it takes."""
    kept = "-sys_admin,-bpf,-perfmon"
    command = tracer("-o", tmp_path / "trace", "--", *touch)
    done = subprocess.run(
        ["setpriv", "--bounding-set", kept, "--inh-caps", kept, *command],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert_refused(done, 123, "cannot be loaded on this kernel", "CONFIG_BPF_SYSCALL")
    assert list(tmp_path.iterdir()) == []


def test_output_that_is_a_link(tmp_path: Path, touch: list[str]) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "trace").symlink_to(tmp_path / "target")
    assert_refused(trace(tmp_path / "trace", "--", *touch), 120, "never overwritten", "-o")
    assert list((tmp_path / "target").iterdir()) == []
    assert not (tmp_path / "ran").exists()


def test_output_that_is_a_dangling_link(tmp_path: Path, touch: list[str]) -> None:
    (tmp_path / "trace").symlink_to(tmp_path / "target")
    assert_refused(trace(tmp_path / "trace", "--", *touch), 120, "never overwritten")
    assert not (tmp_path / "target").exists()


def test_output_that_exists(tmp_path: Path, touch: list[str]) -> None:
    (tmp_path / "trace").write_text("mine")
    assert_refused(trace(tmp_path / "trace", "--", *touch), 120, "never overwritten")
    assert (tmp_path / "trace").read_text() == "mine"


def test_output_below_what_does_not_exist(tmp_path: Path, touch: list[str]) -> None:
    done = trace(tmp_path / "none" / "trace", "--", *touch)
    assert_refused(done, 120, "No such file or directory", "-o")


def test_output_on_a_read_only_file_system(tmp_path: Path, touch: list[str]) -> None:
    place = tmp_path / "place"
    place.mkdir()
    done = run_apart(f"mount -t tmpfs -o ro none {place}", tracer("-o", place / "trace", "--", *touch))
    assert_refused(done, 120, "Read-only file system", "-o")
    assert not (tmp_path / "ran").exists()


def test_disk_that_is_full_before_the_start(tmp_path: Path, touch: list[str]) -> None:
    place = tmp_path / "place"
    place.mkdir()
    fill = f"mount -t tmpfs -o size=64k none {place}; head -c 64k /dev/zero > {place}/zeros || true"
    done = run_apart(fill, tracer("-o", place / "trace", "--", *touch))
    assert_refused(done, 120, "No space left on device", "-o")
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(bool(panthor_nodes()), reason="this machine has a panthor device")
def test_without_panthor_the_command_runs_and_one_line_says_so(tmp_path: Path, touch: list[str]) -> None:
    done = trace(tmp_path / "trace", "--no-csv", "--", *touch)
    assert done.returncode == 0
    assert (tmp_path / "ran").exists()
    assert "panthor-trace: no panthor device on this machine" in done.stderr


@pytest.mark.parametrize(("options", "status"), [((), 7), (("--exit-verdict",), 13)])
def test_exit_status_is_the_verdicts_where_asked(
    tmp_path: Path, options: tuple[str, ...], status: int
) -> None:
    done = trace(tmp_path / "trace", *options, "--no-csv", "--", "sh", "-c", "exit 7")
    assert done.returncode == status, done.stderr
    report = subprocess.run(
        tracer("report", *options, tmp_path / "trace"), env=environment(), capture_output=True, check=False
    )
    assert report.returncode == (13 if options else 0)


def test_no_csv(tmp_path: Path) -> None:
    assert trace(tmp_path / "with", "--", "true").returncode == 0
    assert trace(tmp_path / "without", "--no-csv", "--", "true").returncode == 0
    assert (tmp_path / "with" / "csv" / "ioctls.csv").is_file()
    assert not (tmp_path / "without" / "csv").exists()
