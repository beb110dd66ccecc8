# SPDX-License-Identifier: MIT
"""Rules on programs that went on after failures, and on those that never got to use the GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from . import wording
from .case import Case
from .facts import failing_call, process_limit, process_limits, refusal_of
from .refusals import cause_of
from .verdict import Cause, Confidence, KernelCap, Refusal, Verdict

#: Calls before which, or in which, the loader loads drivers.
_LOADING = ("vkCreateInstance", "vkCreateDevice")


def refused_library(case: Case, call: pd.Series) -> pd.Series | None:
    """The last library (row of ``refused_libraries``) whose mapping was refused inside a Vulkan call.

    A loader that cannot load a driver answers as if there were none (VK_ERROR_INCOMPATIBLE_DRIVER). It may
    have tried before the call that says so, when it was asked for instance extensions.
    """
    table = case.tables.refused_libraries
    since = 0 if call["function"] in _LOADING else call["enter_ns"]
    found = table["pid"].eq(call["pid"]) & table["exit_ns"].between(since, call["exit_ns"])
    return table[found].iloc[-1] if found.any() else None


def library_said(case: Case, library: pd.Series) -> list[str]:
    """A refused library, and how far the process was from its limits."""
    return [
        f"the kernel refused to map a library of {wording.size(int(library['size']))}: {library['errno']}",
        *process_limits(case, library),
    ]


def driver_not_loaded(case: Case, call: pd.Series) -> Verdict | None:
    """A Vulkan call failed because a library it needed could not be mapped."""
    library = refused_library(case, call)
    if library is None:
        return None
    failing = failing_call(case, call, call["vulkan_id"])
    refusal = Refusal(
        ioctl="mmap of a library",
        errno=str(library["errno"]),
        inside=failing.name,
        size=int(library["size"]),
        since_start_ns=int(library["exit_ns"]) - int(case.meta.get("started_monotonic_ns", 0)),
        limit=process_limit(case, library),
    )
    cause = cause_of("mmap", str(library["errno"]))
    return Verdict(
        cause=cause,
        kernel_cap=KernelCap.NO,
        refused_by="kernel",
        headline=f"the kernel refused, it {wording.REFUSED[cause]}: {wording.refusal(refusal)}",
        confidence=Confidence.MEDIUM,
        failing_call=failing,
        refusal=refusal,
        evidence=(wording.call(failing), *library_said(case, library)),
        missing=case.blind_to,
        losses=case.losses,
    )


def went_on(case: Case) -> Verdict | None:
    """Something failed, and the program did not end by it."""
    failures = int((case.tables.failures["kind"] != "exception").sum()) + len(case.gpu_faults)
    if not failures:
        return None
    without_gpu = not case.submitted
    how = "went on without the GPU" if without_gpu else "got over it"
    return Verdict(
        cause=Cause.RECOVERED,
        kernel_cap=KernelCap.NO,
        refused_by="nobody in the end",
        headline=f"{wording.counted(failures, 'failure')}, and the program {how}",
        confidence=Confidence.LOW if case.blind_to else Confidence.MEDIUM,
        evidence=(
            *_last_failure(case),
            wording.ending(case.exit_code),
            *(("nothing was submitted to a GPU",) if without_gpu else ()),
        ),
        missing=case.blind_to,
        losses=case.losses,
    )


def _last_failure(case: Case) -> Iterator[str]:
    """The last failure, and for a Vulkan call what was refused inside it."""
    seen = case.tables.failures[case.tables.failures["kind"] != "exception"]
    for _, row in seen.tail(1).iterrows():
        yield f"last failure: {row['what']} → {row['error']}"
        if row["what"] == "open" and row["error"] in ("EACCES", "EPERM"):
            yield _may_open(case)
        if row["kind"] == "vulkan":
            yield from _reason(case, case.tables.vulkan.iloc[int(row["vulkan_id"])])
    for _, row in case.gpu_faults.tail(1).iterrows():
        yield f"last GPU fault: {row['fault']}"


def _may_open(case: Case) -> str:
    nodes = ", ".join(f"/dev/dri/{node['name']}" for node in case.meta.get("nodes", ()))
    return f"may the command's user open {nodes or 'a render node'}?"


def _reason(case: Case, call: pd.Series) -> Iterator[str]:
    requests = case.requests_inside(call)
    refused = requests[requests["failed"]]
    library = refused_library(case, call)
    if len(refused):
        yield f"its reason: {wording.refusal(refusal_of(case, refused.iloc[-1], len(refused)))}"
    elif library is not None:
        yield from library_said(case, library)


def never_used(case: Case) -> Verdict | None:
    """No GPU was used: nothing there to judge, but why it was not used may be the question."""
    calls = case.tables.vulkan
    if case.used_panthor or (calls["function"].eq("vkCreateDevice") & calls["result"].eq(0)).any():
        return None
    if len(calls) and not case.meta.get("nodes"):
        return None
    if len(calls):
        what = "the command used Vulkan, but no panthor device, and made no Vulkan device that was seen"
        why = (
            f"why: openings of device nodes were not recorded; {_may_open(case)}"
            if case.blind("mmap")
            else "why: no opening of a device node was refused"
        )
    else:
        what = (
            "the recording ended early, with neither a Vulkan call nor a request to a panthor node in it"
            if case.end is None
            else "the command used neither Vulkan nor a panthor device"
        )
        why = "the command made no Vulkan call that was seen and no request to a panthor node"
    return Verdict(
        cause=Cause.INCONCLUSIVE,
        kernel_cap=KernelCap.INCONCLUSIVE,
        refused_by="unknown",
        headline=f"nothing to judge: {what}",
        confidence=Confidence.LOW,
        evidence=(wording.ending(case.exit_code),) if case.exit_code else (),
        missing=(why, *case.blind_to),
        losses=case.losses,
    )
