# SPDX-License-Identifier: MIT
"""DRM nodes whose driver speaks panthor's ioctls."""

from __future__ import annotations

import fcntl
import os
import stat
import struct
from dataclasses import asdict, dataclass
from pathlib import Path

from ..errors import TraceError
from ..uapi.ioc import IOC_READ, IOC_WRITE, ioc

#: tyr is the Rust driver of the same hardware; it has the same ioctls.
DRIVERS = frozenset({"panthor", "tyr"})


@dataclass(frozen=True)
class Node:
    """One device node: its name, its device number as the kernel encodes it, and its driver."""

    name: str
    rdev: int
    driver: str

    def as_json(self) -> dict[str, object]:
        """For meta.json."""
        return asdict(self)


def _kernel_dev(major: int, minor: int) -> int:
    """A device number as the kernel holds it (include/linux/kdev_t.h), not as user space packs it."""
    return major << 20 | minor


def panthor_nodes(sysfs: Path = Path("/sys/class/drm")) -> list[Node]:
    """Primary and render nodes of all panthor devices; empty where there are none."""
    nodes = []
    for entry in sorted(sysfs.glob("*")):
        try:
            driver = (entry / "device" / "driver").readlink().name
            major, minor = map(int, (entry / "dev").read_text().split(":"))
        except (OSError, ValueError):
            continue  # a connector, or a device without a driver
        if driver in DRIVERS:
            nodes.append(Node(entry.name, _kernel_dev(major, minor), driver))
    return nodes


def node_at(path: str) -> Node:
    """The node at ``path``, taken for panthor's on the user's word (a vendor's driver of another name)."""
    try:
        found = Path(path).stat()
    except OSError as error:
        raise TraceError(f"--node {path}: {error.strerror}") from None
    if not stat.S_ISCHR(found.st_mode):
        raise TraceError(f"--node {path}: not a character device")
    rdev = _kernel_dev(os.major(found.st_rdev), os.minor(found.st_rdev))
    return Node(Path(path).name, rdev, "as told by --node")


#: struct drm_version (include/uapi/drm/drm.h), 64-bit: three numbers, length and address of three strings.
_VERSION = struct.Struct("<3i4x6Q")
_DRM_IOCTL_VERSION = ioc(IOC_READ | IOC_WRITE, "d", 0, _VERSION.size)


def driver_version(descriptor: int) -> tuple[int, int]:
    """Major and minor version of an open node's driver: of panthor, those of its uAPI. Raises OSError."""
    answer = fcntl.ioctl(descriptor, _DRM_IOCTL_VERSION, bytes(_VERSION.size))
    major, minor, *_ = _VERSION.unpack(answer)
    return major, minor
