# SPDX-License-Identifier: MIT
"""What packaging/package makes: complete, and it works where there is no source tree."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from panthor_trace import __version__

from .tracing import REPOSITORY, environment


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The three files by their endings."""
    output = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, REPOSITORY / "packaging/package", output],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {Path(line).suffix: Path(line) for line in done.stdout.splitlines()}


def sources() -> set[str]:
    """What the package has to hold, from the source tree."""
    files = {
        path.relative_to(REPOSITORY / "src").as_posix()
        for path in (REPOSITORY / "src/panthor_trace").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    bpf = (path for path in (REPOSITORY / "bpf").rglob("*") if path.is_file())
    return files | {f"panthor_trace/bpf/{path.relative_to(REPOSITORY / 'bpf').as_posix()}" for path in bpf}


def test_wheel_holds_the_package_and_the_bpf_sources(made: dict[str, Path]) -> None:
    with zipfile.ZipFile(made[".whl"]) as wheel:
        names = set(wheel.namelist())
        metadata = wheel.read(f"panthor_trace-{__version__}.dist-info/METADATA").decode()
    assert {name for name in names if ".dist-info/" not in name} == sources()
    assert {Path(name).name for name in names} >= {"LICENSE", "MIT.txt", "GPL-2.0-only.txt"}
    assert f"\nVersion: {__version__}\n" in metadata


def test_source_distribution_holds_what_tests_and_packages_need(made: dict[str, Path]) -> None:
    with tarfile.open(made[".gz"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = ("bpf/record.h", "tests/conftest.py", "scripts/test", "packaging/package", "docs/tables.md")
    present = {name for name in wanted if (REPOSITORY / name).exists()}
    assert len(present) > 3
    assert present | {"LICENSE", "LICENSES/GPL-2.0-only.txt", "CHANGELOG.md", "pyproject.toml"} <= names


def test_wheel_records_where_there_is_no_source_tree(made: dict[str, Path], tmp_path: Path) -> None:
    place = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", place]
    subprocess.run([*pip, made[".whl"]], check=True, capture_output=True)
    program = place / "bin/panthor-trace"
    env = environment(PYTHONPATH=str(place))

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *arguments], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    assert run("--version").stdout == f"panthor-trace, version {__version__}\n"
    assert '#line 1 "process.c"' in run("probes", "--source").stdout
    done = run("-o", "trace", "--", "true")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "trace/meta.json").read_text())["layers"]["process"]["live"]


def tree(package: Path) -> dict[str, tarfile.TarInfo]:
    raw = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        return {member.name.removeprefix("./"): member for member in archive}


def field(package: Path, name: str) -> str:
    done = subprocess.run(["dpkg-deb", "-f", package, name], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_debian_package_is_roots_and_complete(made: dict[str, Path]) -> None:
    members = tree(made[".deb"])
    assert {(member.uid, member.gid) for member in members.values()} == {(0, 0)}
    assert not [name for name, member in members.items() if member.mode & 0o022 or member.issym()]
    packages = "usr/lib/python3/dist-packages/"
    held = {name.removeprefix(packages) for name in members if name.startswith(f"{packages}panthor_trace/")}
    assert held - {name for name in held if members[packages + name].isdir()} == sources()
    assert members["usr/bin/panthor-trace"].mode & 0o111
    documents = {Path(name).name for name in members if name.startswith("usr/share/doc/panthor-trace/")}
    assert {"copyright", "changelog.gz", "changelog.Debian.gz", "README.md", "doctor.md"} <= documents
    depends = field(made[".deb"], "Depends")
    assert all(f"python3-{name} (>= " in depends for name in ("bpfcc", "click", "pandas", "pyroute2", "rich"))
    assert field(made[".deb"], "Architecture") == "all"


def extracted(package: Path, to: Path) -> Path:
    subprocess.run(["dpkg-deb", "-x", package, to], check=True)
    return to


def test_manual_page_is_clean_and_has_every_command(made: dict[str, Path], tmp_path: Path) -> None:
    root = extracted(made[".deb"], tmp_path)
    unpacked = ["gzip", "-dc", root / "usr/share/man/man1/panthor-trace.1.gz"]
    page = subprocess.run(unpacked, capture_output=True, check=True).stdout
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-P-cbou"], input=page, capture_output=True, check=True
    )
    assert done.stderr == b""
    shown = done.stdout.decode()
    for text in (
        "panthor-trace run [OPTIONS]",
        "panthor-trace doctor",
        "--exit-verdict",
        "NO_COLOR",
        "Examples:",
    ):
        assert text in shown
    assert "\b" not in shown


@pytest.mark.parametrize("directory", ["usr/share/bash-completion/completions"])
def test_bash_completes_from_the_package(made: dict[str, Path], tmp_path: Path, directory: str) -> None:
    """The script as a shell loads it, with the program of the source tree behind its name."""
    root = extracted(made[".deb"], tmp_path)
    script = f"""
    . {root}/{directory}/panthor-trace
    COMP_WORDS=(panthor-trace --no-h) COMP_CWORD=1 COMP_LINE='panthor-trace --no-h'
    _panthor_trace_completion panthor-trace --no-h
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "panthor-trace").symlink_to(REPOSITORY / "scripts/panthor-trace")
    done = subprocess.run(
        ["bash", "-c", script],
        env=environment(PATH=f"{programs}:/usr/bin:/bin"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["--no-hold"], done.stderr


def test_modules_in_the_current_directory_are_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise SystemExit('loaded by mistake')\n")
    done = subprocess.run(
        [REPOSITORY / "scripts/panthor-trace", "--version"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"panthor-trace, version {__version__}\n", done.stderr
