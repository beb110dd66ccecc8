# SPDX-License-Identifier: MIT
"""Checks of the kernel: programs, types, events, probes. By presence; by its configuration where we must."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from pathlib import Path

from ..capture.btf import Btf, BtfError, file_offsets, hold_offsets, limit_offsets, process_offsets
from ..capture.libraries import MACHINES
from ..capture.tracefs import (
    IOCTL_EVENTS,
    MAPPING_EVENTS,
    MESSAGE_EVENT,
    OOM_EVENT,
    PROCESS_EVENTS,
    TRACEFS,
    WAIT_EVENTS,
    has_event,
    has_probes,
    tracefs_is_there,
)
from .check import Finding, State
from .machine import Machine, first_line

_UNPRIVILEGED_BPF = Path("/proc/sys/kernel/unprivileged_bpf_disabled")
_LOCKDOWN = Path("/sys/kernel/security/lockdown")
_KPROBES_ENABLED = Path("/sys/kernel/debug/kprobes/enabled")

#: What each set of offsets is for: without the first, nothing of the GPU can be seen.
_OFFSETS: tuple[tuple[Callable[[Btf], dict[str, int]], str], ...] = (
    (process_offsets, "exit statuses"),
    (limit_offsets, "how far a process was from its limits on mappings"),
    (hold_offsets, "values of limits read at the failure itself (no process is held)"),
)
#: Events by what is lost without them.
_EVENTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (MAPPING_EVENTS, "refused mappings and openings (the mmap layer)"),
    (IOCTL_EVENTS, "ioctls, where the kernel has no kprobes"),
    ((OOM_EVENT,), "who was ended for want of memory"),
    ((MESSAGE_EVENT,), "the kernel's messages"),
    (WAIT_EVENTS, "holding a process whose parent waits for it"),
)


def machine(_machine: Machine) -> Finding:
    """Register layouts and struct sizes are those of two 64-bit architectures (bpf/include)."""
    name = platform.machine()
    if name in MACHINES and sys.maxsize > 1 << 32:
        return Finding(State.OK, name)
    return Finding(State.MISSING, f"{name}, {sys.maxsize.bit_length() + 1}-bit programs", "machine")


def bpf(machine: Machine) -> Finding:
    """The sysctl comes with bpf(), trace_call_bpf() with programs on events (kernel/trace/bpf_trace.c)."""
    if not _UNPRIVILEGED_BPF.exists():
        return Finding(State.MISSING, "the kernel has no bpf() (CONFIG_BPF_SYSCALL)", "kernel-bpf")
    if b" trace_call_bpf\n" in machine.kallsyms.text or machine.configured("BPF_EVENTS"):
        return Finding(State.OK, "the kernel runs them, on its events too")
    if machine.configured("BPF_EVENTS") is False:
        return Finding(State.MISSING, "the kernel runs none on its events (CONFIG_BPF_EVENTS)", "kernel-bpf")
    return Finding(State.UNKNOWN, "bpf() is there; whether programs run on events is not to be seen")


def lockdown(machine: Machine) -> Finding:
    """Only "confidentiality" keeps BPF programs from reading (security/lockdown/, 6.12 and 7.3)."""
    line = first_line(_LOCKDOWN)
    if line is not None:
        mode = line.partition("[")[2].partition("]")[0]
        if mode == "confidentiality":
            return Finding(State.MISSING, mode, "no-lockdown")
        return Finding(State.OK, mode)
    if first_line(TRACEFS / "README") is not None:
        return Finding(State.OK, "none that keeps from tracing")
    if machine.configured("SECURITY_LOCKDOWN_LSM") is False:
        return Finding(State.OK, "not in this kernel")
    return Finding(State.UNKNOWN, "not to be seen without root, or without tracefs and securityfs")


def tracefs(machine: Machine) -> Finding:
    """Recording mounts it where nobody has; we don't."""
    if tracefs_is_there():
        return Finding(State.OK, str(TRACEFS))
    mounted = any(
        line.split(" - ")[1].split()[0] == "tracefs" and line.split()[4] == str(TRACEFS)
        for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    )
    if mounted:
        if machine.root:
            return Finding(State.MISSING, f"{TRACEFS} cannot be read, not even by root", "host")
        return Finding(State.OK, f"{TRACEFS}, for root only")
    if "\ttracefs" in Path("/proc/filesystems").read_text():
        return Finding(State.OK, "not mounted; recording mounts it")
    return Finding(State.MISSING, "the kernel has none (CONFIG_FTRACE)", "kernel-ftrace")


