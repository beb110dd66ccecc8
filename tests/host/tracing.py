# SPDX-License-Identifier: MIT
"""Runs panthor-trace as a process, as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from panthor_trace.analysis import Analysis, analyse

REPOSITORY = Path(__file__).parents[2]


def tracer(*arguments: str | Path) -> list[str]:
    """The argument vector of panthor-trace."""
    return [sys.executable, "-m", "panthor_trace", *map(str, arguments)]


def environment(**more: str) -> dict[str, str]:
    """An environment in which the source tree is found, and nobody seems to have used sudo."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SUDO_")}
    return {**kept, "PYTHONPATH": str(REPOSITORY / "src"), **more}


def trace(
    directory: Path, *arguments: str | Path, env: dict[str, str] | None = None, **popen: Any
) -> subprocess.CompletedProcess[str]:
    """Run ``panthor-trace -o directory arguments`` to its end."""
    return subprocess.run(
        tracer("-o", directory, *arguments),
        env=env or environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **popen,
    )


def analysed(directory: Path, *arguments: str | Path) -> Analysis:
    """Trace a command that must succeed; what came of it."""
    done = trace(directory, *arguments)
    assert done.returncode == 0, done.stderr
    return analyse(directory)


def started(tmp_path: Path, script: str, *, traps: str = ":") -> tuple[subprocess.Popen[str], int]:
    """A traced shell that has set its ``traps`` and begun; its own PID as well."""
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    process = subprocess.Popen(
        tracer(
            "-o", tmp_path / "trace", "--no-csv", "--", "sh", "-c", f"{traps}; echo $$ > {ready}; {script}"
        ),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process, int(ready.read_text())


def compiled(source: Path, work: Path, options: Sequence[str] = ()) -> Path:
    """A test program, built."""
    compiler = "g++" if source.suffix == ".cc" else "gcc"
    output = work / source.stem
    subprocess.run([compiler, "-O1", "-Wall", "-Werror", "-o", output, source, *options], check=True)
    return output
