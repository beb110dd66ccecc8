# SPDX-License-Identifier: MIT
"""simfail and gpustress: built for the guest, and the scenario table they are tested by.

The table itself is C (``simfail/table.c``); what is here reads it as the program prints it.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import cache
from .archive import run_tool

SOURCES = Path(__file__).parent / "simfail"

#: The compiler's prefix for the guest's architecture.
CROSS = "aarch64-linux-gnu-"

PROGRAMS = ("simfail", "gpustress")


@dataclass(frozen=True)
class Failure:
    """One kind of failing call: ``errno`` by name; ``count`` 0 means once or more.

    ``layer`` is "ioctl", "syscall", or "driver" where no call of the program fails.
    """

    call: str
    layer: str
    errno: str
    count: int


@dataclass(frozen=True)
class Outcome:
    """All that fails in one acceptable run, the culprit first; ``when`` says what decides."""

    when: str
    failures: tuple[Failure, ...]


@dataclass(frozen=True)
class Limit:
    """The limit that is hit; ``value`` is None where the machine, or the request, sets it."""

    name: str
    value: int | None


@dataclass(frozen=True)
class Scenario:
    """One row of the table; ``exact`` holds calls made exactly that many times."""

    name: str
    wrong: str
    cause: str
    outcomes: tuple[Outcome, ...]
    limit: Limit | None
    exact: Mapping[str, int]
    needs: frozenset[str]
    driver_logs: bool
    aborts: bool


def build_simfail(uapi: Path, out: Path, *, cross: bool, say: cache.Say) -> None:
    """Build simfail and gpustress, static, into ``out``.

    ``uapi`` is an include directory with ``drm/panthor_drm.h``; ``cross`` builds for the guest, else for this
    machine. Raises :class:`LabError` where the compiler is missing or fails.
    """
    say("simfail: compiling")
    with tempfile.TemporaryDirectory() as objects:
        prefix = [f"CROSS={CROSS}"] if cross else []
        run_tool(
            ["make", "-s", "-C", SOURCES, f"OUT={objects}", f"UAPI={uapi}", *prefix],
            doing="building simfail",
        )
        for program in PROGRAMS:
            shutil.copy(Path(objects) / program, out / program)


def _no_news(_: str) -> None:
    pass


def table_program() -> Path:
    """The program that prints the table as JSON, for this machine. It needs no kernel headers."""
    files = sorted(p for p in SOURCES.iterdir() if p.suffix in {".c", ".h"} or p.name == "Makefile")

    def build(out: Path) -> None:
        run_tool(
            ["make", "-s", "-C", SOURCES, f"OUT={out}", out / "table"],
            doing="building simfail's scenario table",
        )

    return cache.entry("simfail-table", {"code": cache.files_hash(files)}, build, _no_news).path / "table"


@functools.cache
def scenarios() -> tuple[Scenario, ...]:
    """The scenario table, in its order. Compiles only the table: no guest, no downloads."""
    listing = subprocess.run([table_program()], check=True, capture_output=True, text=True).stdout
    return tuple(_scenario(row) for row in json.loads(listing))


def _scenario(row: Mapping[str, object]) -> Scenario:
    """A row of ``simfail --list --json``; the unit test holds that it has these fields and no others."""
    fields = dict(row)
    outcomes = fields.pop("outcomes")
    limit = fields.pop("limit")
    needs = fields.pop("needs")
    assert isinstance(outcomes, list)
    assert isinstance(needs, list)
    return Scenario(
        outcomes=tuple(Outcome(o["when"], tuple(Failure(**f) for f in o["failures"])) for o in outcomes),
        limit=Limit(**limit) if isinstance(limit, dict) else None,
        needs=frozenset(needs),
        **fields,  # type: ignore[arg-type]  # JSON's types are those of the C table
    )
