# SPDX-License-Identifier: MIT
"""Maps by their descriptors, with bpf(2) itself: for a process that has not loaded bcc."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Iterator

#: bpf(2), by ``uname -m`` (asm/unistd.h).
_SYSCALL = {"x86_64": 321, "aarch64": 280}
#: enum bpf_cmd (include/uapi/linux/bpf.h).
_LOOKUP, _UPDATE, _DELETE, _NEXT_KEY = 1, 2, 3, 4
_LIBC = ctypes.CDLL(None, use_errno=True)


class _Element(ctypes.Structure):
    """The part of union bpf_attr that the commands on elements take."""

    _fields_ = (
        ("map_fd", ctypes.c_uint32),
        ("key", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
    )


class BpfMap:
    """A map whose keys are u32 and whose values are unsigned integers of ``value_bytes``."""

    def __init__(self, descriptor: int, value_bytes: int) -> None:
        self.descriptor = descriptor
        self._value = ctypes.c_uint64 if value_bytes == 8 else ctypes.c_uint32

    def _call(self, command: int, key: ctypes.c_uint32 | None, value: ctypes._SimpleCData[int] | None) -> int:
        """0, or an errno."""
        element = _Element(
            map_fd=self.descriptor,
            key=ctypes.addressof(key) if key is not None else 0,
            value=ctypes.addressof(value) if value is not None else 0,
        )
        number = ctypes.c_long(_SYSCALL[platform.machine()])
        failed = _LIBC.syscall(number, command, ctypes.byref(element), ctypes.sizeof(element)) < 0
        return ctypes.get_errno() if failed else 0

    def get(self, key: int) -> int | None:
        """The value of ``key``; None where there is none."""
        value = self._value()
        return None if self._call(_LOOKUP, ctypes.c_uint32(key), value) else int(value.value)

    def set(self, key: int, value: int) -> None:
        """Raises OSError."""
        error = self._call(_UPDATE, ctypes.c_uint32(key), self._value(value))
        if error:
            raise OSError(error, os.strerror(error))

    def delete(self, key: int) -> None:
        """Remove ``key`` where it is there."""
        self._call(_DELETE, ctypes.c_uint32(key), None)

    def items(self) -> Iterator[tuple[int, int]]:
        """What is in it now; what comes or goes meanwhile may be left out."""
        key: ctypes.c_uint32 | None = None
        following = ctypes.c_uint32()
        while not self._call(_NEXT_KEY, key, following):
            key = ctypes.c_uint32(following.value)
            value = self.get(key.value)
            if value is not None:
                yield key.value, value
