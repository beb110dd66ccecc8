# SPDX-License-Identifier: MIT
"""The board's device tree: QEMU's own for ``-M virt`` plus the GPU the stub serves."""

from __future__ import annotations

import re
from pathlib import Path

from . import cache
from .archive import run_tool

#: QEMU machine; gic-version 3 since the stub raises its interrupts through the GIC's pending state.
MACHINE = "virt,gic-version=3"

#: The register file lies in RAM: no-map memory, 224 MiB in, so that it is there in a small guest as well and
#: clear of where QEMU puts kernel (2 MiB in), initramfs and device tree (128 MiB in).
REGISTERS_BASE = 0x4E00_0000
REGISTERS_SIZE = 0x0020_0000

#: Shared peripheral interrupts no device of ``-M virt`` uses, as the driver's job, mmu and gpu lines.
INTERRUPTS = (92, 93, 94)

# mali-supply and the OPP's voltage: 6.12's panthor_devfreq.c takes their absence as fatal.
# dma-noncoherent: newer QEMUs mark the root node dma-coherent, which this "device" is not to inherit.
_GPU = f"""
	reserved-memory {{
		#address-cells = <2>;
		#size-cells = <2>;
		ranges;
		gpu-registers@{REGISTERS_BASE:x} {{
			reg = <0x0 {REGISTERS_BASE:#x} 0x0 {REGISTERS_SIZE:#x}>;
			no-map;
		}};
	}};

	gpu_clock: gpu-clock {{
		compatible = "fixed-clock";
		#clock-cells = <0>;
		clock-frequency = <200000000>;
	}};

	gpu_supply: gpu-supply {{
		compatible = "regulator-fixed";
		regulator-name = "gpu";
		regulator-min-microvolt = <800000>;
		regulator-max-microvolt = <800000>;
		regulator-always-on;
	}};

	gpu_opps: gpu-opps {{
		compatible = "operating-points-v2";
		opp-200000000 {{
			opp-hz = /bits/ 64 <200000000>;
			opp-microvolt = <800000 800000 800000>;
		}};
	}};

	gpu@{REGISTERS_BASE:x} {{
		compatible = "rockchip,rk3588-mali", "arm,mali-valhall-csf";
		reg = <0x0 {REGISTERS_BASE:#x} 0x0 {REGISTERS_SIZE:#x}>;
		clocks = <&gpu_clock>;
		clock-names = "core";
		interrupts = <0 {INTERRUPTS[0]} 4>, <0 {INTERRUPTS[1]} 4>, <0 {INTERRUPTS[2]} 4>;
		interrupt-names = "job", "mmu", "gpu";
		operating-points-v2 = <&gpu_opps>;
		mali-supply = <&gpu_supply>;
		dma-noncoherent;
	}};
"""


def devicetree(cpus: int, cpu: str, say: cache.Say) -> Path:
    """The compiled tree for ``cpus`` processors of model ``cpu``; QEMU fills in the memory size itself."""
    inputs = {
        "qemu": run_tool(["qemu-system-aarch64", "--version"], doing="asking QEMU's version").splitlines()[0],
        "cpus": cpus,
        "cpu": cpu,
        "gpu": _GPU,
        "machine": MACHINE,
    }
    built = cache.entry(f"devicetree-{cpus}cpu", inputs, lambda out: _build(out, cpus, cpu), say)
    return built.path / "board.dtb"


def _build(out: Path, cpus: int, cpu: str) -> None:
    # -nic none: the default NIC wants an option ROM file that a minimal QEMU installation lacks.
    machine = f"{MACHINE},dumpdtb={out}/qemu.dtb"
    run_tool(
        [
            "qemu-system-aarch64",
            "-M",
            machine,
            "-cpu",
            cpu,
            "-smp",
            str(cpus),
            "-nic",
            "none",
            "-display",
            "none",
        ],
        doing="getting QEMU's device tree",
    )
    run_tool(
        ["dtc", "-q", "-I", "dtb", "-O", "dts", "-o", out / "qemu.dts", out / "qemu.dtb"], doing="reading it"
    )
    source = (out / "qemu.dts").read_text()
    # A dumped tree freezes the seeds of one run: without them the kernel takes fresh ones of its own.
    source = re.sub(r"^\s*(kaslr|rng)-seed = .*;\n", "", source, flags=re.MULTILINE)
    end = source.rindex("};")
    (out / "board.dts").write_text(source[:end] + _GPU + source[end:])
    run_tool(
        ["dtc", "-q", "-I", "dts", "-O", "dtb", "-o", out / "board.dtb", out / "board.dts"],
        doing="compiling the board's device tree",
    )
