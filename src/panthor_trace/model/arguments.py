# SPDX-License-Identifier: MIT
"""Decodes ioctl arguments in bulk, by the ``_IOC_SIZE`` each caller used."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..trace.reader import Records
from ..trace.schema import ARGUMENT_BYTES, ARRAY_BYTES
from ..uapi.ioctls import Ioctl

Bytes = npt.NDArray[np.uint8]


def layout(ioctl: Ioctl, size: int) -> np.dtype[np.void]:
    """Layout of an argument (or array element) of ``size`` bytes: the members that lie within it."""
    known = [field for field in ioctl.fields if field.end <= size]
    return np.dtype(
        {
            "names": [field.name for field in known],
            "formats": [f"<{field.type}" if field.type != "u1" else "u1" for field in known],
            "offsets": [field.offset for field in known],
            "itemsize": size,
        }
    )


def decode(ioctl: Ioctl, raw: Bytes, sizes: npt.NDArray[np.int64]) -> pd.DataFrame:
    """One row an argument, one column a member; a member the caller's struct lacked is <NA>.

    ``raw`` is (n, ARGUMENT_BYTES); ``sizes`` the n ``_IOC_SIZE``.
    """
    columns: dict[str, npt.NDArray[np.object_]] = {}
    plain: dict[str, npt.NDArray[np.generic]] = {}
    known_sizes = np.unique(np.minimum(sizes, ARGUMENT_BYTES))
    for field in ioctl.fields:
        if len(known_sizes) == 1 and field.end <= known_sizes[0]:
            continue
        columns[field.name] = np.full(len(raw), pd.NA, dtype=object)
    for size in known_sizes:
        rows = np.minimum(sizes, ARGUMENT_BYTES) == size
        values = np.ascontiguousarray(raw[rows, :size]).view(layout(ioctl, int(size))).reshape(-1)
        for name in values.dtype.names or ():
            if name in columns:
                columns[name][rows] = values[name]
            else:
                plain[name] = values[name].copy()
    ordered = [field.name for field in ioctl.fields]
    frame = pd.DataFrame({**plain, **columns}, index=range(len(raw)))
    return frame[ordered]


def elements(
    element: Ioctl, arrays: Records, owners: npt.NDArray[np.int64], strides: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], pd.DataFrame]:
    """The elements of the arrays that calls point to, from the array records.

    ``owners`` says which call each array record belongs to, ``strides`` what one element takes there.
    Returns the owner of each element, its number in the array, and one row an element. Those of which not
    all was recorded are left out: the call's ARRAY_CUT flag tells of a cut end, a counter of lost records.
    """
    found_owners: list[npt.NDArray[np.int64]] = []
    numbers: list[npt.NDArray[np.int64]] = []
    frames: list[pd.DataFrame] = []
    for stride in np.unique(strides[strides > 0]):
        chosen = strides == stride
        owner, number, flat = _whole(arrays[chosen], owners[chosen], int(stride))
        values = flat.view(layout(element, int(stride))).reshape(-1)
        known = {name: values[name].copy() for name in values.dtype.names or ()}
        frames.append(pd.DataFrame(known, columns=[field.name for field in element.fields]))
        found_owners.append(owner)
        numbers.append(number)
    if not frames:
        empty = pd.DataFrame({field.name: np.empty(0, field.type) for field in element.fields})
        return np.empty(0, np.int64), np.empty(0, np.int64), empty
    return np.concatenate(found_owners), np.concatenate(numbers), pd.concat(frames, ignore_index=True)


def members(
    arrays: Records, owners: npt.NDArray[np.int64], stride: int, offset: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """The 64-bit member at ``offset`` of each array element, and the call it belongs to."""
    owner, _, flat = _whole(arrays, owners, stride)
    return owner, np.ascontiguousarray(flat[:, offset : offset + 8]).view("<u8").reshape(-1)


def _whole(
    records: Records, owner: npt.NDArray[np.int64], stride: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Bytes]:
    """The whole elements of each owner's array, a row each, the owner and the number of each.

    Records may be missing anywhere in an array, so every byte is put where it belongs.
    """
    if not len(records):
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, stride), np.uint8)
    order = np.lexsort((records["offset"], owner))
    records, owner = records[order], owner[order]
    inside = np.arange(ARRAY_BYTES) < records["length"][:, None]
    position = (records["offset"].astype(np.int64)[:, None] + np.arange(ARRAY_BYTES))[inside]
    key = np.stack([np.repeat(owner, inside.sum(axis=1)), position // stride])
    begins = np.flatnonzero(np.append(True, (key[:, 1:] != key[:, :-1]).any(axis=0)))
    sizes = np.diff(np.append(begins, key.shape[1]))
    whole = sizes == stride
    kept = np.repeat(whole, sizes)
    flat = np.ascontiguousarray(records["bytes"][inside][kept].reshape(-1, stride))
    return key[0, begins[whole]], key[1, begins[whole]], flat
