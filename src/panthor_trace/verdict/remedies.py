# SPDX-License-Identifier: MIT
"""What can be done next, as a table: cause and what it is about -> one or two sentences.

docs/verdicts.md explains each row. Knobs that do not exist are worse than none: those of ggml are strings of
Debian's libggml-vulkan.so 0.27; panvk of Mesa 26.1.6 has no option for its heaps or address ranges (by the
strings of libvulkan_panfrost.so; pan_csf_max_chunks is of Mesa's OpenGL driver, driinfo_panfrost.h).
"""

from __future__ import annotations

from dataclasses import dataclass

from .case import Case
from .verdict import Cause, Verdict

_PANTHOR = "panthor's developers (dri-devel@lists.freedesktop.org)"
_MESA = "Mesa (gitlab.freedesktop.org/mesa/mesa, component panvk)"

#: Who is to hear of a fault, by who refused.
ADDRESSES = {
    "kernel": _PANTHOR,
    "GPU": f"{_MESA}, or {_PANTHOR}",
    "panvk": _MESA,
    "program": "the program's developers (llama.cpp: github.com/ggml-org/llama.cpp)",
}


@dataclass(frozen=True)
class Remedy:
    """One row; ``about`` narrows the cause down ("": whatever no other row of the cause is about)."""

    cause: Cause
    about: str
    text: str
    #: Said as well where the program uses ggml.
    ggml: str = ""


_LESS_AT_ONCE = (
    "For llama.cpp, a smaller -ub takes less at a time, -ngl puts fewer layers on the GPU, -c makes the "
    "context smaller."
)

REMEDIES: tuple[Remedy, ...] = (
    Remedy(
        Cause.KERNEL_CAP,
        "vms",
        "Have fewer Vulkan devices at a time in one process: each takes a VM, and no option raises the "
        f"limit. If one device needs more, tell {_PANTHOR}.",
    ),
    Remedy(
        Cause.KERNEL_CAP,
        "groups",
        "Have fewer Vulkan queues at a time in one process: no option raises the limit. "
        f"If one device needs more, tell {_PANTHOR}.",
    ),
    Remedy(
        Cause.KERNEL_CAP,
        "heaps",
        "Have fewer Vulkan queues at a time in one device: no option raises the limit. "
        f"If one device needs more, tell {_PANTHOR}.",
    ),
    Remedy(
        Cause.KERNEL_CAP,
        "heap_max_chunks",
        "max_chunks and chunk_size are what user space asked TILER_HEAP_CREATE for; panvk has no option for "
        f"them: report it to {_MESA}. Mesa's OpenGL driver takes them from drirc (pan_csf_max_chunks, "
        "pan_csf_chunk_size).",
    ),
    Remedy(
        Cause.KERNEL_CAP,
        "heap_target_in_flight",
        "target_in_flight is what user space asked TILER_HEAP_CREATE for, and no option of Mesa sets it: "
        f"report it to {_MESA}.",
    ),
    Remedy(
        Cause.KERNEL_CAP,
        "heap_chunk_size",
        "A chunk may have 128 KiB to 8 MiB: whoever called TILER_HEAP_CREATE has to ask for less and may "
        "have more chunks instead. Mesa's OpenGL driver takes the size from drirc (pan_csf_chunk_size).",
    ),
    Remedy(
        Cause.KERNEL_CAP,
        "min_kernel_va",
        "Whoever called VM_CREATE has to leave the kernel 256 MiB of the addresses, or ask for 0 and take "
        f"what the kernel chooses; if that was panvk, report it to {_MESA}.",
    ),
    Remedy(
        Cause.KERNEL_CAP,
        "user_va_range",
        "The addresses were chosen by user space, beyond what VM_CREATE had granted it: a larger "
        f"user_va_range there gives more. If panvk chose them, report it to {_MESA}.",
    ),
    Remedy(
        Cause.KERNEL_CAP,
        "kernel_va_range",
        "A smaller user_va_range in VM_CREATE leaves the kernel more room, fewer or smaller initial heap "
        f"chunks need less of it. panvk chooses both without an option: report it to {_MESA}.",
    ),
    Remedy(
        Cause.KERNEL_CAP,
        "mmap_offsets",
        "No option raises it. A buffer of that size is hardly meant: look at what was asked for, or end what "
        "else holds buffers of this device.",
    ),
    Remedy(
        Cause.KERNEL_MEMORY,
        "cgroup",
        "Raise the limit of the memory cgroup ({limit_file}), or start the program outside of it.",
        _LESS_AT_ONCE,
    ),
    Remedy(
        Cause.KERNEL_MEMORY,
        "machine",
        "The machine's memory is the GPU's: end other programs, or let this one ask for less.",
        _LESS_AT_ONCE,
    ),
    Remedy(
        Cause.KERNEL_MEMORY,
        "unknown",
        "Trace once more as root, outside of containers, to learn which memory it was; the kernel log "
        "(dmesg) may tell as well.",
        _LESS_AT_ONCE,
    ),
    Remedy(
        Cause.KERNEL_REJECTED,
        "permission",
        "The kernel did not permit it: groups of high priority need CAP_SYS_NICE (or to be DRM master), a "
        "buffer made with NO_MMAP cannot be mapped by the CPU, a node wants its user in the group it "
        "belongs to.",
    ),
    Remedy(
        Cause.KERNEL_REJECTED,
        "",
        "A malformed request is a fault of what made it: report it with this trace to "
        f"{_MESA} if that was panvk, else to the program's developers.",
    ),
    Remedy(
        Cause.GPU_FAULT,
        "",
        f"A fault that comes back with the same work is for {_MESA}; a firmware that stops answering, for "
        f"{_PANTHOR}. Add this trace and what dmesg says of panthor.",
    ),
    Remedy(
        Cause.PROCESS_LIMIT,
        "vm.max_map_count",
        "Raise it: sysctl vm.max_map_count=1048576 (as root; a file in /etc/sysctl.d keeps it).",
    ),
    Remedy(
        Cause.PROCESS_LIMIT,
        "RLIMIT_AS",
        "Raise it before the program starts: ulimit -v unlimited, or LimitAS= of a systemd unit.",
    ),
    Remedy(
        Cause.PROCESS_LIMIT,
        "RLIMIT_NOFILE",
        "Raise it before the program starts: ulimit -n 65536, or LimitNOFILE= of a systemd unit. If the "
        "number of descriptors only ever grows, the program loses them: tell its developers.",
    ),
    Remedy(
        Cause.PROCESS_LIMIT,
        "fs.file-max",
        "All of the machine's open files are in use: raise it with sysctl fs.file-max, or find who holds "
        "them.",
    ),
    Remedy(
        Cause.DRIVER_VA,
        "",
        f"panvk has no option for its address ranges: report it with this trace to {_MESA}.",
        _LESS_AT_ONCE,
    ),
    Remedy(
        Cause.DRIVER_INTERNAL,
        "panthor",
        f"Nothing but panvk's source says which of its limits it was: report it with this trace to {_MESA}.",
    ),
    Remedy(
        Cause.APPLICATION,
        "ggml",
        "ggml makes no buffer above the device's maxBufferSize and says that it is out of memory: let it ask "
        "for less. GGML_VK_FORCE_MAX_BUFFER_SIZE (bytes) overrides the size it goes by: look whether it is "
        "set too low; above what the Vulkan driver allows, the driver refuses instead.",
        _LESS_AT_ONCE,
    ),
)

