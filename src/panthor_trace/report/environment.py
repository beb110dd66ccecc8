# SPDX-License-Identifier: MIT
"""What a bug report says of the machine and its software, as far as the trace has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..analysis import Analysis
from ..model import Tables
from ..uapi.ioctls import PANTHOR
from ..verdict import wording
from .content import Grid

#: Files whose build is of interest, by the beginning of their names.
_LIBRARIES = (
    *("libvulkan", "libmali", "libdrm", "libggml-vulkan", "libggml-base", "libggml.so", "libllama.so"),
    *("libstdc++", "libc.so"),
)
#: The Vulkan drivers of Mesa for this GPU; its loader is libvulkan.so.1.
_PANVK = ("libvulkan_panfrost", "libvulkan_panvk")
#: The kernel's function of an ioctl, by which its driver shows that it has it.
_IOCTL_FUNCTION = "panthor_ioctl_"


def environment(analysis: Analysis) -> Iterator[tuple[str, str]]:
    """What is known, by name."""
    meta = analysis.trace.meta
    machine = meta.get("machine") or {}
    version = (meta.get("tool"), meta.get("version"))
    if all(version):
        yield "tracer", f"{version[0]} {version[1]}, trace schema {meta.get('schema_version')}"
    if "kernel" in machine:
        yield "kernel", f"{machine['kernel']} {machine.get('kernel_version', '')}".rstrip()
    described = [str(machine[name]) for name in ("architecture",) if machine.get(name)]
    if machine.get("cpus"):
        described.append(wording.counted(machine["cpus"], "CPU"))
    if machine.get("memory_bytes"):
        described.append(f"{wording.size(machine['memory_bytes'])} of memory")
    if machine.get("page_size"):
        described.append(f"pages of {wording.size(machine['page_size'])}")
    if described:
        yield "machine", ", ".join(described)
    nodes = [f"{node.get('name')} ({node.get('driver')})" for node in meta.get("nodes") or ()]
    yield "DRM nodes", ", ".join(nodes) or "none of panthor"
    if uapi := uapi_version((meta.get("layers") or {}).get("driver") or {}):
        yield "panthor uAPI", uapi
    masks = analysis.tables.groups["compute_core_mask"].dropna()
    if len(masks):
        cores = bin(int(masks.max())).count("1")
        yield "GPU", f"{wording.counted(cores, 'shader core')} in the mask user space gave its groups"
    lost = [f"{count} {kind.replace('_', ' ')}" for kind, count in analysis.verdict.losses]
    yield "lost records", ", ".join(lost) or "none"


def uapi_version(driver: dict[str, Any]) -> str:
    """What the functions of the driver tell of its uAPI; empty where they were not looked for."""
    if not driver.get("live"):
        return ""

    def versions(functions: list[str]) -> list[tuple[int, ...]]:
        names = {str(name).partition(".")[0] for name in functions}
        return [
            tuple(map(int, ioctl.since.split(".")))
            for ioctl in PANTHOR
            if f"{_IOCTL_FUNCTION}{ioctl.name.lower()}" in names
        ]

    there, missing = versions(driver.get("probes", [])), versions(driver.get("missing", []))
    if not there:
        return ""
    least = max(there)
    above = min((version for version in missing if version > least), default=None)
    text = f"{'.'.join(map(str, least))} or later"
    if above is not None:
        text += f", before {'.'.join(map(str, above))}"
    return f"{text} (by the ioctls the driver has)"


def files(tables: Tables, clean: Callable[[str], str]) -> Grid:
    """The programs, and the libraries that matter, with the build ids that name their builds."""
    modules = tables.modules
    programs = set(tables.processes["path"].dropna())
    named = modules[modules["path"].notna()]
    names = named["path"].str.rsplit("/", n=1).str[-1]
    wanted = named[named["path"].isin(programs) | names.str.startswith(_LIBRARIES)]
    rows = wanted.drop_duplicates(["path", "build_id"])[["path", "build_id"]]
    cells = tuple((clean(str(path)), str(build_id or "unknown")) for path, build_id in rows.to_numpy())
    return Grid("", (("file", False), ("build id", False)), tuple(dict.fromkeys(cells)))


def unknown(tables: Tables) -> tuple[str, ...]:
    """What a bug report wants and no trace has."""
    names = tables.modules["path"].dropna().astype(str).str.rsplit("/", n=1).str[-1]
    asked = []
    if names.str.startswith(_PANVK).any():
        asked.append("GPU, Mesa's version and its device limits: vulkaninfo --summary")
    if names.str.startswith("libggml").any():
        asked.append("llama.cpp's version: llama-cli --version")
    if asked:
        asked.append("distribution: PRETTY_NAME of /etc/os-release")
    return tuple(asked)
