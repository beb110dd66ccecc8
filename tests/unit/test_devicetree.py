# SPDX-License-Identifier: MIT
"""The board's device tree, as the kernel will read it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from board.devicetree import REGISTERS_BASE, devicetree


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PANTHOR_LAB_CACHE", str(tmp_path_factory.mktemp("cache")))
        tree: Path = devicetree(2, "cortex-a76", lambda _line: None)
        return subprocess.run(
            ["dtc", "-q", "-I", "dtb", "-O", "dts", tree], capture_output=True, text=True, check=True
        ).stdout


def test_the_gpu_is_there_with_what_panthor_asks_for(source: str) -> None:
    gpu = source[source.index(f"gpu@{REGISTERS_BASE:x}") :]
    gpu = gpu[: gpu.index("};")]
    for wanted in ("arm,mali-valhall-csf", "interrupt-names", "mali-supply", "operating-points-v2"):
        assert wanted in gpu
    assert f"gpu-registers@{REGISTERS_BASE:x}" in source


def test_no_seed_is_frozen_into_it(source: str) -> None:
    assert "seed" not in source


def test_it_has_as_many_processors_as_asked_for(source: str) -> None:
    assert source.count("cpu@") == 2
