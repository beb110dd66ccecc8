# SPDX-License-Identifier: MIT
"""The cache of built things: complete or absent, built once, whatever ends a build."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from board import cache
from board.errors import LabError


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PANTHOR_LAB_CACHE", str(tmp_path / "lab"))
    return tmp_path / "lab"


def quiet(_line: str) -> None:
    pass


def touch(out: Path) -> None:
    (out / "made").write_text("x")


def test_same_inputs_are_built_once() -> None:
    builds: list[Path] = []

    def build(out: Path) -> None:
        builds.append(out)
        touch(out)

    first = cache.entry("thing", {"a": 1}, build, quiet)
    again = cache.entry("thing", {"a": 1}, build, quiet)
    other = cache.entry("thing", {"a": 2}, build, quiet)
    assert first.path == again.path != other.path
    assert len(builds) == 2
    assert (again.path / "made").read_text() == "x"


@pytest.mark.parametrize("error", [LabError("no"), KeyboardInterrupt(), OSError(errno.EIO, "I/O error")])
def test_a_failed_build_leaves_nothing(private_cache: Path, error: BaseException) -> None:
    def build(out: Path) -> None:
        touch(out)
        raise error

    with pytest.raises(type(error)):
        cache.entry("thing", {}, build, quiet)
    assert [p for p in private_cache.iterdir() if p.is_dir()] == []
    assert cache.lookup("thing", {}) is None


def test_a_full_disk_is_one_line_that_says_what_to_do() -> None:
    def build(_out: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(LabError, match=r"no space left.*PANTHOR_LAB_CACHE"):
        cache.entry("thing", {}, build, quiet)


def test_an_unwritable_cache_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PANTHOR_LAB_CACHE", str(tmp_path / "file" / "lab"))
    with pytest.raises(LabError, match="cannot create"):
        cache.entry("thing", {}, touch, quiet)


def _killed_builder(ready: str) -> None:
    def build(out: Path) -> None:
        touch(out)
        Path(ready).touch()
        time.sleep(60)

    cache.entry("thing", {}, build, quiet)


def test_a_killed_build_is_not_used_and_does_not_block_the_next(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    builder = multiprocessing.get_context("spawn").Process(target=_killed_builder, args=(str(ready),))
    builder.start()
    while not ready.exists():
        assert builder.is_alive()
        time.sleep(0.01)
    assert builder.pid is not None
    os.kill(builder.pid, signal.SIGKILL)
    builder.join()
    assert cache.lookup("thing", {}) is None
    assert (cache.entry("thing", {}, touch, quiet).path / "made").exists()


def _counting_builder(directory: str) -> None:
    def build(out: Path) -> None:
        time.sleep(0.2)
        (Path(directory) / f"built-{os.getpid()}").touch()
        touch(out)

    cache.entry("thing", {}, build, quiet)


def test_builders_of_the_same_entry_wait_for_one_another(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    builders = [context.Process(target=_counting_builder, args=(str(tmp_path),)) for _ in range(3)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
        assert builder.exitcode == 0
    assert len(list(tmp_path.glob("built-*"))) == 1


def test_superseded_are_the_older_of_a_kind() -> None:
    old = cache.entry("root-image", {"v": 1}, touch, quiet)
    os.utime(old.path / "entry.json", (1, 1))
    new = cache.entry("root-image", {"v": 2}, touch, quiet)
    other = cache.entry("root", {"v": 2}, touch, quiet)
    assert {e.path for e in cache.entries()} == {old.path, new.path, other.path}
    assert [e.path for e in cache.superseded()] == [old.path]


def test_files_hash_sees_names_and_contents(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("a")
    two.write_text("b")
    before = cache.files_hash([one, two])
    assert before == cache.files_hash([two, one])
    two.write_text("c")
    assert cache.files_hash([one, two]) != before


def with_version(version: str) -> Callable[[Path], None]:
    return lambda out: (out / "packages.json").write_text(json.dumps({"a": version})) and None


def test_a_refresh_that_fails_leaves_what_was_there() -> None:
    before = cache.entry("root", {}, with_version("1"), quiet)

    def no_network(_out: Path) -> None:
        raise LabError("no network")

    with pytest.raises(LabError, match="no network"), cache.set_aside(cache.from_packages()):
        cache.entry("root", {}, no_network, quiet)
    assert cache.packages(before) == {"a": "1"}
    assert [e.path for e in cache.entries()] == [before.path]


def test_a_refresh_changes_the_identity_others_are_keyed_by() -> None:
    before = cache.entry("root", {}, with_version("1"), quiet).identity
    with cache.set_aside(cache.from_packages()):
        after = cache.entry("root", {}, with_version("2"), quiet)
    assert cache.packages(after) == {"a": "2"}
    assert after.identity != before
    assert [e.path for e in cache.entries()] == [after.path]
