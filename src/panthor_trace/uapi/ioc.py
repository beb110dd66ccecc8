# SPDX-License-Identifier: MIT
"""The parts of an ioctl number (include/uapi/asm-generic/ioctl.h; the same on x86_64 and arm64)."""

from __future__ import annotations

IOC_WRITE = 1
IOC_READ = 2


def ioc(direction: int, kind: str, number: int, size: int) -> int:
    """``_IOC(direction, kind, number, size)``."""
    return direction << 30 | size << 16 | ord(kind) << 8 | number


def number_of(command: int) -> int:
    """``_IOC_NR``."""
    return command & 0xFF


def size_of(command: int) -> int:
    """``_IOC_SIZE``."""
    return command >> 16 & 0x3FFF
