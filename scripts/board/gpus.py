# SPDX-License-Identifier: MIT
"""The GPUs the stub can be: identification registers as data, default Mali-G610 MC4 as on RK3588."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .errors import LabError


@dataclass(frozen=True)
class Gpu:
    """One GPU: what a person calls it, ``arm/mali/<firmware>`` it loads, and the registers that differ."""

    description: str
    firmware: str
    registers: Mapping[str, int] = field(default_factory=dict)


DEFAULT = "g610-mc4"

GPUS: Mapping[str, Gpu] = {
    DEFAULT: Gpu("Mali-G610 MC4 (RK3588; core mask 0x50005)", "arch10.8"),
}


def gpu_named(name: str) -> Gpu:
    """The table's row; :class:`LabError` listing the names otherwise."""
    if name not in GPUS:
        raise LabError(f"no GPU {name!r} in the lab: it has {', '.join(GPUS)}", exit_code=2)
    return GPUS[name]


def module_arguments(gpu: Gpu) -> list[str]:
    """The stub module's parameters for this GPU."""
    return [f"{register}={value:#x}" for register, value in gpu.registers.items()]


def firmware_dirs() -> list[str]:
    """Every directory below ``arm/mali`` some GPU's firmware is looked for in."""
    return sorted({gpu.firmware for gpu in GPUS.values()})
