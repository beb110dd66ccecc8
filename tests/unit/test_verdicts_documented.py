# SPDX-License-Identifier: MIT
"""docs/verdicts.md names every cause, limit, loss and remedy there is in the code, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import panthor_trace.verdict
from panthor_trace.limits import LIMITS
from panthor_trace.verdict import Cause
from panthor_trace.verdict.inside import _HEAP_LIMITS
from panthor_trace.verdict.judge import RULES
from panthor_trace.verdict.remedies import NO_REMEDY, REMEDIES
from panthor_trace.verdict.sight import HIDES_ALL, SIGHTS

TEXT = (Path(__file__).parents[2] / "docs" / "verdicts.md").read_text()
SOURCES = Path(panthor_trace.verdict.__file__).parent


def rows(heading: str) -> list[list[str]]:
    """Cells of the table rows below a heading, up to the next one; head and rule left out."""
    section = TEXT.split(f"{heading}\n", 1)[1]
    section = re.split(r"^#", section, maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[2:]]


def limits_of_the_code() -> set[str]:
    literal = {
        name
        for source in SOURCES.glob("*.py")
        for name in re.findall(r'LimitHit\(\s*"([\w.-]+)"', source.read_text())
    }
    return literal | {limit.name for limit in LIMITS} | set(_HEAP_LIMITS)


@pytest.mark.parametrize("cause", Cause, ids=lambda cause: cause.value)
def test_every_cause_says_what_it_rests_on(cause: Cause) -> None:
    section = TEXT.split(f"### {cause.value}\n", 1)[1].split("\n### ")[0]
    for part in ("Evidence", "Excluded by", "Confidence", "Limits"):
        assert f"**{part}.**" in section


def test_no_other_cause_is_described() -> None:
    assert re.findall(r"^### (.+)$", TEXT, flags=re.MULTILINE) == [cause.value for cause in Cause]


def test_every_limit_is_described() -> None:
    described = {row[0] for heading in ("### kernel-cap", "### process-limit") for row in rows(heading)}
    assert described == limits_of_the_code()


def test_every_remedy_is_described() -> None:
    described = {(row[0], row[1]) for row in rows("## Remedies")}
    assert described == {(remedy.cause.value, remedy.about) for remedy in REMEDIES}
    without = TEXT.split("No remedy:", 1)[1].split("\n\n")[0]
    assert all(f"`{cause.value}`" in without for cause in NO_REMEDY)


def test_every_rule_has_its_place() -> None:
    order = [row[0] for row in rows("# Verdicts") if row[0].isdecimal()]
    assert order == [str(number + 1) for number in range(len(RULES))]


def test_what_blinds_each_layer_is_described() -> None:
    section = TEXT.split("What hides what:", 1)[1].split("\n## ")[0]
    lines = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| ")][1:]
    described = {layer.strip(): set(re.findall(r"`(\w+)`", losses)) for layer, losses in lines}
    functions = {
        layer: {p for p in sight.probes or () if p.isidentifier()} for layer, sight in SIGHTS.items()
    }
    hides = {layer: set(sight.hides) | functions[layer] for layer, sight in SIGHTS.items()}
    assert described == hides | {"all": set(HIDES_ALL)}
