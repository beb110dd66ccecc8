"""The guest's first file system: busybox, the modules, the GPU's firmware, our init and agent."""

from __future__ import annotations

import subprocess
from pathlib import Path

from . import cache, firmware, gpus, kbuild
from .archive import run_tool
from .errors import LabError

HERE = Path(__file__).parent


def initramfs(kernel: cache.Entry, say: cache.Say) -> cache.Entry:
    """``initrd.gz`` for one kernel, with the stub GPU's module built for it."""
    sources = [
        p
        for p in (HERE / "stub_gpu").iterdir()
        if p.suffix in {".c", ".h"} or p.name in {"Makefile", "Kbuild"}
    ]
    code = [HERE / name for name in ("initramfs.py", "kbuild.py", "firmware.py", "gpus.py")]
    inputs = {
        "kernel": kernel.path.name,
        "code": cache.files_hash([*sources, *code, *(HERE / "boot").iterdir()]),
    }
    name = kernel.path.name.rsplit("-", 1)[0].replace("kernel", "initramfs")
    return cache.entry(name, inputs, lambda out: _build(out, kernel.path, say), say)


def _build(out: Path, kernel: Path, say: cache.Say) -> None:
    stub = kbuild.build_module(HERE / "stub_gpu", kernel / "build", out / "module", say)
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
    run_tool(["rm", "-rf", root, out / "module"], doing="cleaning up")


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
