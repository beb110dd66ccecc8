# SPDX-License-Identifier: MIT
"""What a trace may have missed, layer by layer: which losses hide what, and whether it was there at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Sight:
    """A layer of the capture: the kinds of loss that hide what it shows, and what it is of no use without."""

    hides: frozenset[str]
    #: A library: a program that never mapped it has nothing for the layer to show.
    library: str = ""
    #: Of no use on a machine without a panthor device.
    device: bool = False
    #: A probe (as in the layer's ``missing``) without which the layer is blind to what is asked of it.
    probe: str = ""


SIGHTS: Mapping[str, Sight] = MappingProxyType(
    {
        "ioctl": Sight(
            frozenset({"lost_ioctl", "missed_ioctl", "missed_process", "lost_process"}), device=True
        ),
        "mmap": Sight(frozenset({"lost_mapping", "missed_process", "lost_process"}), device=True),
        "driver": Sight(
            frozenset({"lost_driver", "missed_driver", "missed_return", "lost_message"}), device=True
        ),
        "vulkan": Sight(
            frozenset({"lost_vulkan", "missed_vulkan", "unmatched_vulkan", "missed_process"}),
            library="libvulkan.so",
        ),
        "exception": Sight(frozenset({"lost_exception", "missed_process"}), library="libstdc++.so"),
        "process": Sight(frozenset({"lost_process", "missed_process"}), probe="tracepoint:oom/mark_victim"),
    }
)

#: Losses that hide whatever there was.
HIDES_ALL = frozenset({"torn_bytes", "discarded_records"})
