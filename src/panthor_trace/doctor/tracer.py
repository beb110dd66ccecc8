# SPDX-License-Identifier: MIT
"""Checks of what the tracer itself runs on: rights, interpreter, modules, bcc with its compiler."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import sys
from pathlib import Path

from ..capture.proc import read_lines
from ..errors import TraceError
from .check import Finding, State
from .machine import Machine, first_line

OLDEST_PYTHON = (3, 11)
#: Older ones have not been tried (tested: 0.26 and 0.35).
_OLDEST_BCC = (0, 26)
#: Modules besides bcc, by what cannot be done without them.
_MODULES = {
    "click": "anything",
    "numpy": "a report",
    "pandas": "a report",
    "rich": "a report",
    "pyroute2": "",
}
#: Bits of CapEff (include/uapi/linux/capability.h): the second and third do for BPF what the first also does.
_CAP_SYS_ADMIN, _CAP_PERFMON, _CAP_BPF = 21, 38, 39
#: The first line of uid_map where root is the machine's root, and the number of its namespace of processes
#: (PROC_PID_INIT_INO, include/uapi/linux/nsfs.h and before that include/linux/proc_ns.h).
_ALL_USERS = ["0", "0", "4294967295"]
_FIRST_PID_NAMESPACE = "pid:[4026531836]"
_LLVM = re.compile(r"/libLLVM[-.](?:so\.)?(\d+(?:\.\d+)*)")


def rights(machine: Machine) -> Finding:
    """Recording is for the machine's root; a container's is not that, if not made so."""
    if (first_line("/proc/self/uid_map") or "").split() != _ALL_USERS:
        return Finding(State.MISSING, "a user namespace, whose root is not the machine's", "host")
    try:
        namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - leads nowhere
    except OSError:
        namespace = _FIRST_PID_NAMESPACE
    if namespace != _FIRST_PID_NAMESPACE:
        return Finding(State.MISSING, "a container, where processes have other numbers", "host")
    if not machine.root:
        return Finding(State.OK, "not root now: record with sudo; the command still runs as you")
    status = read_lines(Path("/proc/self/status"))
    bits = next((int(line.split()[1], 16) for line in status if line.startswith("CapEff:")), 0)
    has = {bit for bit in (_CAP_SYS_ADMIN, _CAP_PERFMON, _CAP_BPF) if bits >> bit & 1}
    if _CAP_SYS_ADMIN in has or {_CAP_PERFMON, _CAP_BPF} <= has:
        return Finding(State.OK, "root")
    return Finding(State.MISSING, "root without CAP_SYS_ADMIN: a container?", "host")


def python(_machine: Machine) -> Finding:
    """The interpreter's version."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        return Finding(State.MISSING, version, "python")
    return Finding(State.OK, f"{version} ({sys.executable})")


def module(_machine: Machine, name: str) -> Finding:
    """A Python module by its presence and version."""
    if importlib.util.find_spec(name) is None:
        state = State.MISSING if _MODULES[name] else State.DEGRADED
        return Finding(state, "not installed", name)
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        version = "of unknown version"
    return Finding(State.OK, version)


def bcc(_machine: Machine) -> Finding:
    """The distribution's bcc, and the LLVM it compiles with."""
    from ..capture.program import import_bcc
    from ..capture.source import bpf_directory

    try:
        bpf_directory()
    except TraceError as error:
        return Finding(State.MISSING, str(error), "reinstall")
    try:
        module = import_bcc()
    except TraceError as error:
        # The distribution's modules are for its own interpreter.
        own = Path(sys.executable).resolve().parent == Path("/usr/bin")
        elsewhere = not own and any(Path("/usr/lib/python3").glob("dist-packages/bcc/__init__.py"))
        found = f"not of this interpreter, {sys.executable}" if elsewhere else str(error).split(":")[0]
        return Finding(State.MISSING, found, "system-python" if elsewhere else "bcc")
    version = str(getattr(module, "__version__", "of unknown version"))
    maps = Path("/proc/self/maps").read_text(errors="replace")
    llvm = _LLVM.search(maps)
    facts = {"bcc": version, "llvm": llvm[1] if llvm else None}
    found = f"{version}, with LLVM {llvm[1]}" if llvm else version
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers and numbers < _OLDEST_BCC:
        oldest = ".".join(map(str, _OLDEST_BCC))
        return Finding(State.DEGRADED, f"{found}; never tried before {oldest}", facts=facts)
    return Finding(State.OK, found, facts=facts)
