# SPDX-License-Identifier: MIT
"""The GPUs the stub can be: identification registers as data, default Mali-G610 MC4 as on RK3588.

Values are what panthor printed on the board named (``GPU_ID`` is the printed id, version and status put
together again; see ``panthor_hw_info_init`` in ``panthor_hw.c``). Registers not given are the stub's
defaults, the RK3588's. A GPU needs a row in Mesa's ``pan_model.c`` to be of use to panvk; where models share
an id, the low byte of ``core_features`` chooses (``gpu_variant``; panvk's "G310v2" is variant 1), and in the
kernel's naming the ray tracing bits of ``gpu_features``. Adding a GPU is one row of :data:`GPUS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .errors import LabError


@dataclass(frozen=True)
class Gpu:
    """One GPU: what a person calls it, ``arm/mali/<firmware>`` it loads, and the registers that differ.

    ``registers`` are the stub module's parameters: panthor's register names without ``GPU_``, in lower case.
    """

    description: str
    firmware: str
    registers: Mapping[str, int] = field(default_factory=dict)


DEFAULT = "g610-mc4"

#: GPU_FEATURES_RAY_INTERSECTION and _TRAVERSAL: an Immortalis.
RAY_TRACING = 1 << 2 | 1 << 5

GPUS: Mapping[str, Gpu] = {
    DEFAULT: Gpu("Mali-G610 MC4 (RK3588; core mask 0x50005)", "arch10.8"),
    "g310": Gpu(
        "Mali-G310 v2 (i.MX 95; one core)",
        "arch10.12",
        {
            "gpu_id": 0xAC74_0001,
            "l2_features": 0x0711_0306,
            "mem_features": 0x1,
            "core_features": 1,
            "shader_present": 0x1,
        },
    ),
    "g720-mc10": Gpu(
        "Mali-G720-Immortalis MC10 (CIX Sky1)",
        "arch12.8",
        {
            "gpu_id": 0xC870_0000,
            "core_features": 4,
            "shader_present": 0x55_0555,
            "gpu_features": RAY_TRACING,
        },
    ),
    "g925-mc12": Gpu(
        "Mali-G925-Immortalis MC12 (MT8196)",
        "arch13.8",
        {
            "gpu_id": 0xD830_0015,
            "l2_features": 0x0813_0306,
            "core_features": 4,
            "shader_present": 0xEE_0077,
            "gpu_features": RAY_TRACING,
        },
    ),
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
