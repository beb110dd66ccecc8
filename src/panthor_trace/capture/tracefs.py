# SPDX-License-Identifier: MIT
"""The kernel's tracepoints: which the recording uses, and whether this kernel has them."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from ..errors import EXIT_KERNEL, TraceError

TRACEFS = Path("/sys/kernel/tracing")
_PROBE_KINDS = Path("/sys/bus/event_source/devices")
IOCTL_EVENTS = ("syscalls/sys_enter_ioctl", "syscalls/sys_exit_ioctl")
MAPPING_EVENTS = (
    "syscalls/sys_enter_mmap",
    "syscalls/sys_exit_mmap",
    "syscalls/sys_enter_munmap",
    "syscalls/sys_exit_munmap",
    "syscalls/sys_enter_openat",
    "syscalls/sys_exit_openat",
)
PROCESS_EVENTS = (
    "task/task_newtask",
    "sched/sched_process_exec",
    "sched/sched_process_exit",
)
OOM_EVENT = "oom/mark_victim"
WAIT_EVENTS = ("syscalls/sys_enter_wait4", "syscalls/sys_enter_waitid")
MESSAGE_EVENT = "printk/console"


def tracefs_is_there() -> bool:
    """Whether somebody has mounted it, and we may look into it."""
    try:
        return (TRACEFS / "events").is_dir()
    except PermissionError:
        return False


def ensure_tracefs() -> None:
    """Mount tracefs where nobody has yet. Raises TraceError."""
    if tracefs_is_there():
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tracefs", os.fsencode(TRACEFS), b"tracefs", 0, None) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise TraceError(
            f"tracefs is not at {TRACEFS} and cannot be mounted ({reason}): "
            "this kernel, or this container, does not allow tracing; run it on the host, on a kernel with "
            "CONFIG_FTRACE and CONFIG_BPF_SYSCALL",
            EXIT_KERNEL,
        )


def has_probes(kind: str) -> bool:
    """Whether the kernel has "kprobe" or "uprobe" for perf events, as bcc makes them. Anybody may look."""
    return (_PROBE_KINDS / kind).exists()


def has_event(event: str) -> bool:
    """Whether the kernel has the tracepoint; tracefs must be there."""
    return (TRACEFS / "events" / event).is_dir()
