# SPDX-License-Identifier: MIT
"""How much of the driver's limited objects was in use at a moment, counted from the recorded ioctls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..trace.reader import Records
from .requests import arguments


@dataclass(frozen=True)
class Kind:
    """An object that ioctls make and destroy: their names, and the member that holds its id."""

    name: str
    create: str
    destroy: str
    created_id: str
    destroyed_id: str


KINDS = (
    Kind("vms", "VM_CREATE", "VM_DESTROY", "id", "id"),
    Kind("groups", "GROUP_CREATE", "GROUP_DESTROY", "group_handle", "group_handle"),
    Kind("heaps", "TILER_HEAP_CREATE", "TILER_HEAP_DESTROY", "handle", "handle"),
)
#: A heap's handle holds its VM's id in the upper half (panthor_ioctl_tiler_heap_create, 6.12, 7.3).
_HEAP_VM_SHIFT = 16


def objects(calls: pd.DataFrame, records: Records) -> pd.DataFrame:
    """One row a VM, group or tiler heap that was made; see docs/tables.md.

    ``gone_ns`` is <NA> for one that lived to the end. The kernel gives out the lowest free id
    (xa_alloc), so an id given out again without having been destroyed tells that the file was closed in
    between and all of its objects went with it.
    """
    parts = []
    for kind in KINDS:
        made = _answers(calls, records, kind.create, "after", kind.created_id)
        made["vm_id"] = _vm_ids(kind, calls, records, made)
        made["limit"] = _limits(kind, calls, records, made)
        gone = _answers(calls, records, kind.destroy, "before", kind.destroyed_id)
        parts.append(_lives(made, gone).assign(kind=kind.name))
    frame = pd.concat([part.astype(object) for part in parts], ignore_index=True)
    frame = _file_ends(frame.sort_values("created_ns", kind="stable", ignore_index=True))
    columns = ["kind", "pid", "fd", "id", "vm_id", "limit", "created_ns", "gone_ns"]
    return frame[columns].astype(
        dict.fromkeys(("pid", "fd", "id", "created_ns"), "int64")
        | dict.fromkeys(("vm_id", "limit", "gone_ns"), "Int64")
    )


def _answers(calls: pd.DataFrame, records: Records, name: str, which: str, member: str) -> pd.DataFrame:
    """The successful ioctls ``name`` with the id they made or destroyed."""
    values = arguments(calls, records, name, which)
    frame = calls.loc[values.index, ["pid", "fd", "exit_ns", "ret"]]
    frame["id"] = values[member]
    granted = frame["ret"].ge(0).fillna(False).astype(bool)
    return frame[granted].drop(columns="ret")


def _vm_ids(kind: Kind, calls: pd.DataFrame, records: Records, made: pd.DataFrame) -> pd.Series:
    if kind.name == "vms":
        return made["id"]
    if kind.name == "heaps":
        return made["id"].astype("int64") // (1 << _HEAP_VM_SHIFT)
    return arguments(calls, records, kind.create, "before")["vm_id"].reindex(made.index)


def _limits(kind: Kind, calls: pd.DataFrame, records: Records, made: pd.DataFrame) -> pd.Series:
    """What the object itself is limited to: bytes of user addresses of a VM, chunks of a heap."""
    if kind.name == "vms":
        return arguments(calls, records, kind.create, "after")["user_va_range"].reindex(made.index)
    if kind.name == "heaps":
        return arguments(calls, records, kind.create, "before")["max_chunks"].reindex(made.index)
    return pd.Series(pd.NA, index=made.index, dtype="Int64")


def _lives(made: pd.DataFrame, gone: pd.DataFrame) -> pd.DataFrame:
    made = made.rename(columns={"exit_ns": "created_ns"}).sort_values("created_ns", kind="stable")
    made["gone_ns"] = pd.array([pd.NA] * len(made), "Int64")
    if made.empty or gone.empty:
        return made
    keys = ["pid", "fd", "id"]
    gone = gone.rename(columns={"exit_ns": "gone_ns"}).sort_values("gone_ns", kind="stable")
    matched = pd.merge_asof(
        made[["created_ns", *keys]].astype(dict.fromkeys(keys, "int64")),
        gone[["gone_ns", *keys]].astype(dict.fromkeys(keys, "int64")),
        left_on="created_ns",
        right_on="gone_ns",
        by=keys,
        direction="forward",
    )
    again = made.groupby(keys)["created_ns"].shift(-1)
    ends = matched["gone_ns"].astype("Int64").set_axis(made.index)
    made["gone_ns"] = ends.where(again.isna() | (ends < again).fillna(False))
    return made


def _file_ends(frame: pd.DataFrame) -> pd.DataFrame:
    """End the objects of files that were closed: those before an id that came again while it lived."""
    keys = ["kind", "pid", "fd", "id"]
    again = frame.groupby(keys)["created_ns"].shift(-1)
    reused = again[frame["gone_ns"].isna() & again.notna()]
    spans = frame.loc[reused.index, ["pid", "fd", "created_ns"]].assign(again=reused).astype("int64")
    gone = frame["gone_ns"].astype("Int64")
    for (pid, fd), group in spans.sort_values("again").groupby(["pid", "fd"]):
        closings = _fewest_moments(group["created_ns"].to_numpy(), group["again"].to_numpy())
        rows = frame.index[(frame["pid"] == pid) & (frame["fd"] == fd) & gone.isna()]
        place = np.searchsorted(closings, frame.loc[rows, "created_ns"].astype("int64"), side="right")
        ended = place < len(closings)
        gone[rows[ended]] = closings[place[ended]]
    return frame.assign(gone_ns=gone)


def _fewest_moments(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The fewest moments of which one lies in each interval (first, last]; sorted by ``last``."""
    moments: list[int] = []
    for begin, end in zip(first.tolist(), last.tolist(), strict=True):
        if not moments or moments[-1] <= begin:
            moments.append(end)
    return np.array(moments, np.int64)


def live(frame: pd.DataFrame, at_ns: int) -> pd.DataFrame:
    """The objects that were there at ``at_ns``: a request that answers at that very moment comes after."""
    there = (frame["created_ns"] <= at_ns) & frame["gone_ns"].gt(at_ns).fillna(True).astype(bool)
    chosen: pd.DataFrame = frame[there]
    return chosen


def mapped_bytes(binds: pd.DataFrame, at_ns: int) -> Mapping[tuple[int, int, int], int]:
    """Bytes mapped by VM_BIND at ``at_ns``, by (pid, fd, vm_id).

    Mapped minus unmapped: exact for user space that unmaps what it mapped, as panvk does; an address
    mapped over counts twice.
    """
    done = binds[(binds["exit_ns"] <= at_ns) & binds["ret"].eq(0).fillna(False).astype(bool)]
    sign = done["operation"].map({"map": 1, "unmap": -1}).fillna(0)
    signed = sign.astype("int64") * done["size"].astype("int64")
    sums = signed.groupby([done["pid"], done["fd"], done["vm_id"]]).sum().clip(lower=0).rename("bytes")
    return {(pid, fd, vm): total for pid, fd, vm, total in sums.reset_index().itertuples(index=False)}
