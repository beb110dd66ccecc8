# SPDX-License-Identifier: MIT
"""Rules on programs that went on after failures, and on those that never got to use the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from . import wording
from .case import Case
from .facts import descriptors_said, failing_call, process_limit, process_limits, refusal_of
from .refusals import cause_of
from .verdict import Cause, Confidence, KernelCap, Refusal, Verdict

#: Calls before which, or in which, the loader loads drivers.
_LOADING = ("vkCreateInstance", "vkCreateDevice")


def refused_file(case: Case, call: pd.Series) -> pd.Series | None:
    """The last file (row of ``refused_files``) that could not be loaded or opened inside a Vulkan call.

    A loader that cannot load a driver answers as if there were none (VK_ERROR_INCOMPATIBLE_DRIVER). It may
    have tried before the call that says so, when it was asked for instance extensions.
    """
    table = case.tables.refused_files
    since = 0 if call["function"] in _LOADING else call["enter_ns"]
    found = table["pid"].eq(call["pid"]) & table["exit_ns"].between(since, call["exit_ns"])
    return table[found].iloc[-1] if found.any() else None


def file_said(case: Case, file: pd.Series) -> list[str]:
    """A refused file, and how far the process was from its limits."""
    if file["name"] == "open":
        return [f"the kernel refused to open a file: {file['errno']}", *descriptors_said(case, file)]
    return [
        f"the kernel refused to map a library of {wording.size(int(file['size']))}: {file['errno']}",
        *process_limits(case, file),
    ]


def _refusal_of_file(case: Case, file: pd.Series, inside: str | None) -> Refusal:
    mapped = file["name"] == "mmap"
    return Refusal(
        ioctl="mmap of a library" if mapped else "open of a file",
        errno=str(file["errno"]),
        inside=inside,
        size=int(file["size"]) if mapped else None,
        since_start_ns=int(file["exit_ns"]) - int(case.meta.get("started_monotonic_ns", 0)),
        limit=process_limit(case, file),
        pid=int(file["pid"]),
    )


def _file_refused(case: Case, cause: Cause, refusal: Refusal, evidence: tuple[str, ...]) -> Verdict:
    return Verdict(
        cause=cause,
        kernel_cap=KernelCap.NO,
        refused_by="kernel",
        headline=f"the kernel refused, it {wording.REFUSED[cause]}: {wording.refusal(refusal)}",
        confidence=Confidence.MEDIUM,
        refusal=refusal,
        evidence=evidence,
        missing=case.blind_to,
        losses=case.losses,
    )


def driver_not_loaded(case: Case, call: pd.Series) -> Verdict | None:
    """A Vulkan call failed because a library it needed could not be mapped."""
    file = refused_file(case, call)
    if file is None:
        return None
    failing = failing_call(case, call, call["vulkan_id"])
    refusal = _refusal_of_file(case, file, failing.name)
    cause = cause_of(str(file["name"]), str(file["errno"]))
    evidence = (wording.call(failing), *file_said(case, file))
    return replace(_file_refused(case, cause, refusal, evidence), failing_call=failing)


def descriptors_ran_out(case: Case) -> Verdict | None:
    """A process ended badly that had been refused a file for want of descriptors; nothing else failed."""
    table = case.tables.refused_files
    table = table[table["name"] == "open"]
    table = table[table["pid"].map(lambda pid: case.failed(int(pid))).astype(bool)]
    if table.empty or not case.used_gpu:
        return None
    last = table.iloc[-1]
    refusal = replace(_refusal_of_file(case, last, None), count=len(table))
    cause = cause_of("open", str(last["errno"]))
    evidence = (
        *file_said(case, last),
        wording.ending(case.exit_code),
        f"{wording.counted(len(table), 'file')} refused so, and nothing else for good",
    )
    verdict = _file_refused(case, cause, refusal, evidence)
    return replace(verdict, missing=(*case.blind_to, "whether the program ended for that: no call tells"))


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
    file = refused_file(case, call)
    if len(refused):
        yield f"its reason: {wording.refusal(refusal_of(case, refused.iloc[-1], len(refused)))}"
    elif file is not None:
        yield from file_said(case, file)


def never_used(case: Case) -> Verdict | None:
    """No GPU was used: nothing there to judge, but why it was not used may be the question."""
    calls = case.tables.vulkan
    if case.used_panthor or (calls["function"].eq("vkCreateDevice") & calls["result"].eq(0)).any():
        return None
    if len(calls) and not case.meta.get("nodes"):
        return None
    if len(calls):
        what = "the command used Vulkan, but no panthor device, and made no Vulkan device that was seen"
        full = case.tables.refused_files["name"].eq("open")
        why = (
            f"why: openings of device nodes were not recorded; {_may_open(case)}"
            if case.blind("mmap")
            else f"why: {'; '.join(file_said(case, case.tables.refused_files[full].iloc[-1]))}"
            if full.any()
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
