# SPDX-License-Identifier: MIT
"""Real programs on the emulated board: panvk names the GPU, llama-bench finishes on it, in seconds."""

from __future__ import annotations

import re

import pytest

from board import gpus

from .conftest import BoardRun

#: Virtual seconds; a run whose shaders are not in the cache takes over a hundred.
WARM_SECONDS = 20


@pytest.mark.smoke
def test_panvk_names_the_gpu(board: BoardRun, kernel: str) -> None:
    done = board("vulkaninfo --summary", kernel=kernel)
    assert done.returncode == 0, done.stderr
    assert re.search(r"deviceName\s+= Mali-G610 MC4", done.stdout)
    assert re.search(r"driverName\s+= panvk", done.stdout)


@pytest.mark.parametrize("gpu", [name for name in gpus.GPUS if name != gpus.DEFAULT])
def test_other_gpus_are_what_they_say(board: BoardRun, gpu: str) -> None:
    done = board("vulkaninfo --summary", gpu=gpu)
    assert done.returncode == 0, done.stderr
    assert re.search(r"deviceName\s+= Mali-(?!G610)", done.stdout)
    assert re.search(r"driverName\s+= panvk", done.stdout)


@pytest.mark.smoke
def test_llama_bench_finishes_on_panvk_with_warm_shaders(board: BoardRun, kernel: str) -> None:
    script = """
        for model in minimal wide; do
            for ub in 64 128; do
                start=$(cut -d. -f1 /proc/uptime)
                llama-bench -m /models/$model.gguf -p $ub -ub $ub -n 0 -r 1 -o csv || exit
                echo "took $model $ub $(($(cut -d. -f1 /proc/uptime) - start))"
            done
        done
    """
    done = board(script, kernel=kernel, user=True)
    assert done.returncode == 0, done.stderr
    took = re.findall(r"^took (\w+) (\d+) (\d+)$", done.stdout, re.MULTILINE)
    print(f"\n{kernel}: " + ", ".join(f"{model} ub {ub}: {seconds} s" for model, ub, seconds in took))
    assert len(took) == 4
    # The table says "Vulkan" even where there is no device: the device's name is what counts.
    assert done.stdout.count("Mali-G610 MC4") == 4
    assert all(int(seconds) < WARM_SECONDS for _, _, seconds in took)
