# SPDX-License-Identifier: MIT
"""What scripts/lab says to wrong words: one line, exit 2, before anything is built."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

LAB = Path(__file__).parents[2] / "scripts" / "lab"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--kernel", "5.15", "--", "true"], "no kernel '5.15' in the lab: it has 7.3, 6.12"),
        (["run", "--gpu", "t860", "--", "true"], "t860"),
        (["run", "--memory", "lots", "--", "true"], "'lots' is no size"),
        (["run", "--memory", "64M", "--", "true"], "at least 384M"),
        (["run", "--cpus", "0", "--", "true"], "'--cpus'"),
        (["run", "--share", "/nonexistent", "--", "true"], "/nonexistent"),
        (["run"], "Missing argument 'COMMAND...'"),
        (["build", "--kernel", "5.15"], "no kernel '5.15'"),
        (["shell"], "needs a terminal"),
        (["frobnicate"], "frobnicate"),
    ],
)
def test_wrong_words(words: list[str], says: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [LAB, *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PANTHOR_LAB_CACHE": str(tmp_path / "cache")},
    )
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "cache").exists()


def test_clean_removes_only_what_is_the_labs(tmp_path: Path) -> None:
    foreign = tmp_path / "sub" / "file"
    foreign.parent.mkdir()
    foreign.write_text("precious")
    entry = tmp_path / "root-0123456789ab"
    dead_builder = tmp_path / "root-0123456789ab.4194304.partial"
    for directory in (entry, dead_builder):
        directory.mkdir()
    (entry / "entry.json").write_text('{"inputs": {}, "seconds": 1}')
    (tmp_path / "root-0123456789ab.lock").touch()
    done = subprocess.run(
        [LAB, "clean", "--all"],
        capture_output=True,
        text=True,
        env={**os.environ, "PANTHOR_LAB_CACHE": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("removed") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["sub"]
    assert foreign.read_text() == "precious"


def test_status_of_an_empty_cache(tmp_path: Path) -> None:
    done = subprocess.run(
        [LAB, "status"],
        capture_output=True,
        text=True,
        env={**os.environ, "PANTHOR_LAB_CACHE": str(tmp_path / "cache")},
    )
    assert done.returncode == 0, done.stderr
    assert "newest 6.12 of trixie" in done.stdout
    assert "g610-mc4" in done.stdout
    assert not (tmp_path / "cache").exists()
