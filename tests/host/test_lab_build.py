# SPDX-License-Identifier: MIT
"""Builds that cannot work: a disk that fills, no network, a missing tool, an interruption. One line each."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

LAB = Path(__file__).parents[2] / "scripts" / "lab"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="building needs root")


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 30 MB: less than any root."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=30m", "tmpfs", tmp_path], check=True)
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def lab_build(
    cache: Path, *, before: tuple[str, ...] = (), path: str | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PANTHOR_LAB_CACHE": str(cache)}
    if path:
        environment["PATH"] = path
    return subprocess.run([*before, LAB, "build"], capture_output=True, text=True, env=environment)


def assert_failed_cleanly(done: subprocess.CompletedProcess[str], cache: Path, says: str) -> None:
    assert done.returncode == 125, done.stderr
    assert says in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert [path for path in cache.iterdir() if path.is_dir()] == []


def test_a_full_disk(full_disk: Path) -> None:
    done = lab_build(full_disk / "lab")
    assert_failed_cleanly(done, full_disk / "lab", "no space left while building")


def test_no_network(tmp_path: Path) -> None:
    done = lab_build(tmp_path / "lab", before=("unshare", "--net"))
    assert_failed_cleanly(done, tmp_path / "lab", "resolving")


def test_a_missing_tool(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "readlink", "dirname", "getent", "cut", "id"):
        (tools / name).symlink_to(shutil.which(name) or name)
    done = lab_build(tmp_path / "lab", path=str(tools))
    assert_failed_cleanly(done, tmp_path / "lab", "not installed: run scripts/setup")


def test_an_interruption_leaves_neither_an_entry_nor_a_process(tmp_path: Path) -> None:
    cache = tmp_path / "lab"
    building = subprocess.Popen(
        [LAB, "build"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PANTHOR_LAB_CACHE": str(cache)},
        start_new_session=True,
    )
    while not list(cache.glob("*.partial/root")):
        assert building.poll() is None
        time.sleep(0.05)
    os.killpg(building.pid, signal.SIGINT)  # as a terminal does
    _, said = building.communicate(timeout=60)
    assert building.returncode == 130, said
    assert said.splitlines()[-1] == "lab: interrupted"
    deadline = time.monotonic() + 10
    while _mentions(str(cache)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _mentions(str(cache)) == []
    assert [path for path in cache.iterdir() if path.is_dir()] == []


def _mentions(word: str) -> list[str]:
    """Command lines of running processes with ``word`` in them."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = process.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line:
            found.append(line)
    return found
