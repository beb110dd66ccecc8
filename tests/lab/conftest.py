# SPDX-License-Identifier: MIT
"""Fixtures that boot the emulated board."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from board import assemble, gpus, guest
from board.kernels import KERNELS, kernel_named

from . import matrix

#: ``board(command, **options)``: run in a guest; output apart, exit status kept.
BoardRun = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this directory boots guests."""
    for item in items:
        if Path(__file__).parent in Path(item.fspath).parents:
            item.add_marker(pytest.mark.lab)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--each``: the matrix with a trace of its own for every scenario, an hour a kernel."""
    parser.addoption(
        "--each", action="store_true", help="trace every scenario alone as well (an hour a kernel)"
    )


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the verdict matrix, where rows of it were made."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    rows = [
        value
        for report in reports
        if getattr(report, "when", None) == "call"
        for key, value in report.user_properties
        if key == "matrix"
    ]
    if rows:
        terminalreporter.section("verdict matrix")
        for line in matrix.lines(rows):
            terminalreporter.write_line(line)


@pytest.fixture(params=[k.name for k in KERNELS], scope="session")
def kernel(request: pytest.FixtureRequest) -> str:
    """Each kernel of the lab's table in turn."""
    return str(request.param)


def board_run(
    command: str | Sequence[str],
    *,
    kernel: str = KERNELS[0].name,
    gpu: str = gpus.DEFAULT,
    memory_mib: int = 1024,
    cpus: int = 1,
    share: Path | None = None,
    user: bool = False,
    timeout: float = 300,
    stdin: bytes | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run ``command`` (a shell script if it is a string) in a guest of its own."""
    words = ["sh", "-c", command] if isinstance(command, str) else list(command)
    hardware = guest.Board(
        images=assemble.images(kernel_named(kernel), lambda line: print(line, file=sys.stderr)),
        gpu_arguments=gpus.module_arguments(gpus.gpu_named(gpu)),
        memory_mib=memory_mib,
        cpus=cpus,
        share=share,
        user=user,
        timeout=timeout,
    )
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as source:
        source.write(stdin or b"")
        source.seek(0)
        status = guest.run(
            hardware, words, stdin=source if stdin is not None else None, stdout=out, stderr=err
        )
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(
            words, status, out.read().decode(errors="replace"), err.read().decode(errors="replace")
        )


@pytest.fixture(scope="session")
def board() -> BoardRun:
    """:func:`board_run`."""
    return board_run
