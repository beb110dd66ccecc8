# SPDX-License-Identifier: MIT
"""The C source that is loaded: the files of bpf/, with what is only known here put in front."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..errors import TraceError
from ..uapi import ioctls, vulkan
from . import numbered

#: Units of 4 KiB (bpf/include/asm/page.h): 8 MiB, some 40,000 ioctl records between two drains.
DEFAULT_RING_UNITS = 2048

_POINTEE_ARRAY = 1 << 8
_POINTEE_STRING = 2 << 8
_POINTEE_POINTS = 4 << 8


def bpf_directory() -> Path:
    """Where bpf/ is: installed with the package, or in the source tree."""
    package = Path(__file__).resolve().parent.parent
    for candidate in (package / "bpf", package.parent.parent / "bpf"):
        if (candidate / "record.h").is_file():
            return candidate
    raise TraceError("the BPF sources (bpf/) are missing from this installation: reinstall panthor-trace")


def vulkan_table() -> list[tuple[int, ...]]:
    """Contents of the ``vulkan_functions`` map, in the order of its struct's members."""
    rows: list[tuple[int, ...]] = []
    for function in vulkan.FUNCTIONS:
        pointee = function.pointee
        copied = (pointee.argument, pointee.size, pointee.count, pointee.stride) if pointee else (0, 0, 0, 0)
        rows.append(
            (len(function.arguments), *copied, function.submit, function.quiet, int(function.has_result))
        )
    return rows


def pointee_table() -> dict[int, int]:
    """Contents of the ``pointees`` map: by ioctl number, where the argument points to an array or string."""
    table = {}
    for ioctl in ioctls.BY_NUMBER.values():
        if ioctl.array is not None:
            table[ioctl.number] = _POINTEE_ARRAY | ioctl.array
        elif ioctl.string is not None:
            table[ioctl.number] = _POINTEE_STRING | ioctl.string
        elif ioctl.points is not None:
            table[ioctl.number] = _POINTEE_POINTS | ioctl.points
    return table


def ordinary_table() -> dict[int, int]:
    """Contents of the ``ordinary`` map: by ioctl number, a bit for each errno that is no failure."""
    always = sum(1 << code for code in ioctls.RESTARTED)
    return {
        number: always | sum(1 << code for code in known.ordinary)
        if (known := ioctls.BY_NUMBER.get(number))
        else always
        for number in range(256)
    }


def program_source(
    offsets: Mapping[str, int] | None,
    *,
    process: Mapping[str, int] | None = None,
    oom: bool = True,
    mapping: bool = True,
    drm: bool = True,
    message: bool = True,
    hold: Mapping[str, int] | None = None,
    waits: bool = True,
    ring_units: int = DEFAULT_RING_UNITS,
) -> str:
    """The whole program.

    Without ``offsets`` (of btf.file_offsets) the ioctl and mmap layers are left out, and with them the driver
    layer; ``process`` are those of btf.process_offsets and btf.limit_offsets. ``drm`` is whether ioctls are
    caught on the DRM path; ``oom``, ``mapping`` and ``message`` whether the kernel has the events of its
    out-of-memory killer, of mmap, munmap and openat, and of its log. ``hold`` are the offsets of
    btf.hold_offsets (no process is held without them; they need those of process_offsets), ``waits`` whether
    there are events of wait4 and waitid.
    """
    directory = bpf_directory()
    files = ["record.h", "thread.c", "process.c", "hold.c", "stack.c", "call.c", *(["oom.c"] if oom else [])]
    if offsets is not None:
        files += ["ioctl.c", *(["mapping.c"] if mapping else []), "driver.c"]
    files += [*(["message.c"] if message else []), "submit.c", "vulkan.c", "exception.c"]
    constants = {"RING_UNITS": ring_units, **({"IOCTL_HOOK_DRM": 1} if drm else {})}
    constants |= {"VULKAN_FUNCTIONS": len(vulkan.FUNCTIONS), "NUMBER_PLACE": numbered.PLACE}
    constants |= {**(offsets or {}), **(process or {})}
    if hold:
        constants |= {**hold, "HOLD_OFFSETS": 1, **({"HOLD_WAITS": 1} if waits else {})}
    parts = ["#include <uapi/linux/ptrace.h>\n"]
    parts += [f"#define {name} {value}\n" for name, value in constants.items()]
    for name in files:
        parts.append(f'#line 1 "{name}"\n{(directory / name).read_text()}')
    return "".join(parts)
