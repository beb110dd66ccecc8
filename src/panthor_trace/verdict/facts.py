# SPDX-License-Identifier: MIT
"""What the rules ask of a case, in the verdict's terms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from .case import Case
from .reached import limit_hit
from .verdict import Buffer, FailingCall, LimitHit, Refusal
from .wording import size


def failing_call(case: Case, row: pd.Series, where: object) -> FailingCall:
    """The failing call (a row of ``vulkan`` or ``ioctls``); ``where`` is the Vulkan call of its cause."""
    vulkan = "function" in row.index
    dispatch = case.dispatch_of(where)
    return FailingCall(
        name=str(row["function"] if vulkan else row["name"]),
        error=str(row["result_name"] if vulkan else row["errno"]),
        pid=int(row["pid"]),
        tid=int(row["tid"]),
        since_start_ns=int(row["exit_ns"]) - int(case.meta.get("started_monotonic_ns", 0)),
        command_buffer=_optional(row.get("command_buffer")),
        dispatch_number=int(dispatch["number"]) if dispatch is not None else None,
        workgroups=_workgroups(dispatch),
    )


def _workgroups(dispatch: pd.Series | None) -> tuple[int, int, int] | None:
    if dispatch is None or "groups_x" not in dispatch.index or pd.isna(dispatch["groups_x"]):
        return None  # an indirect dispatch keeps its counts in a buffer
    return int(dispatch["groups_x"]), int(dispatch["groups_y"]), int(dispatch["groups_z"])


def _optional(value: object) -> int | None:
    return None if value is None or pd.isna(value) else int(value)  # type: ignore[call-overload]


def refusal_of(case: Case, row: pd.Series, count: int) -> Refusal:
    """A refused request (a row of ``requests``), with the size it was for."""
    return Refusal(
        ioctl=str(row["name"]),
        errno=str(row["errno"]),
        inside=case.function_of(row["vulkan_id"]),
        size=_requested_size(case, row),
        count=count,
        since_start_ns=int(row["exit_ns"]) - int(case.meta.get("started_monotonic_ns", 0)),
        origin=_text(row.get("origin")),
        origin_chain=_text(row.get("origin_chain")),
        kernel_stack=_kernel_stack(case, row.get("origin_stack_id")),
        limit=limit_hit(case, row),
        ioctl_id=_optional(row.get("ioctl_id")),
        pid=int(row["pid"]),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _kernel_stack(case: Case, stack_id: object) -> str | None:
    if stack_id is None or pd.isna(stack_id):  # type: ignore[call-overload]
        return None
    table = case.tables.kernel_stacks
    found = table[table["stack_id"] == stack_id]
    return str(found["frames"].iloc[0]) if len(found) else None


def _requested_size(case: Case, row: pd.Series) -> int | None:
    if row["name"] in ("mmap", "munmap"):
        return int(row["size"])
    if row["name"] == "BO_CREATE":
        bos = case.tables.bos
        return int(bos.loc[bos["ioctl_id"] == row["ioctl_id"], "requested"].iloc[0])
    if row["name"] == "TILER_HEAP_CREATE" and row["errno"] in ("ENOMEM", "ENOSPC"):
        heaps = case.tables.heaps
        heap = heaps[heaps["ioctl_id"] == row["ioctl_id"]].iloc[0]
        return int(heap["initial_chunk_count"]) * int(heap["chunk_size"])
    if row["name"] == "VM_BIND":
        binds = case.tables.binds
        ops = binds[binds["ioctl_id"] == row["ioctl_id"]]
        refused = ops[ops["refused"]] if ops["refused"].any() else ops
        return int(refused["size"].sum()) if len(refused) else None
    return None


def recovered_later(case: Case, row: pd.Series) -> bool:
    """Whether the same call (row of ``vulkan`` or ``ioctls``) later succeeded in the same thread."""
    vulkan = "function" in row.index
    table = case.tables.vulkan if vulkan else case.tables.ioctls
    name, answer = ("function", "result") if vulkan else ("name", "ret")
    later = table[
        (table["tid"] == row["tid"]) & (table[name] == row[name]) & (table["enter_ns"] > row["exit_ns"])
    ]
    later = later[later["enter_ns"] < case.reused_ns(int(row["pid"]), int(row["exit_ns"]))]
    return bool((later[answer].ge(0).fillna(False)).any())


def for_good(case: Case, refused: pd.DataFrame) -> pd.DataFrame:
    """Those refused requests (rows of ``requests``) whose like did not later succeed in the same thread.

    A whole column at a time: a program may poll with a request that is refused a million times.
    """
    table = case.requests
    granted = table[table["ret"].ge(0).fillna(False).astype(bool)]
    keys = [granted["tid"].to_numpy(), _kinds(case, granted).to_numpy()]
    last = granted["enter_ns"].groupby(keys).max()
    wanted = pd.MultiIndex.from_arrays([refused["tid"], _kinds(case, refused)])
    succeeded = last.reindex(wanted).fillna(-1).to_numpy()
    open_ = succeeded <= refused["exit_ns"].to_numpy()
    for row in np.flatnonzero(~open_ & refused["pid"].isin(case.reused_pids).to_numpy()):
        pid, exit_ns = int(refused["pid"].iloc[row]), int(refused["exit_ns"].iloc[row])
        open_[row] = succeeded[row] >= case.reused_ns(pid, exit_ns)
    chosen: pd.DataFrame = refused[open_]
    return chosen


def _kinds(case: Case, table: pd.DataFrame) -> pd.Series:
    """What kind of request each ioctl is: an unbind that succeeds does not make good a bind that failed."""
    binds = case.tables.binds
    maps = table["ioctl_id"].isin(binds.loc[binds["operation"] == "map", "ioctl_id"])
    return table["name"].where(~maps, table["name"] + " map")


def unbound_buffers(case: Case, requests: pd.DataFrame) -> pd.DataFrame:
    """Rows of ``bos`` that were made and closed among ``requests`` without an attempt to bind them.

    That is panvk's pattern when its own VA heap has no room (panvk_priv_bo.c, panvk_device_memory.c): the
    buffer is made, no address is found for it, and it is closed again.
    """
    bos = case.tables.bos
    made = bos[bos["ioctl_id"].isin(requests["ioctl_id"]) & bos["ret"].eq(0).fillna(False)]
    tried = set(case.tables.binds["bo_id"].dropna().astype(int))
    end = int(requests["exit_ns"].max()) if len(requests) else 0
    closed = made[made["closed_ns"].notna() & made["closed_ns"].fillna(end + 1).le(end)]
    chosen: pd.DataFrame = closed[~closed["bo_id"].isin(tried)]
    return chosen


def buffer_of(bo: pd.Series) -> Buffer:
    """A row of ``bos`` in the verdict's terms."""
    size = bo["requested"] if pd.isna(bo["size"]) else bo["size"]
    return Buffer(
        int(bo["bo_id"]), int(size), *(_known(bo[name]) for name in ("label", "pool", "pool_ground"))
    )


