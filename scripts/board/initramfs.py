# SPDX-License-Identifier: MIT
"""The guest's first file system: busybox, the modules, the GPU's firmware, our init and agent."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from . import cache, firmware, gpus, kbuild
from .errors import LabError
from .kernels import Kernel

HERE = Path(__file__).parent


def initramfs(kernel: Kernel, built: cache.Entry, say: cache.Say) -> cache.Entry:
    """``initrd.gz`` for one kernel, ``built`` being its kernel_entry; the stub GPU's module included."""
    stub = _stub(kernel, built, say)
    code = [HERE / name for name in ("initramfs.py", "firmware.py", "gpus.py")]
    inputs = {
        "kernel": built.identity,
        "stub": stub.path.name,
        "code": cache.files_hash([*code, *(HERE / "boot").iterdir()]),
    }
    return cache.entry(
        f"initramfs-{kernel.name}",
        inputs,
        lambda out: _build(out, built.path, stub.path / "stub_gpu.ko"),
        say,
    )


def _stub(kernel: Kernel, built: cache.Entry, say: cache.Say) -> cache.Entry:
    """The stub GPU's module for one kernel."""
    source = HERE / "stub_gpu"
    files = [path for path in source.iterdir() if path.suffix in {".c", ".h"} or path.name == "Kbuild"]
    inputs = {
        "kernel": built.identity,
        "code": cache.files_hash([*files, HERE / "kbuild.py"]),
    }

    def build(out: Path) -> None:
        kbuild.build_module(source, built.path / "build", out, say)
        for leftover in ("bin", "headers", "module"):
            shutil.rmtree(out / leftover)

    return cache.entry(f"stub-{kernel.name}", inputs, build, say)


def _build(out: Path, kernel: Path, stub: Path) -> None:
    root = out / "root"
    for directory in ("bin", "dev", "proc", "sys", "run", "root", "modules"):
        (root / directory).mkdir(parents=True)
    _install(kernel / "build" / "usr" / "bin" / "busybox", root / "bin" / "busybox", 0o755)
    (root / "bin" / "sh").symlink_to("busybox")
    _install(HERE / "boot" / "init", root / "init", 0o755)
    _install(HERE / "boot" / "agent", root / "agent", 0o644)
    order = (kernel / "modules" / "order").read_text().split()
    for module in order:
        _install(kernel / "modules" / module, root / "modules" / module, 0o644)
    _install(stub, root / "modules" / "stub_gpu.ko", 0o644)
    # The GPU is there before its driver, as on a board.
    order.insert(order.index("panthor.ko"), "stub_gpu.ko")
    (root / "modules" / "order").write_text("\n".join(order) + "\n")
    for directory in gpus.firmware_dirs():
        target = root / "lib" / "firmware" / "arm" / "mali" / directory
        target.mkdir(parents=True)
        (target / "mali_csffw.bin").write_bytes(firmware.image(firmware.layout_for(directory)))
    _pack(root, out / "initrd.gz")
    shutil.rmtree(root)


def _install(source: Path, target: Path, mode: int) -> None:
    target.write_bytes(source.read_bytes())
    target.chmod(mode)


def _pack(root: Path, target: Path) -> None:
    """newc cpio, gzip: what every kernel unpacks. Level 1: inflating is emulated."""
    script = 'cd "$1" && find . | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0 | gzip -1 > "$2"'
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", script, "bash", str(root), str(target)],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise LabError(f"packing the initramfs failed: {done.stderr.strip() or done.returncode}")