def events(machine: Machine) -> Finding:
    """Tracepoints, each group with what it is for."""
    if not tracefs_is_there():
        if machine.configured("FTRACE_SYSCALLS"):
            return Finding(State.OK, "of system calls and of the scheduler, by the kernel's configuration")
        if machine.configured("FTRACE_SYSCALLS") is False:
            lost = "; ".join(lost for names, lost in _EVENTS if names[0].startswith("syscalls/"))
            return Finding(State.DEGRADED, "none of system calls", "kernel-ftrace", without=lost)
        return Finding(State.UNKNOWN, "not to be seen without root and tracefs")
    wanted = [*PROCESS_EVENTS, *(event for names, _ in _EVENTS for event in names)]
    absent = [event for event in wanted if not has_event(event)]
    facts = {"present": [event for event in wanted if event not in absent], "absent": absent}
    found = f"{len(wanted) - len(absent)} of {len(wanted)}"
    if not absent:
        return Finding(State.OK, found, facts=facts)
    found += f"; without {', '.join(absent)}"
    if any(event in PROCESS_EVENTS for event in absent):
        return Finding(State.MISSING, found, "kernel-ftrace", facts)
    lost = "; ".join(lost for names, lost in _EVENTS if set(names) & set(absent))
    return Finding(State.DEGRADED, found, "kernel-ftrace", facts, lost)


def types(_machine: Machine) -> Finding:
    """The kernel's own type information, and that it has the members we follow."""
    try:
        kernel = Btf.of_kernel()
        file_offsets(kernel)
    except BtfError as error:
        return Finding(State.MISSING, str(error), "kernel-btf")
    lost = []
    for offsets, what in _OFFSETS:
        try:
            offsets(kernel)
        except BtfError:
            lost.append(what)
    if lost:
        return Finding(State.DEGRADED, "some structs are other than known", without="; ".join(lost))
    return Finding(State.OK, f"BTF, {len(kernel.types) + len(kernel.strings) >> 20} MiB")


def kprobes(machine: Machine) -> Finding:
    """The kind of probe, and two switches that leave probes in place but silent, or refuse them."""
    if not has_probes("kprobe"):
        return Finding(State.DEGRADED, "the kernel has none (CONFIG_KPROBE_EVENTS)", "kernel-kprobes")
    if first_line("/proc/sys/kernel/ftrace_enabled") == "0":
        return Finding(State.DEGRADED, "kernel.ftrace_enabled is 0", "ftrace-enabled")
    if first_line(_KPROBES_ENABLED) == "0":
        return Finding(State.DEGRADED, "turned off in debugfs", "kprobes-enabled")
    return Finding(State.OK, "the kernel has them")


def uprobes(_machine: Machine) -> Finding:
    """As kprobes, on user space."""
    if has_probes("uprobe"):
        return Finding(State.OK, "the kernel has them")
    return Finding(State.DEGRADED, "the kernel has none (CONFIG_UPROBE_EVENTS)", "kernel-uprobes")


def taskstats(machine: Machine) -> Finding:
    """Accounting at a process's end, by netlink."""
    from ..capture.netlink import delays_measured, taskstats_socket

    try:
        taskstats_socket().close()
    except ImportError:
        return Finding(State.DEGRADED, "pyroute2 is missing", "pyroute2")
    except Exception as error:  # pyroute2's own, whose names change
        if machine.configured("TASKSTATS"):
            return Finding(State.UNKNOWN, f"built in, but does not answer: {error or type(error).__name__}")
        return Finding(State.DEGRADED, "the kernel has none (CONFIG_TASKSTATS)", "kernel-taskstats")
    delays = "" if delays_measured() else "; delays are not measured (kernel.task_delayacct)"
    return Finding(State.OK, f"the kernel answers{delays}")
