# SPDX-License-Identifier: MIT
"""Answers that fall where something may have gone unseen."""

from __future__ import annotations

from .case import Case
from .verdict import Cause, Confidence, KernelCap, Verdict


def unless_blind(case: Case, verdict: Verdict, blind_to: tuple[str, ...] | None = None) -> Verdict:
    """``verdict``, which rests on something *not* having happened, or none where that could have gone unseen.

    ``blind_to`` are the reasons why it could (default: those of the case).
    """
    reasons = case.blind_to if blind_to is None else blind_to
    if not reasons:
        return verdict
    return Verdict(
        cause=Cause.INCONCLUSIVE,
        kernel_cap=KernelCap.INCONCLUSIVE,
        refused_by="unknown",
        headline=f"inconclusive: what was recorded says '{verdict.cause.value}', but not all was recorded",
        confidence=Confidence.LOW,
        failing_call=verdict.failing_call,
        refusal=verdict.refusal,
        buffer=verdict.buffer,
        evidence=verdict.evidence,
        ruled_out=verdict.ruled_out,
        missing=tuple(dict.fromkeys((*reasons, *verdict.missing))),
        losses=case.losses,
    )
