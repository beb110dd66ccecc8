# SPDX-License-Identifier: MIT
"""All tables as Parquet: the columns of the CSV files, with types that are the same for every trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ..model import Tables
from .columns import Kind, kind_of
from .files import whole_file, write_tables

_TYPES = {Kind.INTEGER: pa.int64(), Kind.UNSIGNED: pa.uint64(), Kind.TEXT: pa.string(), Kind.FLAG: pa.bool_()}
#: Names, paths and errnos repeat, ids and times grow: zstd halves what pyarrow's default makes of them.
_COMPRESSION = "zstd"


def export_parquet(tables: Tables, directory: Path) -> list[Path]:
    """Write ``<table>.parquet`` of every table into ``directory``. Raises TraceError where that fails."""
    return write_tables(
        tables,
        directory,
        "Parquet",
        ".parquet",
        lambda name, table, path: write(arrow_table(name, table), path),
    )


def write(table: pa.Table, path: Path) -> None:
    """Write a table, whole or not at all. Raises OSError."""
    with whole_file(path) as file:
        pq.write_table(table, file, compression=_COMPRESSION)


def arrow_table(name: str, table: pd.DataFrame) -> pa.Table:
    """``table`` with the types of columns.py. Empty text is null, as it is nothing in CSV."""
    kinds = {str(column): kind_of(name, str(column)) for column in table.columns}
    schema = pa.schema([(column, _TYPES[kind]) for column, kind in kinds.items()])
    if table.empty:
        return schema.empty_table()
    return pa.table([_array(table[column], kind) for column, kind in kinds.items()], schema=schema)


def _array(values: pd.Series[Any], kind: Kind) -> pa.Array:
    return _text(values) if kind is Kind.TEXT else pa.array(values, from_pandas=True).cast(_TYPES[kind])


def _text(values: pd.Series[Any]) -> pa.Array:
    """Text by its distinct values, which are few. A path that was no UTF-8 has its bytes as ``\\xff``."""
    codes, distinct = pd.factorize(values)
    texts = [str(text).encode(errors="backslashreplace").decode() or None for text in distinct]
    chosen = pa.array(codes, pa.int64(), mask=codes < 0)
    return pa.array(texts, pa.string()).take(chosen)
