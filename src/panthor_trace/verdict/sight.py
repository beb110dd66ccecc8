# SPDX-License-Identifier: MIT
"""What a trace may have missed, layer by layer: which losses hide what, and whether it was there at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Sight:
    """A layer of the capture: the kinds of loss that hide what it shows, and what it is of no use without."""

    hides: frozenset[str]
    #: A library: a program that never mapped it has nothing for the layer to show.
    library: str = ""
    #: Of no use on a machine without a panthor device.
    device: bool = False
    #: Probes (as in the layer's ``missing``) without which the layer is blind to what is asked of it; of
    #: libvulkan's, every one: a call may have failed that was not seen.
    probes: frozenset[str] | None = frozenset()

    def absent(self, layer: Mapping[str, Any]) -> list[str]:
        """Those probes of the ``layer`` (of meta.json) that are missing, and that it is blind without.

        Work of kernel threads belongs to the process whose VM it is done in: a probe "without vm" sees none.
        """
        found = [name for name in layer.get("missing", ()) if self.probes is None or name in self.probes]
        needed = self.probes or frozenset()
        for probe in layer.get("probes", ()):
            name, _, unknown = str(probe).partition(" without ")
            if name in needed and "vm" in unknown.split(", "):
                found.append(f"{name} that knows whose work it is")
        return found


SIGHTS: Mapping[str, Sight] = MappingProxyType(
    {
        "ioctl": Sight(
            frozenset({"lost_ioctl", "missed_ioctl", "missed_process", "lost_process"}), device=True
        ),
        "mmap": Sight(frozenset({"lost_mapping", "missed_process", "lost_process"}), device=True),
        "driver": Sight(
            frozenset({"lost_driver", "missed_driver", "missed_return", "lost_message"}),
            device=True,
            probes=frozenset({"panthor_heap_grow", "group_term_work", "tracepoint:printk/console"}),
        ),
        "vulkan": Sight(
            frozenset({"lost_vulkan", "missed_vulkan", "unmatched_vulkan", "missed_process"}),
            library="libvulkan.so",
            probes=None,
        ),
        "exception": Sight(frozenset({"lost_exception", "missed_process"}), library="libstdc++.so"),
        "process": Sight(
            frozenset({"lost_process", "missed_process"}), probes=frozenset({"tracepoint:oom/mark_victim"})
        ),
    }
)

#: Losses that hide whatever there was.
HIDES_ALL = frozenset({"torn_bytes", "discarded_records"})
