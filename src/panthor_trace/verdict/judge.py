# SPDX-License-Identifier: MIT
"""The rules, tried in order; the first one that has an answer gives it. Pure: no files, no clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from ..model import Tables
from . import wording
from .absence import unless_blind
from .case import Case
from .context import in_context
from .driver_va import driver_va
from .facts import (
    failing_call,
    for_good,
    process_limit,
    process_limits,
    recovered_later,
    refusal_of,
    refused_buffer,
    unbound_buffers,
    within_process_limits,
)
from .given_up import descriptors_ran_out, driver_not_loaded, never_used, went_on
from .inside import ended_by_itself, gpu_failed, heap_growth_refused
from .reached import undecided
from .refusals import cause_of
from .verdict import Cause, Confidence, KernelCap, Verdict


def judge(tables: Tables, meta: Mapping[str, Any], end: Mapping[str, Any] | None) -> Verdict:
    """Who refused, and was it a cap of the kernel driver?"""
    case = Case(tables, meta, end)
    for rule in RULES:
        verdict = rule(case)
        if verdict is not None:
            return _with_caveats(case, in_context(case, verdict))
    raise AssertionError("the last rule always answers")


#: One step less sure.
_LESS = {
    Confidence.HIGH: Confidence.MEDIUM,
    Confidence.MEDIUM: Confidence.LOW,
    Confidence.LOW: Confidence.LOW,
}


def _with_caveats(case: Case, verdict: Verdict) -> Verdict:
    """What is known to be unknown is said, and costs certainty."""
    if not case.caveats:
        return verdict
    return replace(verdict, confidence=_LESS[verdict.confidence], missing=(*verdict.missing, *case.caveats))


def _kernel_verdict(case: Case, requests: pd.DataFrame, call: pd.Series | None, deferred: bool) -> Verdict:
    """The kernel refused one of ``requests``; ``call`` is the Vulkan call that then failed, if one did."""
    refused = requests[requests["failed"]]
    # A deferred error is the first one of its command buffer: panvk keeps that (vk_command_buffer.c,
    # vk_command_buffer_set_error). In one call, the last refusal is the one it gave up at.
    row = refused.iloc[0] if deferred else refused.iloc[-1]
    refusal = refusal_of(case, row, len(refused))
    cause = Cause.KERNEL_CAP if refusal.limit else cause_of(str(row["name"]), str(row["errno"]))
    if row["name"] == "GROUP_SUBMIT" and call is not None and call["result_name"] == "VK_ERROR_DEVICE_LOST":
        cause = Cause.GPU_FAULT  # the group was lost before: panvk asked for its state (panvk_vX_gpu_queue.c)
    if cause is Cause.PROCESS_LIMIT:
        refusal = replace(refusal, limit=process_limit(case, row))
        if within_process_limits(case, row):
            cause = Cause.KERNEL_MEMORY  # of the mapping itself, or of its page tables
    failing = failing_call(case, call if call is not None else row, row["vulkan_id"])
    evidence = [f"{wording.refusal(refusal)}" + (f" ({len(refused)} times)" if len(refused) > 1 else "")]
    if call is not None:
        how = "while its command buffer was recorded" if deferred else "in that call"
        evidence.insert(0, f"{wording.call(failing)}; the refused request was made {how}")
    evidence += wording.inside(refusal)
    evidence += [wording.oom_kill(pid, case.oom_in_cgroup(pid)) for pid in case.oom_killed]
    if row["name"] in ("mmap", "munmap"):
        evidence += process_limits(case, row)
    if failing.workgroups:
        x, y, z = failing.workgroups
        evidence.append(
            f"dispatch {failing.dispatch_number} of the process ({x}x{y}x{z} workgroups) was being recorded"
        )
    how_refused = wording.refused(cause, refusal.limit)
    verdict = Verdict(
        cause=cause,
        kernel_cap=KernelCap.YES if cause is Cause.KERNEL_CAP else KernelCap.NO,
        refused_by="GPU" if cause is Cause.GPU_FAULT else "kernel",
        headline=f"the kernel refused, it {how_refused}: {wording.refusal(refusal)}",
        confidence=Confidence.HIGH
        if (call is not None or refusal.origin) and not case.blind_to
        else Confidence.MEDIUM,
        failing_call=failing,
        refusal=refusal,
        buffer=refused_buffer(case, row),
        evidence=tuple(evidence),
        missing=case.blind_to,
        losses=case.losses,
    )
    return unless_blind(case, verdict, (*case.end_unknown, *_ambiguous(case, row, cause)))


def _ambiguous(case: Case, row: pd.Series, cause: Cause) -> tuple[str, ...]:
    """What would tell causes apart that refuse this request with the same errno.

    GROUP_SUBMIT answers EINVAL to a malformed job, and to any job once the group is lost (panthor_sched.c).
    """
    if cause not in (Cause.KERNEL_REJECTED, Cause.KERNEL_MEMORY):
        return ()
    if row["name"] != "GROUP_SUBMIT":
        return undecided(case, row)
    blind = case.blind("driver")
    return (*blind, *case.blind_to) if blind or case.torn else ()


def _vulkan_call_failed(case: Case) -> Verdict | None:
    calls = (call for call in case.failing_calls if case.failed(int(call["pid"])))
    call = next((call for call in calls if not recovered_later(case, call)), None)
    if call is None:
        return None
    inside = case.requests_inside(call)
    if inside["failed"].any():
        return _kernel_verdict(case, inside, call, deferred=False)
    recording = case.requests_of_recording(call)
    if recording["failed"].any():
        return _kernel_verdict(case, recording, call, deferred=True)
    return unless_blind(case, _user_space(case, call, inside, recording), case.blind_in_user_space)


def _user_space(case: Case, call: pd.Series, inside: pd.DataFrame, recording: pd.DataFrame) -> Verdict:
    """A Vulkan call failed and the kernel refused nothing that could explain it."""
    failing = failing_call(case, call, call["vulkan_id"])
    looked_at = pd.concat([inside, recording])
    looked_at = looked_at[~looked_at.index.duplicated()]
    ruled_out = (
        f"the kernel: {wording.counted(len(looked_at), 'request')} in the call and its command buffer, "
        "none refused",
    )
    lost = call["result_name"] == "VK_ERROR_DEVICE_LOST"
    unbound = unbound_buffers(case, looked_at)
    not_loaded = driver_not_loaded(case, call)
    if not_loaded is not None:
        return not_loaded
    if len(unbound) and not lost:
        return driver_va(case, failing, unbound.iloc[-1], ruled_out)
    if lost:
        cause, who, why = Cause.GPU_FAULT, "GPU", "the device was lost"
    else:
        cause, who = Cause.DRIVER_INTERNAL, "panvk" if case.used_panthor else "the Vulkan driver"
        why = "it gave up by itself"
    return Verdict(
        cause=cause,
        kernel_cap=KernelCap.NO,
        refused_by=who,
        headline=f"{who} refused, {why}: {wording.call(failing)}",
        confidence=Confidence.MEDIUM,
        failing_call=failing,
        evidence=(wording.call(failing),),
        ruled_out=ruled_out,
        losses=case.losses,
    )


def _program_gave_up(case: Case) -> Verdict | None:
    of_failed = case.memory_exceptions["pid"].map(lambda pid: case.failed(int(pid))).astype(bool)
    if not of_failed.any():
        return None
    thrown = case.memory_exceptions[of_failed].iloc[-1]
    return unless_blind(
        case,
        Verdict(
            cause=Cause.APPLICATION,
            kernel_cap=KernelCap.NO,
            refused_by="program",
            headline=f"the program gave up by itself: it threw {thrown['error']}, no Vulkan call had failed",
            confidence=Confidence.HIGH,
            evidence=(f"{thrown['error']} thrown by process {thrown['pid']}",),
            ruled_out=(
                f"Vulkan: {wording.counted(len(case.tables.vulkan), 'call')} recorded, none failed for good",
                f"the kernel: {wording.counted(len(case.tables.ioctls), 'request')} recorded",
            ),
            losses=case.losses,
        ),
    )


def _request_refused(case: Case) -> Verdict | None:
    """The kernel refused a request with no failing Vulkan call: a program that talks to panthor itself."""
    table = case.requests
    if not table["failed"].any():
        return None
    direct = set(table["pid"]) - set(case.tables.vulkan["pid"])
    open_ = for_good(case, table[table["failed"] & (table["pid"].isin(direct) | case.ended_badly)])
    return _kernel_verdict(case, open_, None, deferred=False) if len(open_) else None


def _nothing_failed(case: Case) -> Verdict:
    vulkan, ioctls = len(case.tables.vulkan), len(case.tables.ioctls)
    evidence = [
        f"{wording.counted(vulkan, 'Vulkan call')}, none failed",
        f"{wording.counted(len(case.tables.dispatches), 'dispatch', 'dispatches')} recorded",
        f"{wording.counted(ioctls, 'request')} to panthor, none refused"
        if ioctls
        else "no panthor device was used: what was seen ran on another Vulkan driver",
    ]
    if case.exit_code:
        evidence.append(f"{wording.ending(case.exit_code)}, for a reason outside the GPU's path")
    return unless_blind(
        case,
        Verdict(
            cause=Cause.CLEAN,
            kernel_cap=KernelCap.NO,
            refused_by="nobody",
            headline=(
                "the command failed, but nothing on the GPU's path did"
                if case.exit_code
                else "nothing failed"
            )
            + ("" if ioctls else "; no panthor device was used"),
            confidence=Confidence.HIGH,
            evidence=tuple(evidence),
            losses=case.losses,
        ),
        (*case.blind_to, *(case.blind_to_gpu if case.exit_code else ())),
    )


def _killed_for_memory(case: Case) -> Verdict | None:
    """The out-of-memory killer ended a process before anything else failed."""
    if not case.oom_killed:
        return None
    return Verdict(
        cause=Cause.KERNEL_MEMORY,
        kernel_cap=KernelCap.NO,
        refused_by="kernel",
        headline="the kernel ran out of memory and its out-of-memory killer ended the program",
        confidence=Confidence.MEDIUM if case.blind_to else Confidence.HIGH,
        evidence=tuple(wording.oom_kill(pid, case.oom_in_cgroup(pid)) for pid in case.oom_killed),
        ruled_out=("a cap: no request to panthor was refused for one",),
        missing=case.blind_to,
        losses=case.losses,
    )


#: In this order: what ended the program, what it was refused, what it got over, nothing.
RULES: tuple[Callable[[Case], Verdict | None], ...] = (
    gpu_failed,
    _vulkan_call_failed,
    _program_gave_up,
    _request_refused,
    _killed_for_memory,
    heap_growth_refused,
    descriptors_ran_out,
    went_on,
    ended_by_itself,
    never_used,
    _nothing_failed,
)
