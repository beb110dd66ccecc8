# SPDX-License-Identifier: MIT
"""``scripts/lab``: build, run, shell, native, status, clean."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import click

from . import assemble, cache, gpus, guest, roots
from .errors import LabError
from .kernels import KERNELS, kernel_named
from .native import native_main

#: RAM below which the kernel, its initramfs and the register file (devicetree.py) do not fit.
LEAST_MEMORY_MIB = 384

CONTEXT = {"help_option_names": ["-h", "--help"]}


def _say(line: str) -> None:
    click.echo(f"lab: {line}", err=True)


def _memory(_context: click.Context, _option: click.Parameter, value: str) -> int:
    """Mebibytes from ``830M``, ``2G`` or a plain number of mebibytes."""
    match = re.fullmatch(r"(\d+)([MG]?)(?:i?B)?", value, re.IGNORECASE)
    if not match:
        raise click.BadParameter(f"{value!r} is no size: give it as 830M or 2G")
    mib = int(match[1]) * (1024 if match[2].upper() == "G" else 1)
    if mib < LEAST_MEMORY_MIB:
        raise click.BadParameter(f"the board needs at least {LEAST_MEMORY_MIB}M")
    return mib


@click.group(context_settings=CONTEXT)
def cli() -> None:
    """A Mali CSF board without the board: Debian's kernel and the real panthor driver on a stub GPU, in QEMU.

    \b
    Examples:
      scripts/lab build
      scripts/lab run -- vulkaninfo --summary
      scripts/lab run --kernel 6.12 --share out -- simfail --all
      scripts/lab shell --user
    """


def _board_options(command: click.decorators.FC) -> click.decorators.FC:
    for option in (
        click.option(
            "--kernel", default=KERNELS[0].name, show_default=True, help="Kernel to boot (see status)."
        ),
        click.option("--gpu", default=gpus.DEFAULT, show_default=True, help="GPU the stub is (see status)."),
        click.option(
            "--memory", default="1G", show_default=True, callback=_memory, help="RAM, as 830M or 2G."
        ),
        click.option(
            "--cpus",
            default=1,
            show_default=True,
            type=click.IntRange(1, 8),
            help="Processors; with one, guest time counts instructions and no load of the host shows.",
        ),
        click.option(
            "--share",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            help="Directory the guest sees as /share; its permissions hold there, too.",
        ),
        click.option("--user", is_flag=True, help="As the ordinary user 'user' (uid 1000), not root."),
        click.option("--timeout", default=600.0, show_default=True, help="Seconds until a guest is ended."),
    ):
        command = option(command)
    return command


def _board(
    kernel: str, gpu: str, memory: int, cpus: int, share: Path | None, user: bool, timeout: float
) -> guest.Board:
    row, model = kernel_named(kernel), gpus.gpu_named(gpu)
    return guest.Board(
        images=assemble.images(row, _say),
        gpu_arguments=gpus.module_arguments(model),
        memory_mib=memory,
        cpus=cpus,
        share=share,
        user=user,
        timeout=timeout,
    )


@cli.command(context_settings={**CONTEXT, "ignore_unknown_options": True})
@_board_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(command: tuple[str, ...], **hardware: object) -> None:
    """Boot the board, run COMMAND in it, power off; its output and exit status are COMMAND's.

    Exit status 124: the time limit ended the guest; 125: the lab itself failed.
    """
    board = _board(**hardware)  # type: ignore[arg-type]
    stdin = None if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer
    with Path(os.devnull).open("wb") as nowhere:  # where a stream was closed
        stdout, stderr = (stream.buffer if stream else nowhere for stream in (sys.stdout, sys.stderr))
        sys.exit(guest.run(board, command, stdin=stdin, stdout=stdout, stderr=stderr))


@cli.command(context_settings=CONTEXT)
@_board_options
def shell(**hardware: object) -> None:
    """Boot the board with an interactive shell on this terminal."""
    if not sys.stdin.isatty():
        raise LabError("shell needs a terminal: use run for commands from a script", exit_code=2)
    sys.exit(guest.shell(_board(**hardware)))  # type: ignore[arg-type]


@cli.command(context_settings={**CONTEXT, "ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def native(command: tuple[str, ...]) -> None:
    """Run COMMAND in the native root: no board, but Vulkan on llvmpipe at this machine's own speed."""
    native_main(command)


