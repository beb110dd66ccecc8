# SPDX-License-Identifier: MIT
"""Looking values up by id, where an id may be missing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

Column = np.ndarray | pd.Series

#: Types that can hold "not known", by NumPy kind.
_NULLABLE: dict[str, pd.api.extensions.ExtensionDtype] = {
    "i": pd.Int64Dtype(),
    "u": pd.UInt64Dtype(),
    "b": pd.BooleanDtype(),
}


def answered(answers: pd.Series) -> pd.Series:
    """Which calls answered 0: one that never returned (<NA>) did not."""
    return answers.eq(0).fillna(False).astype(bool)


def look_up(ids: pd.Series, column: pd.Series) -> pd.Series:
    """The value of ``column`` (indexed by ids) for each of ``ids``; <NA> (or NaN) where there is none."""
    kind = getattr(column.dtype, "kind", "O")
    values = pd.Series(column, dtype=_NULLABLE[kind]) if kind in _NULLABLE else column
    known = pd.Index(column.index.to_numpy(dtype=np.int64, na_value=-1), dtype="int64")
    wanted = ids.astype("Int64").fillna(-2).to_numpy(np.int64)
    place = known.get_indexer(pd.Index(wanted))
    found = values.array.take(place, allow_fill=True)
    return pd.Series(found, index=ids.index)


def place_of(known: Sequence[Column], wanted: Sequence[Column]) -> np.ndarray:
    """Number of the first row of ``known`` (by column) that equals each row of ``wanted``; -1: none.

    Rows may come twice: a clock is coarse, and a thread's number is given out again.
    """
    index = pd.MultiIndex.from_arrays(list(known))
    first = np.flatnonzero(~index.duplicated())
    found = index[first].get_indexer(pd.MultiIndex.from_arrays(list(wanted)))
    return np.append(first, -1)[found]


def numbered(*columns: np.ndarray) -> np.ndarray:
    """A number for each distinct row of ``columns``, in the order of their first appearance."""
    frame = pd.DataFrame(dict(enumerate(columns)))
    return frame.groupby(list(frame.columns), sort=False).ngroup().to_numpy(np.int64)
