# SPDX-License-Identifier: MIT
"""Debian roots for the bench, by extraction: the board's (arm64) and the native one (amd64).

``mmdebstrap --variant=extract`` unpacks packages and their dependencies and runs nothing of them. So an arm64
root needs neither binfmt_misc nor an emulator (mmdebstrap: "skipping emulation check for extract variant"),
and takes a minute instead of ten. What the maintainer scripts would have done is in :mod:`board.provision`.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import provision
from .archive import mirror
from .cache import Entry, Say, entry, files_hash
from .errors import LabError

#: Debian's release after trixie: the first with Mesa's panvk for CSF and llama.cpp with a Vulkan backend.
SUITE = "forky"

#: A shell, its tools, and the files the post-processing starts from (base-passwd's and libc-bin's tables).
_BASE = ("base-files", "base-passwd", "bash", "coreutils", "dash", "findutils", "grep", "libc-bin", "sed")

#: llama-bench with its Vulkan backend, Mesa's drivers and the loader.
_VULKAN = (
    "libggml0-backend-vulkan",
    "libvulkan1",
    "llama.cpp-tools",
    "mesa-vulkan-drivers",
    "vulkan-tools",
)


#: What apt and tar say on a full disk; apt's second before it downloads anything.
_DISK_FULL = ("No space left on device", "You don't have enough free space")

#: mmdebstrap's options, part of what an entry is keyed by.
_OPTIONS = (
    "--variant=extract",
    # A mirror that stands still serves Release files past their date. Signatures are still checked.
    '--aptopt=Acquire::Check-Valid-Until "false"',
    # Keep the downloads until their versions are noted.
    "--skip=cleanup/apt/cache",
)


@dataclass(frozen=True)
class RootSpec:
    """One root: Debian architecture and suite, the packages asked for, the Mesa driver kept.

    A single Vulkan driver is kept because the loader opens every one installed: seconds under emulation,
    and with a second device in the list a program could quietly run on the wrong one.
    """

    arch: str
    packages: tuple[str, ...]
    vulkan_driver: str
    suite: str = SUITE


GUEST = RootSpec(
    arch="arm64",
    vulkan_driver="panfrost",  # the file's name; it holds panvk
    packages=(
        *_BASE,
        *_VULKAN,
        *("bpftrace", "strace"),
        *("python3", "python3-bpfcc", "python3-click", "python3-numpy", "python3-pandas"),
        *("python3-pyroute2", "python3-rich"),
        *("busybox", "diffutils", "gzip", "hostname", "iproute2", "kmod", "mawk", "mount", "ncurses-base"),
        *("procps", "sudo", "tar", "util-linux"),
    ),
)

NATIVE = RootSpec(
    arch="amd64",
    vulkan_driver="lvp",  # llvmpipe's Vulkan
    packages=(*_BASE, *_VULKAN, "python3"),  # python3: compiles the guest's modules, see compile_python
)


def guest_root(say: Say) -> Entry:
    """The board's arm64 root: ``path/root``, with ``path/packages.json`` naming the versions taken."""
    native = native_root(say)

    def build(out: Path) -> None:
        build_root(GUEST.arch, GUEST.suite, GUEST.packages, out, say)
        provision.provision(out / "root", GUEST.arch, GUEST.vulkan_driver, say)
        provision.compile_python(out / "root", native.path / "root", say)

    return entry("guest-root", _inputs(GUEST), build, say)


def native_root(say: Say) -> Entry:
    """The amd64 root run on this machine's own kernel; laid out like :func:`guest_root`'s."""

    def build(out: Path) -> None:
        build_root(NATIVE.arch, NATIVE.suite, NATIVE.packages, out, say)
        provision.provision(out / "root", NATIVE.arch, NATIVE.vulkan_driver, say)

    return entry("native-root", _inputs(NATIVE), build, say)


def _inputs(spec: RootSpec) -> dict[str, object]:
    return {
        "arch": spec.arch,
        "suite": spec.suite,
        "packages": sorted(spec.packages),
        "vulkan_driver": spec.vulkan_driver,
        "options": _OPTIONS,
        "provision": files_hash([Path(provision.__file__)]),
    }


def build_root(arch: str, suite: str, packages: Sequence[str], out: Path, say: Say) -> None:
    """Extract ``packages`` and what they depend on into ``out/root``; write ``out/packages.json``.

    ``packages.json`` maps every package taken to its version. Raises :class:`LabError` without root's
    rights, without mmdebstrap, without the network or for an unknown package, and ``OSError`` (ENOSPC) on
    a full disk.
    """
    if shutil.which("mmdebstrap") is None:
        raise LabError("mmdebstrap is not installed: run scripts/setup, or apt-get install mmdebstrap")
    if os.geteuid() != 0:
        # Otherwise every file would belong to the builder, in the guest too: no setuid sudo there.
        raise LabError("building a Debian root needs root (its files belong to root): run it with sudo")
    root = out / "root"
    say(f"root: extracting {suite} {arch} ({len(packages)} packages and their dependencies)")
    command = [
        "mmdebstrap",  # not --quiet: that leaves out apt's own words, the reason
        *_OPTIONS,
        f"--architectures={arch}",
        f"--include={','.join(packages)}",
        *(suite, str(root), mirror()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        if any(words in done.stderr for words in _DISK_FULL):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(root))
        raise LabError(f"cannot build the {suite} {arch} root: {_reason(done.stderr)}")
    archives = root / "var/cache/apt/archives"
    versions = package_versions([deb.name for deb in archives.glob("*.deb")])
    shutil.rmtree(archives)
    (out / "packages.json").write_text(json.dumps(versions, indent=1, sort_keys=True) + "\n")


def package_versions(debs: Sequence[str]) -> dict[str, str]:
    """``{package: version}`` from apt's names of downloads, ``busybox_1%3a1.38.0-3_arm64.deb``."""
    versions = {}
    for name in debs:
        package, version, _arch = name.removesuffix(".deb").split("_")
        versions[package] = urllib.parse.unquote(version)
    return versions


def _reason(stderr: str) -> str:
    """The one line that says why, of mmdebstrap's and apt's many: the first ``E:`` with a reason in it."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()] or ["mmdebstrap said nothing"]
    errors = [line.removeprefix("E: ") for line in lines if line.startswith("E: ")]
    # "E: apt-get … failed" and "E: mmdebstrap failed to run" only name the command.
    reasons = [line for line in errors if not line.endswith(("failed", "failed to run"))]
    return (reasons or errors or lines[-1:])[0][:300]