@cli.command(context_settings=CONTEXT)
@click.option("--kernel", "names", multiple=True, help="Only this kernel's (may be given again).")
@click.option(
    "--refresh", is_flag=True, help="Take the newest packages; what they replace is kept until then."
)
def build(names: tuple[str, ...], refresh: bool) -> None:
    """Build every image a guest needs; what is there already is kept."""
    kernels = [kernel_named(name) for name in names] or KERNELS
    start = time.monotonic()
    with cache.set_aside(cache.from_packages() if refresh else []):
        roots.native_root(_say)
        for kernel in kernels:
            assemble.images(kernel, _say)
    _say(f"all images are there ({time.monotonic() - start:.0f} s), in {cache.cache_root()}")


@cli.command(context_settings=CONTEXT)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def status(as_json: bool) -> None:
    """What is built, from which packages, and what the lab can boot."""
    entries = cache.entries()
    report: dict[str, Any] = {
        "cache": str(cache.cache_root()),
        "kernels": {k.name: f"newest {k.series} of {k.suite}" for k in KERNELS},
        "gpus": {name: gpu.description for name, gpu in gpus.GPUS.items()},
        "entries": [
            {
                "name": entry.path.name,
                "build_seconds": entry.seconds,
                "bytes": cache.disk_bytes(entry.path),
                "packages": cache.packages(entry),
            }
            for entry in entries
        ],
    }
    if as_json:
        click.echo(json.dumps(report, indent=1))
        return
    click.echo(f"cache    {report['cache']}")
    for kernel in KERNELS:
        click.echo(f"kernel   {kernel.name:<10} newest {kernel.series} of {kernel.suite}")
    for name, gpu in gpus.GPUS.items():
        click.echo(f"gpu      {name:<10} {gpu.description}")
    for entry in report["entries"]:
        size = entry["bytes"] / 2**20
        click.echo(f"built    {entry['name']:<34} {size:7.0f} MiB {entry['build_seconds']:6.0f} s")
        for package, version in entry["packages"].items():
            if package.split(":")[0] in NOTABLE or package.startswith("linux-image"):
                click.echo(f"           {package} {version}")


#: Of the hundreds of packages in a root, those whose version a reader of a trace asks for.
NOTABLE = (
    "mesa-vulkan-drivers",
    "llama.cpp-tools",
    "libvulkan1",
    "python3-bpfcc",
    "python3-pandas",
    "bpftrace",
)


@cli.command(context_settings=CONTEXT)
@click.option("--all", "everything", is_flag=True, help="Every image: the next run builds anew.")
def clean(everything: bool) -> None:
    """Remove images that newer ones have replaced (with --all: every image)."""
    # Only what is known to be the lab's: the directory may be anything PANTHOR_LAB_CACHE names.
    _remove([entry.path for entry in (cache.entries() if everything else cache.superseded())])
    _remove(cache.leftovers())


def _remove(paths: list[Path]) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        if path.suffix != ".lock":
            _say(f"removed {path.name}")


def main() -> None:
    """Run the command line; a :class:`LabError` is one line and its exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):  # leave nothing behind
        signal.signal(number, lambda caught, _frame: sys.exit(128 + caught))
    try:
        cli(prog_name="scripts/lab", standalone_mode=False)
    except LabError as error:
        click.echo(f"lab: {error}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except OSError as error:
        hint = " (built as root: use sudo)" if error.errno == errno.EACCES else ""
        click.echo(f"lab: {error.strerror}: {error.filename}{hint}", err=True)
        sys.exit(125)
    except (KeyboardInterrupt, click.Abort):
        click.echo("lab: interrupted", err=True)
        sys.exit(130)
