# SPDX-License-Identifier: MIT
"""Tables as files: whole or not at all, of any text, through nobody's links."""

from __future__ import annotations

import csv
import os
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from panthor_trace.errors import TraceError
from panthor_trace.export.csv import export_csv
from panthor_trace.model import build
from panthor_trace.trace.reader import Trace

ODD = ['"quoted", with a comma', "two\nlines", "a\rreturn", "=1+1", "\udcff", "", "ümlaut"]


def test_any_text_comes_back(tmp_path: Path) -> None:
    tables = build(Trace({}, {}, None))
    tables.processes["path"] = pd.Series(ODD, dtype=object)
    export_csv(tables, tmp_path / "csv")
    with (tmp_path / "csv" / "processes.csv").open(newline="", encoding="utf-8") as file:
        rows = [row["path"] for row in csv.DictReader(file)]
    assert rows == [text.replace("\udcff", "\\udcff").replace("\r", "\\r") for text in ODD]


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "csv").mkdir()
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "csv" / "bos.csv").symlink_to(tmp_path / "precious")
    os.link(tmp_path / "precious", tmp_path / "csv" / "ioctls.csv")
    export_csv(build(Trace({}, {}, None)), tmp_path / "csv")
    assert (tmp_path / "precious").read_text() == "kept"
    assert not (tmp_path / "csv" / "bos.csv").is_symlink()
    assert not list((tmp_path / "csv").glob(".*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_disk_that_fills_leaves_whole_tables_only(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", small], check=True)
    try:
        tables = build(Trace({}, {}, None))
        tables.processes["path"] = pd.Series(["x" * 100] * 1000, dtype=object)
        with pytest.raises(TraceError, match="No space left on device"):
            export_csv(tables, small / "csv")
        there = {path.name for path in (small / "csv").iterdir()}
        assert "bos.csv" in there
        assert not [name for name in there if name.startswith((".", "processes"))]
    finally:
        subprocess.run(["umount", small], check=True)
