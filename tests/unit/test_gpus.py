# SPDX-License-Identifier: MIT
"""The GPU table against the kernel module it is handed to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from board import gpus
from board.errors import LabError

POWER_C = (Path(gpus.__file__).parent / "stub_gpu" / "power.c").read_text()
PARAMETERS = dict(re.findall(r"^MODEL_U\d+\((\w+), (\w+),", POWER_C, re.MULTILINE))


@pytest.mark.parametrize("name", gpus.GPUS)
def test_registers_are_parameters_of_the_module(name: str) -> None:
    """insmod only warns of a parameter it does not know; the guest would run with another GPU."""
    unknown = set(gpus.GPUS[name].registers) - set(PARAMETERS)
    assert not unknown


def test_the_default_is_the_modules_default() -> None:
    assert gpus.module_arguments(gpus.gpu_named(gpus.DEFAULT)) == []
    assert PARAMETERS["gpu_id"] == "0xa8670005"
    assert PARAMETERS["shader_present"] == "0x50005"


def test_arguments_are_what_insmod_takes() -> None:
    arguments = gpus.module_arguments(gpus.gpu_named("g310"))
    assert "gpu_id=0xac740001" in arguments
    assert all(re.fullmatch(r"\w+=0x[0-9a-f]+", argument) for argument in arguments)


def test_an_unknown_gpu_is_answered_with_the_names() -> None:
    with pytest.raises(LabError, match=r"no GPU 'g77'.*g610-mc4, g310") as caught:
        gpus.gpu_named("g77")
    assert caught.value.exit_code == 2
