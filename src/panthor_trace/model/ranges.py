# SPDX-License-Identifier: MIT
"""What is mapped where in a GPU address space, and for how long.

A map or unmap may cover part of earlier ones, several of them, or none. Cutting the address space at every
address that an operation begins or ends at leaves ranges that each operation covers whole or not at all; in
such a range, what one operation maps lasts until the next operation there.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

#: Columns of what :func:`mapped_ranges` returns.
COLUMNS = ["bind_id", "va", "size", "start_ns", "end_ns"]


def mapped_ranges(operations: pd.DataFrame) -> pd.DataFrame:
    """One row a range and the operation that mapped it, with the time it was mapped for.

    ``operations`` has ``bind_id``, ``space`` (a number for the address space), ``time_ns``, ``va``, ``size``
    and ``maps`` (else it unmaps), in the order they took effect. ``end_ns`` is <NA> where nothing ended it.
    """
    found = [_ranges(of_space) for _, of_space in operations[operations["size"] > 0].groupby("space")]
    if not found:
        return pd.DataFrame({name: pd.Series(dtype="Int64") for name in COLUMNS})
    return pd.concat(found, ignore_index=True)


def _ranges(operations: pd.DataFrame) -> pd.DataFrame:
    start = operations["va"].to_numpy(np.uint64)
    stop = start + operations["size"].to_numpy(np.uint64)
    edges = np.unique(np.concatenate([start, stop]))
    first, last = np.searchsorted(edges, start), np.searchsorted(edges, stop)
    covered = last - first
    row = np.repeat(np.arange(len(operations)), covered)
    within = np.arange(len(row)) - np.repeat(np.cumsum(covered) - covered, covered)
    part = first[row] + within
    order = np.lexsort((row, part))
    row, part = row[order], part[order]
    time = operations["time_ns"].to_numpy(np.int64)
    ended = np.append(part[1:] == part[:-1], False) if len(part) else np.zeros(0, bool)
    end = np.append(time[row][1:], 0) if len(row) else np.zeros(0, np.int64)
    maps = operations["maps"].to_numpy(bool)[row]
    frame = pd.DataFrame(
        {
            "bind_id": operations["bind_id"].to_numpy(np.int64)[row],
            "va": edges[part],
            "size": (edges[part + 1] - edges[part]).astype(np.int64),
            "start_ns": time[row],
            "end_ns": pd.Series(end, dtype="Int64").mask(~ended),
        }
    )
    return frame[maps]
