# SPDX-License-Identifier: MIT
"""From packages and sources to what a guest boots: which part is made of which."""

from __future__ import annotations

import concurrent.futures
import shlex
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path

from . import cache, gpus, guest, models, roots, simfail
from .errors import LabError
from .image import ext4_image
from .initramfs import initramfs
from .kernels import KERNELS, Kernel, kernel_entry

HERE = Path(__file__).parent

#: llama-bench runs whose shaders are compiled at build time, of each model; a run with other shapes works,
#: but compiles what it lacks, at minutes a run.
WARM_RUNS = (
    ("-p", "64", "-ub", "64", "-n", "0"),
    ("-p", "128", "-ub", "128", "-n", "0"),
)

#: Packages (by how their names begin) that decide what is compiled.
SHADER_PACKAGES = ("mesa-", "libggml", "llama.cpp")


def images(kernel: Kernel, say: cache.Say) -> guest.Images:
    """Build (or find) all that booting ``kernel`` takes, warm shader cache included."""
    return _images(kernel, _warm_workload(say), say)


def _images(kernel: Kernel, workload: cache.Entry, say: cache.Say) -> guest.Images:
    built = kernel_entry(kernel, say)
    return guest.Images(
        kernel=built.path / "vmlinuz",
        initrd=initramfs(kernel, built, say).path / "initrd.gz",
        root=_root_image(say).path / "root.img",
        workload=workload.path / "workload.img",
    )


def _root_image(say: cache.Say) -> cache.Entry:
    root = roots.guest_root(say)
    inputs = {"root": root.identity, "code": cache.files_hash([HERE / "image.py"])}

    def build(out: Path) -> None:
        ext4_image(root.path / "root", out / "root.img")

    return cache.entry("root-image", inputs, build, say)


def _programs(say: cache.Say) -> cache.Entry:
    """What goes to /usr/local/bin of the guest: simfail and gpustress, and the scripts of tools/."""
    kernel = kernel_entry(KERNELS[0], say)
    uapi = kernel.path / "build" / "usr" / "include"
    tools = sorted((HERE / "tools").iterdir())
    sources = sorted(
        p for p in (HERE / "simfail").iterdir() if p.suffix in {".c", ".h"} or p.name == "Makefile"
    )
    inputs = {"code": cache.files_hash([*tools, *sources, HERE / "simfail.py"]), "uapi": kernel.identity}

    def build(out: Path) -> None:
        simfail.build_simfail(uapi, out, cross=True, say=say)
        for tool in tools:
            shutil.copy(tool, out / tool.name)

    return cache.entry("programs", inputs, build, say)


def _workload(say: cache.Say, shaders: cache.Entry | None) -> cache.Entry:
    """The second disk: models, the programs that make things fail, compiled shaders."""
    made = models.models(say)
    programs = _programs(say)
    inputs = {
        "models": made.path.name,
        "programs": programs.path.name,
        "shaders": shaders.path.name if shaders else None,
        "code": cache.files_hash([HERE / "image.py"]),
    }

    def build(out: Path) -> None:
        content = out / "content"
        shutil.copytree(made.path, content / "models", ignore=shutil.ignore_patterns("entry.json"))
        shutil.copytree(programs.path, content / "bin", ignore=shutil.ignore_patterns("entry.json"))
        cached = content / "mesa_shader_cache"
        if shaders:
            shutil.copytree(shaders.path / "mesa_shader_cache", cached)
        else:
            cached.mkdir()
        for path in (cached, *cached.rglob("*")):  # any user of the guest reads and adds to it
            path.chmod(0o777 if path.is_dir() else 0o666)
        ext4_image(content, out / "workload.img", spare=128 << 20)
        shutil.rmtree(content)

    return cache.entry("workload", inputs, build, say)


def _warm_workload(say: cache.Say) -> cache.Entry:
    return _workload(say, _shaders(say))


def _shaders(say: cache.Say) -> cache.Entry:
    """Mesa's shader cache after the warm runs: made once in a guest, the slow part of the whole build.

    It depends on Mesa, ggml's shaders, the GPU and the models, not on the kernel or the stub's code.
    """
    versions = cache.packages(roots.guest_root(say))
    gpu = gpus.gpu_named(gpus.DEFAULT)
    inputs = {
        "packages": {name: version for name, version in versions.items() if name.startswith(SHADER_PACKAGES)},
        "models": [asdict(spec) for spec in models.MODELS],
        "gpu": list(gpus.module_arguments(gpu)),
        "runs": WARM_RUNS,
    }
    return cache.entry("shaders", inputs, lambda out: _compile_shaders(out, say), say)


def _compile_shaders(out: Path, say: cache.Say) -> None:
    """Run every warm run of every model, a guest each model side by side; keep what Mesa cached."""
    board = guest.Board(
        images=_images(KERNELS[0], _workload(say, None), say),
        gpu_arguments=gpus.module_arguments(gpus.gpu_named(gpus.DEFAULT)),
        share=out,
        timeout=1500,
        deterministic=False,
    )
    cached = out / "mesa_shader_cache"
    cached.mkdir()

    def warm(model: str) -> None:
        runs = " && ".join(
            shlex.join(["llama-bench", "-m", f"/models/{model}", "-r", "1", *run]) for run in WARM_RUNS
        )
        with tempfile.TemporaryFile() as output:
            script = f"{runs} && cp -r /workload/mesa_shader_cache /share/"
            status = guest.run(board, ["sh", "-c", script], stdin=None, stdout=output, stderr=output)
            if status != 0:
                output.seek(0)
                raise LabError(
                    f"warming the shader cache with {model} failed: {output.read().decode()[-400:]!r}"
                )
        say(f"shaders: those of {model} are compiled")

    say("shaders: compiling llama-bench's under emulation, once; this takes minutes")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        try:
            list(pool.map(warm, [f"{spec.name}.gguf" for spec in models.MODELS]))
        except BaseException:  # else an interrupted build waits for its guests
            guest.end_all()
            raise
