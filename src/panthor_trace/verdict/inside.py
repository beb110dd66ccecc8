# SPDX-License-Identifier: MIT
"""Rules on what no ioctl and no Vulkan call shows: refused heap chunks, failures of the GPU, giving up."""

from __future__ import annotations

import pandas as pd

from . import wording
from .absence import unless_blind
from .case import Case
from .facts import buffer_of, failing_call, unbound_buffers
from .verdict import Cause, Confidence, KernelCap, LimitHit, Refusal, Verdict

_HEAP_LIMITS = {
    "heap_max_chunks": ("max_chunks", "chunks of the heap, as its creator asked"),
    "heap_target_in_flight": (
        "target_in_flight",
        "render passes in flight, as its creator asked",
    ),
}


#: 6.12 says what was wrong in its log alone, without the process, a millisecond before the group is lost.
_TOGETHER_NS = 10_000_000


def gpu_failed(case: Case) -> Verdict | None:
    """A GPU fault, a lost group, a time-out or a reset came before anything else failed."""
    faults = case.gpu_faults
    if faults.empty or not case.ended_badly:
        return None
    first = int(faults["time_ns"].min())
    if case.refused_before(first):
        return None
    refused = _refused_growth(case)
    if len(refused) and int(refused["time_ns"].iloc[0]) < first:
        return _heap_verdict(case, refused.iloc[0], tuple(_said(case, faults)))
    own = faults[faults["pid"].notna()]
    told = _told(faults)
    later = case.failing_call
    row = later if later is not None else case.last_refusal_after(first)
    return Verdict(
        cause=Cause.GPU_FAULT,
        kernel_cap=KernelCap.NO,
        refused_by="GPU",
        headline=f"the GPU failed first: {told['fault']} ({told['detail']})",
        confidence=Confidence.HIGH if len(own) and not case.blind_to else Confidence.MEDIUM,
        failing_call=failing_call(case, row, row["vulkan_id"]) if row is not None else None,
        evidence=tuple(_said(case, faults)),
        ruled_out=("a cap or lack of memory: no request was refused before the first fault",),
        missing=(
            *case.blind_to,
            *(() if len(own) else ("which process the fault belongs to: the driver does not say",)),
        ),
        losses=case.losses,
    )


def _told(faults: pd.DataFrame) -> pd.Series:
    """The fault (a row of ``faults``) to name: the process's first, or what its group was lost to."""
    own = faults[faults["pid"].notna()]
    if own.empty:
        return faults.iloc[0]
    first = own.iloc[0]
    if first["fault"] != "group lost":
        return first
    just_before = faults["time_ns"].between(first["time_ns"] - _TOGETHER_NS, first["time_ns"])
    reason = faults[faults["pid"].isna() & just_before]
    return reason.iloc[0] if len(reason) else first


def heap_growth_refused(case: Case) -> Verdict | None:
    """The firmware was refused a chunk, and the program ended badly with nothing else to blame."""
    refused = _refused_growth(case)
    if refused.empty or not case.ended_badly:
        return None
    return _heap_verdict(case, refused.iloc[-1], ())


#: SIGABRT as a shell shows it: abort() and an exception nobody catches end a program with it.
_ABORTED = 134