def _known(value: object) -> str | None:
    return str(value) if isinstance(value, str) and value else None


def refused_buffer(case: Case, row: pd.Series) -> Buffer | None:
    """The buffer that a refused request (a row of ``requests``) was about: made, bound or mapped."""
    bos = case.tables.bos
    if row["name"] == "BO_CREATE":
        found = bos[bos["ioctl_id"].eq(row["ioctl_id"])]
    elif row["name"] == "VM_BIND":
        ops = case.tables.binds[case.tables.binds["ioctl_id"].eq(row["ioctl_id"])]
        named = ops[ops["refused"]] if ops["refused"].any() else ops
        found = bos[bos["bo_id"].isin(named["bo_id"].dropna())]
    else:
        found = (
            bos[bos["bo_id"].eq(row["bo_id"]).fillna(False)]
            if _optional(row.get("bo_id")) is not None
            else bos[:0]
        )
    return buffer_of(found.iloc[-1]) if len(found) else None


#: Descriptors: which limit an errno names by itself.
_DESCRIPTOR_LIMITS = {
    "EMFILE": LimitHit("RLIMIT_NOFILE", None, "open descriptors of the process"),
    "ENFILE": LimitHit("fs.file-max", None, "open files of the machine"),
}


def process_limit(case: Case, row: pd.Series) -> LimitHit | None:
    """Which of its own limits a refused request (row of ``requests``) met; None where no number shows one."""
    if row["name"] not in ("mmap", "munmap"):
        hit = _DESCRIPTOR_LIMITS.get(str(row["errno"]))
        value = _optional(row.get("descriptor_limit"))
        return replace(hit, value=value) if hit is not None and str(row["errno"]) == "EMFILE" else hit
    most = case.max_map_count(int(row["exit_ns"]))
    maps = _optional(row.get("maps"))
    # mmap() is refused when there are more than that, what splits a mapping when there are as many
    # (mm/mmap.c, do_mmap; mm/vma.c, vms_gather_munmap_vmas); a mapping may be merged away meanwhile.
    if most is not None and maps is not None and maps >= most:
        return LimitHit("vm.max_map_count", most, "mappings of a process")
    limit, used = _optional(row.get("address_space_limit")), _optional(row.get("address_space"))
    if limit is not None and used is not None and used + int(row["size"]) > limit:
        return LimitHit("RLIMIT_AS", limit, "bytes of address space of the process")
    return None


def within_process_limits(case: Case, row: pd.Series) -> bool:
    """Whether a refused mapping is known to have been within every limit of its process."""
    known = case.max_map_count(int(row["exit_ns"])) is not None
    counted = _optional(row.get("maps")) is not None and _optional(row.get("address_space")) is not None
    return row["name"] in ("mmap", "munmap") and known and counted and process_limit(case, row) is None


def descriptors_said(case: Case, row: pd.Series) -> list[str]:
    """How many descriptors the process of a refused opening had, by the snapshot, and might have."""
    most = _optional(row.get("descriptor_limit"))
    states = case.tables.states
    near = states[states["pid"].eq(row["pid"]).fillna(False) & states["descriptors"].notna()]
    near = near[near["failed_ns"].eq(row["exit_ns"]).fillna(False)] if len(near) > 1 else near
    if most is None:
        return []
    open_ = f"{int(near['descriptors'].iloc[0])} of " if len(near) else ""
    return [f"open descriptors of the process: {open_}RLIMIT_NOFILE = {most}"]


def process_limits(case: Case, row: pd.Series) -> list[str]:
    """How far the process was from its own limits when a mapping (row of ``mappings``) was refused."""
    facts = []
    most = case.max_map_count(int(row["exit_ns"]))
    if _optional(row.get("maps")) is not None and most is not None:
        facts.append(f"mappings of the process: {row['maps']} of vm.max_map_count = {most}")
    limit = _optional(row.get("address_space_limit"))
    if limit is not None and _optional(row.get("address_space")) is not None:
        facts.append(
            f"address space of the process: {size(int(row['address_space']))} of RLIMIT_AS = {size(limit)}"
        )
    return facts
