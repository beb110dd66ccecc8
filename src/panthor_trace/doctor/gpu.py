# SPDX-License-Identifier: MIT
"""Checks of the GPU's driver: which is bound, its uAPI, who may open it, and what of it can be probed."""

from __future__ import annotations

import grp
import os
from collections.abc import Iterator
from pathlib import Path

from ..capture import driver
from ..capture.btf import Btf, BtfError
from ..capture.driver_layer import driver_types, why_not_live
from ..capture.identity import acting_as
from ..capture.nodes import driver_version
from ..uapi import ioctls
from .check import Finding, State
from .machine import Machine

_PLATFORM = Path("/sys/bus/platform/devices")
#: In the device tree's "compatible" of every Mali: mainline's "rockchip,rk3588-mali", "arm,mali-valhall-csf",
#: vendors' "arm,mali-bifrost", "arm,mali-midgard".
_MALI = b"mali"
_MODULES = Path("/lib/modules")
#: panthor asks for arm/mali/arch10.8/mali_csffw.bin, and so on (panthor_fw.c); it may be compressed.
_FIRMWARE = "arm/mali/arch*/mali_csffw.bin*"
_FIRMWARE_DIRECTORIES = ("lib/firmware/updates", "lib/firmware", "usr/lib/firmware")

_NO_DRIVER = Finding(State.UNKNOWN, "not without the driver")


def _gpus() -> Iterator[tuple[str, str | None]]:
    """Mali GPUs of the device tree: name, and the driver bound."""
    for device in sorted(_PLATFORM.glob("*")):
        try:
            if _MALI not in (device / "of_node" / "compatible").read_bytes():
                continue
        except OSError:
            continue
        link = device / "driver"
        yield device.name, link.readlink().name if link.is_symlink() else None


def _has_module(kernel: str) -> bool:
    """Whether the kernel has a panthor to load."""
    for index in ("modules.dep", "modules.builtin"):
        try:
            if "/panthor.ko" in (_MODULES / kernel / index).read_text():
                return True
        except OSError:
            continue
    return False


def _has_firmware() -> bool:
    return any(
        next(iter((Path("/") / place).glob(_FIRMWARE)), None) is not None for place in _FIRMWARE_DIRECTORIES
    )


def driver_bound(machine: Machine) -> Finding:
    """panthor, or what is in its place."""
    if machine.nodes:
        names = sorted({node.driver for node in machine.nodes})
        facts = {"nodes": [node.as_json() for node in machine.nodes]}
        found = f"{', '.join(names)}: {', '.join(node.name for node in machine.nodes)}"
        if "panthor" not in names:
            # It has the same ioctls, and none of the functions.
            return Finding(
                State.DEGRADED, found, "kernel-panthor", facts, "where inside the driver it was refused"
            )
        return Finding(State.OK, found, facts=facts)
    gpus = list(_gpus())
    if not gpus:
        return Finding(State.MISSING, "no Mali GPU in this machine's device tree", "kernel-panthor")
    name, bound = gpus[0]
    facts = {"gpus": [{"device": device, "driver": other} for device, other in gpus]}
    if bound:
        return Finding(State.MISSING, f"{name} has the driver {bound}", "kernel-panthor", facts)
    if not _has_module(machine.kernel):
        return Finding(State.MISSING, f"{name} has none; this kernel has no panthor", "kernel-panthor", facts)
    if not _has_firmware():
        return Finding(State.MISSING, f"{name} has none; its firmware is not installed", "firmware", facts)
    return Finding(State.MISSING, f"{name} has none", "load-panthor", facts)


def _render_node(machine: Machine) -> Path | None:
    names = [node.name for node in machine.nodes if node.name.startswith("renderD")]
    return Path("/dev/dri") / names[0] if names else None


def uapi(machine: Machine) -> Finding:
    """The driver's own number, which grows with every addition to its ioctls."""
    node = _render_node(machine)
    if node is None:
        return _NO_DRIVER
    try:
        descriptor = os.open(node, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        return Finding(State.UNKNOWN, f"{node}: {error.strerror}")
    try:
        version = driver_version(descriptor)
    except OSError as error:
        return Finding(State.UNKNOWN, f"{node}: {error.strerror}")
    finally:
        os.close(descriptor)
    later = [ioctl.name for ioctl in ioctls.PANTHOR if tuple(map(int, ioctl.since.split("."))) > version]
    found = ".".join(map(str, version))
    # A label is what tells buffers apart for certain; where user space sets none, it is no loss.
    note = "; no labels of buffers before 1.4" if "BO_SET_LABEL" in later else ""
    return Finding(State.OK, found + note, facts={"version": found, "later_ioctls": later})


def permission(machine: Machine) -> Finding:
    """Whether who runs the commands may open the render node."""
    node = _render_node(machine)
    if node is None:
        return _NO_DRIVER
    who = (
        (machine.user.name or str(machine.user.uid)) if machine.user else ("root" if machine.root else "you")
    )
    try:
        with acting_as(machine.user):
            os.close(os.open(node, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        return Finding(State.MISSING, f"{node} does not exist", "host")
    except OSError as error:
        group = _group(node)
        facts = {"node": str(node), "user": who, "group": group}
        remedy = "render-group" if node.stat().st_mode & 0o060 == 0o060 else "render-mode"
        return Finding(State.MISSING, f"{node}: {who}: {error.strerror}", remedy, facts)
    return Finding(State.OK, f"{node}: {who} may open it", facts={"node": str(node), "user": who})


def _group(node: Path) -> str:
    number = node.stat().st_gid
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def functions(machine: Machine) -> Finding:
    """The functions of the driver that can be probed here, and what of their values can be read."""
    if not machine.nodes:
        return _NO_DRIVER
    facts = {}
    if not any(symbol.module == "panthor" for symbol in machine.symbols):
        built_in = any(symbol.name.startswith("panthor_") for symbol in machine.symbols)
        if not built_in:
            return Finding(State.DEGRADED, why_not_live(machine.symbols), "kernel-panthor")
        return Finding(State.DEGRADED, "panthor is built into the kernel, not a module", "panthor-module")
    if machine.root and why_not_live(machine.symbols):
        return Finding(State.DEGRADED, why_not_live(machine.symbols), "kptr-restrict")
    probes, missing = driver.choose(machine.symbols, *driver_types())
    facts = {
        "present": [probe.symbol.name for probe in probes],
        "absent": missing,
        "unknown_values": {probe.symbol.name: list(probe.unknown) for probe in probes if probe.unknown},
    }
    restricted = "" if machine.root else Path("/proc/sys/kernel/kptr_restrict").read_text().strip()
    if restricted == "2":
        return Finding(State.DEGRADED, "kernel.kptr_restrict is 2", "kptr-restrict", facts)
    # No kernel has all of the table: BOs of 6.12 are made by other functions than those of 7.3.
    return Finding(State.OK, f"{len(probes)} of the driver's functions can be probed", facts=facts)


def types(machine: Machine) -> Finding:
    """The module's own type information."""
    if not machine.nodes:
        return _NO_DRIVER
    try:
        module = Btf.of_module("panthor", Btf.of_kernel())
    except BtfError as error:
        return Finding(State.DEGRADED, str(error), "kernel-btf-modules")
    return Finding(State.OK, f"BTF, {len(module.types) + len(module.strings) >> 10} KiB")
