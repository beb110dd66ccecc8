# SPDX-License-Identifier: MIT
"""What panvk made a buffer for, inferred from where and how it was made, with the ground of it.

panvk takes its memory from pools, each with its flags and slab size (Mesa, src/panfrost/vulkan:
csf/panvk_vX_cmd_buffer.c for the pools of a command buffer, panvk_vX_device.c for those of a device,
csf/panvk_vX_gpu_queue.c for a queue's). A larger request gets a buffer of its own. Where the program labels
its buffers, the label decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..uapi import vulkan

#: DRM_PANTHOR_BO_NO_MMAP.
_NO_MMAP = 1 << 0
#: Slab of a command buffer's pools, and of a device's.
_SLAB, _DEVICE_SLAB = 64 << 10, 16 << 10
#: RENDER_DESC_RINGBUF_SIZE.
_RING = 512 << 10

APPLICATION, RING = "application memory", "render-descriptor ring"
COMMANDS, DESCRIPTORS = "CS chunks", "descriptors"
WLS, TLS, QUEUE, SHADERS, DEVICE = "WLS", "TLS", "queue/heap", "shaders", "device pool"
EITHER = "CS chunks or descriptors"
UNKNOWN = "unknown"

#: Part of a label → pool. The labels are those panvk's pools have in its source.
_LABELS = (
    ("CS pool", COMMANDS),
    ("descriptor pool", DESCRIPTORS),
    ("TLS pool", "WLS or TLS"),
    ("executable memory pool", SHADERS),
    ("memory pool", DEVICE),
)


@dataclass(frozen=True)
class Rule:
    """A pool, why it is that one, and which buffers (rows of the signs) it is true of."""

    pool: str
    ground: str
    applies: Callable[[pd.DataFrame], pd.Series]


RULES: tuple[Rule, ...] = (
    Rule(APPLICATION, "made inside vkAllocateMemory", lambda bo: bo["function"] == "vkAllocateMemory"),
    Rule(
        RING,
        "512 KiB that the CPU cannot map, made while the device was created: a queue has one",
        lambda bo: (bo["function"] == "vkCreateDevice") & bo["no_mmap"] & (bo["size"] == _RING),
    ),
    Rule(
        TLS,
        "made inside vkEndCommandBuffer and not mappable: stacks are sized when a command buffer ends",
        lambda bo: (bo["function"] == "vkEndCommandBuffer") & bo["no_mmap"],
    ),
    Rule(
        WLS,
        "made inside a dispatch and not mappable: there, only workgroups' shared memory is taken so",
        lambda bo: bo["dispatch"] & bo["no_mmap"],
    ),
    Rule(
        WLS,
        "not mappable, made inside a command that panvk carries out by a dispatch of its own",
        lambda bo: bo["command"] & bo["no_mmap"],
    ),
    Rule(SHADERS, "bound executable", lambda bo: bo["executable"]),
    Rule(
        DESCRIPTORS,
        "made for a descriptor pool",
        lambda bo: bo["function"].isin(["vkCreateDescriptorPool", "vkAllocateDescriptorSets"]),
    ),
    Rule(
        DEVICE,
        "16 KiB, the slab of the device's own pools",
        lambda bo: (bo["size"] == _DEVICE_SLAB) & ~bo["no_mmap"],
    ),
    Rule(QUEUE, "made while the device was created", lambda bo: bo["function"] == "vkCreateDevice"),
    Rule(
        COMMANDS,
        "a slab of 64 KiB made where commands are written and no descriptor is needed",
        lambda bo: bo["slab"] & bo["function"].isin(["vkCmdPipelineBarrier", "vkEndCommandBuffer"]),
    ),
    Rule(
        DESCRIPTORS,
        "the first slab of 64 KiB in a command of its recording: it takes descriptors before it writes",
        lambda bo: bo["slab"] & bo["command"] & (bo["slab_rank"] == 1),
    ),
    Rule(
        COMMANDS,
        "the second slab of 64 KiB in a recording that had none for its commands yet",
        lambda bo: bo["slab"] & bo["command"] & (bo["slab_rank"] == 2) & ~bo["had_commands"],
    ),
    Rule(
        EITHER,
        "a slab of 64 KiB made inside a command: commands and descriptors look the same from outside",
        lambda bo: bo["slab"] & (bo["command"] | bo["recording"].notna()),
    ),
    Rule(DESCRIPTORS, "over 64 KiB, mappable, made inside a command", lambda bo: bo["command"]),
    Rule(DEVICE, "made inside a Vulkan call that records nothing", lambda bo: bo["function"].notna()),
)


def infer(bos: pd.DataFrame, functions: pd.Series, executable: pd.Series) -> pd.DataFrame:
    """Columns ``pool`` and ``pool_ground`` for each row of ``bos``.

    ``functions`` is the Vulkan function each was made in, ``executable`` whether it was bound so.
    """
    signs = _signs(bos, functions, executable)
    chosen = np.select([rule.applies(signs).to_numpy(bool) for rule in RULES], range(len(RULES)), len(RULES))
    pools = np.array([*(rule.pool for rule in RULES), UNKNOWN], dtype=object)[chosen]
    grounds = np.array([*(rule.ground for rule in RULES), "made outside every probed call"], dtype=object)[
        chosen
    ]
    frame = pd.DataFrame({"pool": pools, "pool_ground": grounds}, index=bos.index)
    for part, pool in reversed(_LABELS):
        rows = bos["label"].astype("string").str.contains(part, regex=False).astype(bool)
        frame.loc[rows, ["pool", "pool_ground"]] = [pool, "its label says so"]
    return frame


def _signs(bos: pd.DataFrame, functions: pd.Series, executable: pd.Series) -> pd.DataFrame:
    no_mmap = (bos["flags"].astype("Int64").fillna(0) & _NO_MMAP) != 0
    command = functions.astype("string").str.startswith("vkCmd").fillna(False).astype(bool)
    signs = pd.DataFrame(
        {
            "function": functions,
            "size": bos["size"].astype("Int64").fillna(0).astype("int64"),
            "no_mmap": no_mmap.astype(bool),
            "command": command,
            "dispatch": functions.isin(vulkan.DISPATCHES),
            "executable": executable,
            "recording": bos["recording_id"],
        }
    )
    signs["slab"] = (signs["size"] == _SLAB) & ~signs["no_mmap"]
    barrier = signs["slab"] & (functions == "vkCmdPipelineBarrier")
    other = signs["slab"] & command & ~barrier
    by = signs["recording"].fillna(-1)
    signs["slab_rank"] = other.groupby(by).cumsum().where(other, 0)
    signs["had_commands"] = barrier.groupby(by).cumsum() > 0
    return signs
