# SPDX-License-Identifier: MIT
"""Real llama-bench on llvmpipe, traced: the user-space layer complete, and no panthor device used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from board import roots
from board.native import native_command
from panthor_trace.analysis import Analysis, analyse
from panthor_trace.capture.nodes import panthor_nodes
from panthor_trace.verdict import Cause, KernelCap

from .tracing import trace

pytestmark = [
    pytest.mark.native,
    pytest.mark.skipif(os.geteuid() != 0, reason="loading BPF programs needs root"),
    pytest.mark.skipif(bool(panthor_nodes()), reason="this machine has a panthor device"),
]

BENCH = ("llama-bench", "-m", "/models/minimal.gguf", "-p", "64", "-n", "0", "-ub", "64", "-r", "1")


def _say(line: str) -> None:
    print(line)


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    directory: Path = tmp_path_factory.mktemp("native") / "trace"
    root = roots.native_root(_say).path / "root"
    done = trace(directory, "--root", root, "--", *native_command(BENCH, say=_say))
    assert done.returncode == 0, done.stderr
    assert "pp64" in done.stdout
    assert "no panthor device was used" in done.stderr
    return analyse(directory)


def test_verdict_is_clean_and_says_that_panthor_was_not_used(traced: Analysis) -> None:
    verdict = traced.verdict
    assert (verdict.cause, verdict.kernel_cap, verdict.losses) == (Cause.CLEAN, KernelCap.NO, ())
    assert "no panthor device" in verdict.headline


def test_recording_calls_are_complete(traced: Analysis) -> None:
    """Vulkan's own rules check the count: what is begun is ended, and dispatches lie between."""
    vulkan, dispatches = traced.tables.vulkan, traced.tables.dispatches
    calls = vulkan["function"].value_counts()
    assert calls["vkBeginCommandBuffer"] == calls["vkEndCommandBuffer"] > 0
    assert calls["vkQueueSubmit"] > 0
    assert calls["vkCreateDevice"] == 1
    assert len(dispatches) == calls["vkCmdDispatch"] > 23
    spans = traced.tables.recordings.set_index("recording_id")
    begin = spans["begin_ns"].reindex(dispatches["recording_id"]).to_numpy()
    end = spans["end_ns"].reindex(dispatches["recording_id"]).to_numpy()
    assert (begin < dispatches["enter_ns"].to_numpy()).all()
    assert (dispatches["exit_ns"].to_numpy() < end).all()
    assert spans.loc[dispatches["recording_id"], "end_result"].eq(0).all()


def test_arguments_are_what_a_program_can_have_passed(traced: Analysis) -> None:
    vulkan, dispatches = traced.tables.vulkan, traced.tables.dispatches
    allocations = vulkan[vulkan["function"] == "vkAllocateMemory"]
    assert allocations["allocation_size"].between(1, 1 << 30).all()
    buffers = vulkan[vulkan["function"] == "vkCreateBuffer"]
    assert buffers["buffer_size"].between(1, 1 << 30).all()
    # maxComputeWorkGroupCount of llvmpipe
    assert dispatches[["groups_x", "groups_y", "groups_z"]].stack().between(1, 65535).all()
    assert vulkan.loc[vulkan["function"] == "vkCmdDispatch", "result"].isna().all()
    assert vulkan.loc[vulkan["function"] == "vkEndCommandBuffer", "result_name"].eq("VK_SUCCESS").all()


def test_calls_take_time_and_end(traced: Analysis) -> None:
    vulkan = traced.tables.vulkan
    assert vulkan["finished"].all()
    assert (vulkan["exit_ns"] > vulkan["enter_ns"]).all()


def test_ggml_throws_what_it_catches_itself(tmp_path: Path) -> None:
    """A model that is not there: an exception, an exit status, and still nothing wrong with the GPU."""
    root = roots.native_root(_say).path / "root"
    command = native_command(["llama-bench", "-m", "/models/none.gguf"], say=_say)
    done = trace(tmp_path / "trace", "--root", root, "--no-csv", "--", *command)
    assert done.returncode == 1
    analysis = analyse(tmp_path / "trace")
    assert analysis.verdict.cause is Cause.CLEAN
    assert any("exit status is 1" in fact for fact in analysis.verdict.evidence)
    assert "std::runtime_error" in set(analysis.tables.failures["error"])


def test_ggmls_own_limit_is_the_programs(tmp_path: Path) -> None:
    """ggml throws vk::OutOfDeviceMemoryError by itself where a buffer exceeds its limit: no call fails."""
    root = roots.native_root(_say).path / "root"
    command = native_command(["env", "GGML_VK_FORCE_MAX_BUFFER_SIZE=100000", *BENCH], say=_say)
    done = trace(tmp_path / "trace", "--root", root, "--no-csv", "--", *command)
    assert done.returncode == 1
    assert "exceeds device buffer size limit" in done.stderr
    verdict = analyse(tmp_path / "trace").verdict
    assert (verdict.cause, verdict.kernel_cap) == (Cause.APPLICATION, KernelCap.NO)
    assert verdict.refused_by == "program"
    assert any("vk::OutOfDeviceMemoryError" in fact for fact in verdict.evidence)
