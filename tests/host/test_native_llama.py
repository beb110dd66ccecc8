# SPDX-License-Identifier: MIT
"""llama-bench and Vulkan of the native root, on llvmpipe, as real processes on this machine's kernel."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from board.errors import LabError
from board.models import MODELS, ModelSpec, tensor_shapes
from board.native import native_command, native_library, native_run

pytestmark = [
    pytest.mark.native,
    pytest.mark.skipif(os.geteuid() != 0, reason="the native root is built as root"),
]

BENCH = ("llama-bench", "-p", "64", "-n", "0", "-r", "1", "-ngl", "99")


def test_llama_bench_computes_on_llvmpipe() -> None:
    done = native_run([*BENCH, "-m", "/models/minimal.gguf", "-o", "json"], timeout=120)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert row["backends"] == "Vulkan"
    assert row["n_prompt"] == 64
    # The table says "Vulkan" also when no device was found: only these name the device that computed.
    assert "llvmpipe" in row["gpu_info"]
    assert "ggml_vulkan: Found 1 Vulkan devices" in done.stderr


def test_without_a_device_the_table_still_says_vulkan() -> None:
    """Why the test above reads gpu_info. Should this one fail, ggml tells the two apart now: simplify."""
    no_devices = {"GGML_VK_VISIBLE_DEVICES": ""}
    done = native_run([*BENCH, "-m", "/models/minimal.gguf", "-o", "json"], env=no_devices, timeout=120)
    assert "Found 0 Vulkan devices" in done.stderr
    (row,) = json.loads(done.stdout)
    assert (row["backends"], row["gpu_info"]) == ("Vulkan", "")


@pytest.mark.parametrize("spec", MODELS, ids=lambda spec: spec.name)
def test_llama_bench_accepts_every_model(spec: ModelSpec) -> None:
    """On the processor, one token: whether llama.cpp takes the file, in no time."""
    command = ["llama-bench", "-p", "1", "-n", "0", "-r", "1", "-dev", "none", "-o", "json"]
    done = native_run([*command, "-m", f"/models/{spec.name}.gguf"], timeout=60)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    parameters = sum(math.prod(shape) for _, shape in tensor_shapes(spec))
    assert row["model_n_params"] == parameters
    assert row["model_type"].startswith(spec.arch)


def test_warm_run_is_fast() -> None:
    command = [*BENCH, "-m", "/models/minimal.gguf"]
    native_run(command, timeout=120)  # compiles the shaders where nobody has
    start = time.monotonic()
    assert native_run(command, timeout=60).returncode == 0
    # 0.5 s measured; a cold shader cache takes 12 s.
    assert time.monotonic() - start < 6


def test_status_and_streams_are_the_commands() -> None:
    done = native_run(["sh", "-c", "echo out; echo err >&2; exit 42"])
    assert (done.returncode, done.stdout, done.stderr) == (42, "out\n", "err\n")
    assert native_run(["no-such-command"]).returncode == 127


def test_environment_is_ours_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAK", "1")
    lines = native_run(["env"], env={"ADDED": "2"}).stdout.splitlines()
    assert "ADDED=2" in lines
    assert not [line for line in lines if line.startswith("LEAK")]


def test_share_is_writable_and_the_root_is_not(tmp_path: Path) -> None:
    done = native_run(["sh", "-c", "echo hello >/share/file; echo no >/usr/file"], share=tmp_path)
    assert (tmp_path / "file").read_text() == "hello\n"
    assert done.returncode != 0
    assert "Read-only file system" in done.stderr
    assert native_run(["touch", "/src/README.md"]).returncode != 0
    assert native_run(["test", "-r", "/src/pyproject.toml"]).returncode == 0


def test_command_is_the_started_process_itself_and_leaves_no_mounts_when_killed() -> None:
    before = Path("/proc/self/mountinfo").read_text()
    child = subprocess.Popen(native_command(["sleep", "60"], say=print))
    try:
        executable = Path(f"/proc/{child.pid}/exe")
        deadline = time.monotonic() + 10
        while executable.readlink().name not in {"sleep", "coreutils"}:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert Path("/proc/self/mountinfo").read_text() == before
    finally:
        child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert Path("/proc/self/mountinfo").read_text() == before


@pytest.mark.parametrize("soname", ["libvulkan.so.1", "libstdc++.so.6"])
def test_library_is_the_inode_the_command_maps(soname: str) -> None:
    library = native_library(soname, print)
    assert not library.is_symlink()
    inside = native_run(["stat", "-L", "-c", "%d:%i", f"/usr/lib/x86_64-linux-gnu/{soname}"]).stdout.strip()
    assert inside == f"{library.stat().st_dev}:{library.stat().st_ino}"
    with pytest.raises(LabError, match=r"no libnothing"):
        native_library("libnothing.so", print)