#: What has no row, and why.
NO_REMEDY = {
    Cause.CLEAN: "nothing failed",
    Cause.RECOVERED: "the program got over it",
    Cause.INCONCLUSIVE: "what is missing, and how to get it, is said instead",
}


def remedy_for(case: Case, verdict: Verdict) -> str | None:
    """The sentences for this verdict; None where nothing is known that would help."""
    about = _about(case, verdict)
    rows = {row.about: row for row in REMEDIES if row.cause is verdict.cause}
    row = rows.get(about) or rows.get("")
    if row is None:
        return None
    text = row.text
    if verdict.memory is not None:
        text = text.replace("{limit_file}", _limit_file(verdict.memory.cgroup))
    return f"{text} {row.ggml}" if row.ggml and case.uses_ggml else text


def _about(case: Case, verdict: Verdict) -> str:
    refusal, memory = verdict.refusal, verdict.memory
    if memory is not None:
        return memory.which
    if refusal is not None and refusal.limit is not None:
        return refusal.limit.name
    if (
        verdict.cause is Cause.KERNEL_REJECTED
        and refusal is not None
        and refusal.errno in ("EACCES", "EPERM")
    ):
        return "permission"
    if verdict.cause is Cause.DRIVER_INTERNAL and case.used_panthor:
        return "panthor"
    if verdict.cause is Cause.APPLICATION and case.uses_ggml and len(case.memory_exceptions):
        return "ggml"
    return ""


def _limit_file(cgroup: str | None) -> str:
    """Version 1 mounts its memory controller by itself, and calls the file otherwise."""
    if cgroup is None:
        return "its file memory.max; /proc/PID/cgroup names the group"
    first_version = cgroup.startswith("/sys/fs/cgroup/memory/") or cgroup == "/sys/fs/cgroup/memory"
    return f"{cgroup}/{'memory.limit_in_bytes' if first_version else 'memory.max'}"
