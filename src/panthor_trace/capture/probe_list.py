# SPDX-License-Identifier: MIT
"""Every probe a recording would put on this machine, and those it could not, without putting any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..uapi import vulkan
from . import driver
from .driver_layer import DRM_IOCTL, driver_types, kernel_symbols
from .kallsyms import Kallsyms
from .libraries import PROBED, find_library
from .tracefs import (
    IOCTL_EVENTS,
    MAPPING_EVENTS,
    MESSAGE_EVENT,
    OOM_EVENT,
    PROCESS_EVENTS,
    WAIT_EVENTS,
    has_event,
    has_probes,
    tracefs_is_there,
)

_FUNCTIONS = {
    "vulkan": tuple(function.name for function in vulkan.FUNCTIONS),
    "exception": ("__cxa_throw",),
}


@dataclass(frozen=True)
class Listed:
    """One probe, as bpftrace would name it; ``present`` is None where that takes root to see."""

    layer: str
    probe: str
    present: bool | None

    def as_json(self) -> dict[str, Any]:
        """For ``probes --json``."""
        return {"layer": self.layer, "probe": self.probe, "present": self.present}


def probe_list(environment: Mapping[str, str]) -> Iterator[Listed]:
    """In the order of the layers; libraries are those a command with this environment would load."""
    symbols = kernel_symbols(Kallsyms.of_kernel()) if has_probes("kprobe") else []
    uprobes = has_probes("uprobe")
    visible = tracefs_is_there()

    def events(layer: str, *names: str) -> Iterator[Listed]:
        for name in names:
            yield Listed(layer, f"tracepoint:{name}", has_event(name) if visible else None)

    yield from events("process", *PROCESS_EVENTS, OOM_EVENT, *WAIT_EVENTS)
    if any(symbol.name == DRM_IOCTL for symbol in symbols):
        yield from (Listed("ioctl", f"{kind}:{DRM_IOCTL}", True) for kind in ("kprobe", "kretprobe"))
    else:
        yield from events("ioctl", *IOCTL_EVENTS)
    yield from events("mmap", *MAPPING_EVENTS)
    yield from _of_driver(symbols)
    yield from events("driver", MESSAGE_EVENT)
    for layer, sonames in PROBED.items():
        found = [name for name in sonames if find_library(name, Path("/"), environment)]
        for name in found or sonames[:1]:
            yield from (
                Listed(layer, f"uprobe:{name}:{f}", uprobes and bool(found)) for f in _FUNCTIONS[layer]
            )


def _of_driver(symbols: list[driver.Symbol]) -> Iterator[Listed]:
    probes, absent = driver.choose(symbols, *driver_types())
    for probe in probes:
        if probe.has_entry:
            yield Listed("driver", f"kprobe:{probe.symbol.name}", True)
        if not probe.entry_only:
            yield Listed("driver", f"kretprobe:{probe.symbol.name}", True)
    yield from (Listed("driver", f"kprobe:{name}", False) for name in absent)