def ended_by_itself(case: Case) -> Verdict | None:
    """A program aborted, no Vulkan call was seen and nothing was refused: what it asked for last has to tell.

    An engine that fetches device functions with vkGetDeviceProcAddr passes the probes by.
    """
    if case.exit_code != _ABORTED or not case.used_panthor or len(case.tables.vulkan):
        return None
    unbound = unbound_buffers(case, case.tables.ioctls)
    ruled_out = (f"the kernel: {wording.counted(len(case.tables.ioctls), 'request')}, none refused for good",)
    missing = ("the program's Vulkan calls, if it made any: none was seen",)
    blind = case.blind_in_user_space
    blind += case.blind_to_gpu
    if len(unbound):
        buffer = buffer_of(unbound.iloc[-1])
        verdict = Verdict(
            cause=Cause.DRIVER_VA,
            kernel_cap=KernelCap.NO,
            refused_by="panvk",
            headline="the program aborted after a buffer was made and closed without being bound: "
            "user space found no GPU address for it",
            confidence=Confidence.LOW,
            buffer=buffer,
            evidence=(f"a buffer of {wording.size(buffer.size)} was made and closed, never bound",),
            ruled_out=ruled_out,
            missing=missing,
            losses=case.losses,
        )
        return unless_blind(case, verdict, blind)
    if not case.never_mapped("libvulkan.so") and len(case.tables.modules):
        blind += (
            "a Vulkan loader was mapped, but no call of it was seen: panvk may have given up by itself",
        )
    verdict = Verdict(
        cause=Cause.APPLICATION,
        kernel_cap=KernelCap.NO,
        refused_by="program",
        headline="the program aborted by itself: nothing it had asked the kernel for was refused",
        confidence=Confidence.LOW,
        evidence=(wording.ending(case.exit_code),),
        ruled_out=ruled_out,
        missing=missing,
        losses=case.losses,
    )
    return unless_blind(case, verdict, blind)


def _refused_growth(case: Case) -> pd.DataFrame:
    growth = case.tables.heap_growth
    chosen: pd.DataFrame = growth[(growth["operation"] == "grow") & (growth["errno"] != "")]
    return chosen


def _heap_verdict(case: Case, row: pd.Series, consequences: tuple[str, ...]) -> Verdict:
    hit = None
    if row["limit"] in _HEAP_LIMITS:
        member, counts = _HEAP_LIMITS[row["limit"]]
        hit = LimitHit(row["limit"], int(row[member]), counts)
    cause = Cause.KERNEL_CAP if hit else Cause.KERNEL_MEMORY
    refusal = Refusal(
        ioctl="heap growth",
        errno=str(row["errno"]),
        inside=None,
        size=None if pd.isna(row["chunk_size"]) else int(row["chunk_size"]),
        since_start_ns=int(row["time_ns"]) - int(case.meta.get("started_monotonic_ns", 0)),
        origin="panthor_heap_grow",
        limit=hit,
        pid=None if pd.isna(row["pid"]) else int(row["pid"]),
    )
    state = "" if pd.isna(row["chunks"]) else f", it had {row['chunks']} of {row['max_chunks']} chunks"
    passes = f"{row['renderpasses_in_flight']} render passes in flight"
    allowed = "" if pd.isna(row["target_in_flight"]) else f" of {row['target_in_flight']}"
    verdict = Verdict(
        cause=cause,
        kernel_cap=KernelCap.YES if hit else KernelCap.NO,
        refused_by="kernel",
        headline=f"the kernel refused, it {wording.REFUSED[cause]}: {wording.refusal(refusal)}",
        confidence=Confidence.MEDIUM,
        refusal=refusal,
        evidence=(
            f"the firmware asked for another chunk of a tiler heap and got {row['errno']}{state}, "
            f"{passes}{allowed}; no ioctl shows this and the kernel logs nothing",
            *consequences,
        ),
        missing=case.blind_to,
        losses=case.losses,
    )
    return unless_blind(case, verdict, _uncounted(case, row))


def _uncounted(case: Case, row: pd.Series) -> tuple[str, ...]:
    """Why a refused growth may have met another limit than it seems: all of them are ENOMEM."""
    if not row["limit"]:
        return ("which heap it was is not known: it may have had all its chunks, or memory ran out",)
    # Of a chunk more or less that went unseen depends whether the heap had all it may have.
    return case.blind("driver") if row["limit"] != "heap_target_in_flight" else ()


def _said(case: Case, faults: pd.DataFrame) -> list[str]:
    """The first faults in words; a device-wide one says so."""
    start = int(case.meta.get("started_monotonic_ns", 0))
    lines = []
    for _, row in faults.head(6).iterrows():
        whose = "the whole device" if pd.isna(row["pid"]) else f"process {row['pid']}"
        seconds = (int(row["time_ns"]) - start) / 1e9
        lines.append(f"{seconds:.3f} s: {row['fault']} ({whose}): {row['detail']}")
    return lines
