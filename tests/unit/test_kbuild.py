# SPDX-License-Identifier: MIT
"""What kbuild.py puts between unpacked packages and make; the build itself is every lab test's first step."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from board import kbuild
from board.errors import LabError


def _write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """The parts of the packages that matter, with their relative links; the loader says what it is told."""
    root = tmp_path / "unpacked"
    tools = root / "usr/lib/linux-kbuild-9.9"
    _write(tools / "scripts/mod/modpost")
    _write(tools / "scripts/mod/modpost.real-lsb-64")
    _write(tools / "scripts/basic/fixdep")
    flavour = root / "usr/src/linux-headers-9.9-arm64"
    _write(flavour / "Makefile", "include /usr/src/linux-headers-9.9-common/Makefile\n")
    _write(flavour / "Module.symvers", "symbols")
    (flavour / "scripts").symlink_to("../../lib/linux-kbuild-9.9/scripts")
    _write(root / "usr/src/linux-headers-9.9-common/Makefile")
    _write(root / "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", '#!/bin/sh\necho "$@"\n')
    return root


def test_the_view_points_into_the_unpacked_tree(unpacked: Path, tmp_path: Path) -> None:
    view = tmp_path / "view"
    kbuild._headers_view(unpacked, view)
    assert (view / "Makefile").read_text().splitlines() == [
        f"KBUILD_OUTPUT={view}",
        f"include {unpacked}/usr/src/linux-headers-9.9-common/Makefile",
    ]
    assert (view / "Module.symvers").read_text() == "symbols"
    assert (view / "scripts/basic/fixdep").exists()
    original = unpacked / "usr/src/linux-headers-9.9-arm64/Makefile"
    assert original.read_text() == "include /usr/src/linux-headers-9.9-common/Makefile\n"


def test_modpost_runs_through_the_unpacked_loader(unpacked: Path, tmp_path: Path) -> None:
    view = tmp_path / "view"
    kbuild._headers_view(unpacked, view)
    done = subprocess.run(
        [view / "scripts/mod/modpost", "-o", "x"], capture_output=True, text=True, check=True
    )
    libraries = unpacked / "usr/lib/x86_64-linux-gnu"
    modpost = unpacked / "usr/lib/linux-kbuild-9.9/scripts/mod/modpost.real-lsb-64"
    assert done.stdout.split() == ["--library-path", str(libraries), str(modpost), "-o", "x"]


@pytest.mark.parametrize(
    "missing",
    [
        "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
        "usr/lib/linux-kbuild-9.9/scripts/mod/modpost.real-lsb-64",
    ],
)
def test_a_missing_package_is_named(unpacked: Path, tmp_path: Path, missing: str) -> None:
    (unpacked / missing).unlink()
    with pytest.raises(LabError, match=r"libc6 and linux-kbuild"):
        kbuild._headers_view(unpacked, tmp_path / "view")


def test_two_kernels_in_one_directory_are_refused(unpacked: Path, tmp_path: Path) -> None:
    (unpacked / "usr/src/linux-headers-9.8-arm64").mkdir()
    with pytest.raises(LabError, match=r"expected one linux-headers-\*-arm64 .*found 2"):
        kbuild._headers_view(unpacked, tmp_path / "view")


def test_the_compiler_wrapper_spells_gcc_14s_option_the_old_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path / "host" / "aarch64-linux-gnu-gcc", '#!/bin/sh\nprintf "%s\\n" "$@"\n')
    monkeypatch.setenv("PATH", f"{tmp_path / 'host'}{os.pathsep}/usr/bin:/bin")
    monkeypatch.setattr("shutil.which", lambda name: None if name.endswith("14") else _which(tmp_path, name))
    wrapper = kbuild._compiler(tmp_path / "bin")
    words = ["-O2", "-fmin-function-alignment=8", "-DNAME=a b", "-c"]
    done = subprocess.run([wrapper, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["-O2", "-falign-functions=8", "-DNAME=a b", "-c"]


def _which(tmp_path: Path, name: str) -> str:
    return str(tmp_path / "host" / name)


def test_a_compile_error_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    script = (
        "echo '  CC [M] main.o'; echo 'main.c:3:1: error: expected a semicolon'; echo 'make: Error 2'; exit 2"
    )
    with pytest.raises(LabError, match=r"main\.c:3:1: error: expected a semicolon$"):
        kbuild._make(["sh", "-c", script], log)
