# SPDX-License-Identifier: MIT
"""The kernels the lab boots: Debian's own, unmodified, with their real panthor.ko.

Adding a kernel is one row of :data:`KERNELS`.
"""

from __future__ import annotations

import json
import lzma
import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from . import cache
from .archive import Archive, Package, run_tool
from .errors import LabError


@dataclass(frozen=True)
class Kernel:
    """A kernel series of a Debian suite: the newest version there is taken when the image is built."""

    name: str
    series: str
    suite: str


KERNELS = (
    Kernel("7.3", series="7.3", suite="trixie-backports"),
    Kernel("6.12", series="6.12", suite="trixie"),
)

#: Modules the guest needs, in no order; what they depend on comes along. "fixed" is the regulator without
#: which 6.12's panthor does not probe (its panthor_devfreq.c takes ENODEV as fatal).
#: crc32c_generic is what 6.12's ext4 asks for by the algorithm's name, so it is no dependency of the module.
MODULES = (
    *("fixed", "panthor"),
    *("virtio_blk", "crc32c_generic", "ext4"),
    *("9p", "9pnet_virtio", "virtio_console"),
)

#: Packages beside linux-image that newer kernels are split into; taken where the archive has them.
IMAGE_PARTS = ("linux-binary-{release}-arm64", "linux-modules-{release}-arm64")

#: Where packages come from that the kernel's own suite (backports) does not carry.
BASE_SUITE = "trixie"

#: (package, architecture) of what building a module takes (see kbuild.py), of panthor_drm.h for the test
#: programs, and of the initramfs's busybox.
TOOL_PACKAGES = (
    ("linux-headers-{release}-arm64", "arm64"),
    ("linux-headers-{release}-common", "all"),
    ("linux-kbuild-{release}", "amd64"),
    ("libc6", "amd64"),
    ("linux-libc-dev", "all"),
    ("busybox-static", "arm64"),
)


def kernel_named(name: str) -> Kernel:
    """The table's row; :class:`LabError` listing the names otherwise."""
    for kernel in KERNELS:
        if kernel.name == name:
            return kernel
    raise LabError(f"no kernel {name!r} in the lab: it has {', '.join(k.name for k in KERNELS)}", exit_code=2)


def kernel_entry(kernel: Kernel, say: cache.Say) -> cache.Entry:
    """Kernel image, wanted modules, and what building a module for it takes.

    Layout: ``vmlinuz``, ``modules/*.ko`` with ``modules/order`` (dependencies first), ``build/`` (headers and
    kbuild, unpacked), ``release`` (``uname -r``), ``packages.json``.
    """
    inputs = {
        "kernel": asdict(kernel),
        "modules": MODULES,
        "tools": TOOL_PACKAGES,
        "code": cache.files_hash([Path(__file__)]),
    }
    return cache.entry(f"kernel-{kernel.name}", inputs, lambda out: _build(kernel, out, say), say)


def _build(kernel: Kernel, out: Path, say: cache.Say) -> None:
    archive = Archive(out / "apt", sorted({kernel.suite, BASE_SUITE}))
    series = re.escape(kernel.series)
    image = archive.newest(rf"linux-image-{series}\.\d+[^-]*-arm64", arch="arm64", suite=kernel.suite)
    uname = image.name.removeprefix("linux-image-")
    release = uname.removesuffix("-arm64")
    say(f"kernel {kernel.name}: taking {image.name} {image.version} from {kernel.suite}")

    def named(template: str, arch: str) -> Package:
        name = template.format(release=release)
        suite = kernel.suite if archive.has(name, kernel.suite) else BASE_SUITE
        return archive.newest(re.escape(name), arch=arch, suite=suite)

    parts = [image] + [
        named(template, "arm64")
        for template in IMAGE_PARTS
        if archive.has(template.format(release=release), kernel.suite)
    ]
    tools = [named(template, arch) for template, arch in TOOL_PACKAGES]
    archive.fetch(parts, out / "image")
    archive.fetch(tools, out / "build")
    _take_image(out, uname)
    _take_modules(out, uname)
    shutil.rmtree(out / "image")
    shutil.rmtree(out / "apt")
    (out / "release").write_text(uname)
    taken = {f"{p.name}:{p.arch}": p.version for p in (*parts, *tools)}
    (out / "packages.json").write_text(json.dumps(taken, indent=1))


def _take_image(out: Path, uname: str) -> None:
    found = [p for p in (out / "image").rglob("vmlinuz*") if p.is_file()]
    if len(found) != 1:
        raise LabError(f"the packages of kernel {uname} hold {len(found)} vmlinuz files, expected one")
    shutil.move(found[0], out / "vmlinuz")


def _take_modules(out: Path, uname: str) -> None:
    """Unpack the wanted modules and list them in an order in which insmod finds its dependencies loaded."""
    tree = next(iter((out / "image").rglob(f"lib/modules/{uname}/kernel")), None)
    if tree is None:
        raise LabError(f"the packages of kernel {uname} hold no modules")
    by_name = {p.name.split(".ko")[0].replace("-", "_"): p for p in tree.rglob("*.ko*")}
    modules = out / "modules"
    modules.mkdir()
    order: list[str] = []

    def take(name: str) -> None:
        name = name.replace("-", "_")
        if f"{name}.ko" in order:
            return
        packed = by_name.get(name)
        if packed is None:
            return  # built in: modinfo lists those as dependencies, too
        module = modules / f"{name}.ko"
        content = packed.read_bytes()
        module.write_bytes(lzma.decompress(content) if packed.suffix == ".xz" else content)
        depends = run_tool(["modinfo", "-F", "depends", module], doing="reading module dependencies")
        for dependency in depends.strip().split(","):
            if dependency:
                take(dependency)
        order.append(module.name)

    for name in MODULES:
        take(name)
    if "panthor.ko" not in order:
        raise LabError(f"kernel {uname} has no panthor.ko: the lab is of no use without it")
    (modules / "order").write_text("\n".join(order) + "\n")
