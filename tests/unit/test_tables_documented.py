# SPDX-License-Identifier: MIT
"""docs/tables.md names every column of every table, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from panthor_trace.model import Tables, build

from .synthetic import SyntheticTrace

DOCUMENT = Path(__file__).parents[2] / "docs" / "tables.md"


def documented() -> dict[str, list[str]]:
    """Columns by table, as the document has them."""
    found: dict[str, list[str]] = {}
    for section in re.split(r"^## ", DOCUMENT.read_text(), flags=re.MULTILINE)[1:]:
        name, _, text = section.partition("\n")
        rows = re.findall(r"^\| (`[^|]*) \|", text, flags=re.MULTILINE)
        found[name.strip()] = [column for row in rows for column in re.findall(r"`(\w+)`", row)]
    return found


def columns(tables: Tables) -> dict[str, list[str]]:
    return {name: list(table.columns) for name, table in tables}


def test_every_table_has_a_section_and_the_other_way_round() -> None:
    assert set(documented()) == set(columns(build(SyntheticTrace().finish())))


@pytest.mark.parametrize("table", sorted(documented()))
def test_every_column_is_documented_once_and_no_other(table: str) -> None:
    text = documented()[table]
    assert len(text) == len(set(text))
    found = columns(build(SyntheticTrace().finish()))[table]
    if table == "kernel":  # one more for each value of any function, which the document leaves to meta.json
        found = found[: len(text)]
    assert set(text) == set(found)


def test_columns_do_not_depend_on_what_happened() -> None:
    run = SyntheticTrace()
    run.call("vkBeginCommandBuffer", 1)
    with run.vulkan("vkCmdDispatch", 1, 1, 1, 1):
        run.vm_bind((run.bo_create(4096), 4096))
    run.call("vkEndCommandBuffer", 1, result=-2)
    run.call("vkQueueSubmit", 7, 1, 0, 0)
    run.ioctl("VM_CREATE", {"user_va_range": 1 << 40}, {"id": 1})
    run.throw("St9bad_alloc")
    assert columns(build(run.finish())) == columns(build(SyntheticTrace().finish()))
