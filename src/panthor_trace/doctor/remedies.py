# SPDX-License-Identifier: MIT
"""What to do about a finding, by distribution: the command where one will do, else what is needed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .distribution import DISTRIBUTIONS

#: ``{}`` is the packages.
_INSTALL = {
    "debian": "sudo apt install {}",
    "ubuntu": "sudo apt install {}",
    "armbian": "sudo apt install {}",
    "fedora": "sudo dnf install {}",
    "arch": "sudo pacman -S {}",
}


def _packages(debian: str, fedora: str, arch: str, **other: str) -> Mapping[str, str]:
    """The command that installs packages; Ubuntu and Armbian have Debian's names if not told otherwise."""
    names = {"debian": debian, "ubuntu": debian, "armbian": debian, "fedora": fedora, "arch": arch, **other}
    return MappingProxyType({name: _INSTALL[name].format(packages) for name, packages in names.items()})


def _everywhere(what: str) -> Mapping[str, str]:
    return MappingProxyType(dict.fromkeys(DISTRIBUTIONS, what))


def _kernel(option: str, **which: str) -> Mapping[str, str]:
    """A kernel with ``option``: each distribution's own, where that has it."""
    kernels = {
        "debian": "sudo apt install linux-image-$(dpkg --print-architecture), Debian's own",
        "ubuntu": "sudo apt install linux-generic, Ubuntu's own",
        "armbian": f"a kernel built with {option} (armbian-config offers others: current, edge)",
        "fedora": "sudo dnf install kernel, Fedora's own",
        "arch": f"a kernel built with {option}",
        **which,
    }
    return MappingProxyType(kernels)


def _python(name: str) -> Mapping[str, str]:
    return _packages(f"python3-{name}", f"python3-{name}", f"python-{name}")


REMEDIES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "bcc": _packages("python3-bpfcc", "python3-bcc", "python-bcc"),
        "click": _python("click"),
        "numpy": _python("numpy"),
        "pandas": _python("pandas"),
        "pyroute2": _python("pyroute2"),
        "rich": _python("rich"),
        "system-python": _everywhere("run panthor-trace by the system's own interpreter, /usr/bin/python3"),
        "python": _everywhere("a release of the distribution with Python 3.11 or later"),
        "machine": _everywhere("a 64-bit system for Arm or x86"),
        "kernel-bpf": _kernel("CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS"),
        "kernel-btf": _kernel(
            "CONFIG_DEBUG_INFO_BTF",
            armbian="a kernel built with CONFIG_DEBUG_INFO_BTF (Armbian's build: KERNEL_BTF=yes)",
        ),
        "kernel-btf-modules": _kernel("CONFIG_DEBUG_INFO_BTF_MODULES"),
        "kernel-ftrace": _kernel("CONFIG_FTRACE and CONFIG_FTRACE_SYSCALLS"),
        "kernel-kprobes": _kernel("CONFIG_KPROBES and CONFIG_KPROBE_EVENTS"),
        "kernel-uprobes": _kernel("CONFIG_UPROBES and CONFIG_UPROBE_EVENTS"),
        "kernel-taskstats": _kernel("CONFIG_TASKSTATS"),
        "kernel-panthor": _kernel(
            "CONFIG_DRM_PANTHOR=m (Linux 6.10 and later)",
            debian="sudo apt install linux-image-arm64, of Debian 13 or of backports, and the board's device "
            "tree for it",
            ubuntu="sudo apt install linux-generic, of Ubuntu 24.10 or later, and the board's device tree "
            "for it",
            armbian="sudo armbian-config, there a kernel of the branch current or edge: the vendor's has "
            "another driver",
            fedora="sudo dnf upgrade kernel, to 6.10 or later",
            arch="sudo pacman -S linux-aarch64 (Arch Linux ARM)",
        ),
        "panthor-module": _kernel(
            "CONFIG_DRM_PANTHOR=m, not =y",
            debian="sudo apt install linux-image-arm64, whose panthor is a module",
            ubuntu="sudo apt install linux-generic, whose panthor is a module",
            fedora="sudo dnf install kernel, whose panthor is a module",
        ),
        "load-panthor": _everywhere(
            "sudo modprobe panthor; where that changes nothing: sudo dmesg | grep panthor"
        ),
        "firmware": _packages(
            "firmware-misc-nonfree",
            "linux-firmware",
            "linux-firmware",
            ubuntu="linux-firmware",
            armbian="armbian-firmware",
        ),
        "render-group": _everywhere('sudo usermod -aG {group} "$USER", then log in again'),
        "render-mode": _everywhere(
            "sudo chgrp render {node}; sudo chmod 660 {node}; udev's rules do so at boot"
        ),
        "panvk": _packages("mesa-vulkan-drivers", "mesa-vulkan-drivers", "vulkan-panfrost"),
        "vulkan-loader": _packages("libvulkan1", "vulkan-loader", "vulkan-icd-loader"),
        "libstdc++": _packages("libstdc++6", "libstdc++", "gcc-libs"),
        "icd-variable": _everywhere(
            "unset {variable}, or add the manifest of panvk to it (panfrost_icd.*.json)"
        ),
        "icd-library": _packages("--reinstall mesa-vulkan-drivers", "mesa-vulkan-drivers", "vulkan-panfrost"),
        "no-lockdown": _everywhere("boot without lockdown=confidentiality on the kernel's command line"),
        "kptr-restrict": _everywhere("sudo sysctl kernel.kptr_restrict=1"),
        "ftrace-enabled": _everywhere("sudo sysctl kernel.ftrace_enabled=1"),
        "kprobes-enabled": _everywhere("echo 1 | sudo tee /sys/kernel/debug/kprobes/enabled"),
        "host": _everywhere("run panthor-trace on the host, or in a container with --privileged --pid=host"),
        "memory-controller": _everywhere(
            "boot with cgroup_enable=memory on the kernel's command line, without cgroup_disable=memory"
        ),
        "max-map-count": _everywhere("sudo sysctl vm.max_map_count=65530"),
        "reinstall": _everywhere("install panthor-trace again"),
    }
)
