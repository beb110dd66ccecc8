# SPDX-License-Identifier: MIT
"""The report on a terminal."""

from __future__ import annotations

import pytest

from panthor_trace.model import build
from panthor_trace.report.terminal import lines, show
from panthor_trace.trace.schema import Counter
from panthor_trace.verdict import judge
from panthor_trace.verdict.wording import size

from .synthetic import ENOMEM, OUT_OF_DEVICE_MEMORY, SyntheticTrace


def refused() -> list[str]:
    run = SyntheticTrace()
    run.call("vkBeginCommandBuffer", 0xCB0)
    with run.vulkan("vkCmdDispatch", 0xCB0, 64, 2, 1):
        run.bo_create(152 << 20, error=ENOMEM)
    run.call("vkEndCommandBuffer", 0xCB0, result=OUT_OF_DEVICE_MEMORY)
    run.lose(Counter.LOST_ARRAY, 2)
    trace = run.finish(134)
    return list(lines(judge(build(trace), trace.meta, trace.end), trace.meta))


def test_answer_evidence_and_losses_in_that_order() -> None:
    report = refused()
    assert report[0] == (
        "kernel cap: NO. the kernel refused, it ran out of memory, not into a cap: "
        "BO_CREATE of 152 MiB → ENOMEM inside vkCmdDispatch"
    )
    text = "\n".join(report)
    assert text.index("failing call: vkEndCommandBuffer") < text.index("evidence:") < text.index("losses:")
    assert "dispatch 1 of the process (64x2x1 workgroups)" in text
    assert report[-1] == "losses: 2 lost array"


def test_layer_that_was_not_live_is_named() -> None:
    run = SyntheticTrace()
    run.layers["ioctl"] = {"live": False, "why": "no BTF"}
    trace = run.finish(0)
    report = list(lines(judge(build(trace), trace.meta, trace.end), trace.meta))
    assert report[-1] == "layers not live: ioctl (no BTF)"


def test_report_is_plain_where_it_does_not_go_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    trace = SyntheticTrace().finish(0)
    show(judge(build(trace), trace.meta, trace.end), trace.meta)
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert printed.startswith("kernel cap: INCONCLUSIVE")


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (152 << 20, "152 MiB"), (1 << 62, "4194304 TiB")],
)
def test_sizes_are_in_binary_units(count: int, text: str) -> None:
    assert size(count) == text
