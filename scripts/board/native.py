# SPDX-License-Identifier: MIT
"""Run commands of the native root on this machine's kernel: real llama-bench and Vulkan, on llvmpipe.

No emulation, so a run takes half a second; no Mali, so only the user-space side shows. The command
is reached by ``exec`` alone (unshare, sh, chroot, env, command: one process, one PID), so whoever starts it
is its parent and can trace or signal it. Mounts live in a mount namespace of that process and vanish with it,
however it ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from . import models, roots
from .cache import Say, cache_root
from .errors import LabError
from .provision import TRIPLETS

#: The repository, read-only in the root as /src.
_SOURCE = Path(__file__).resolve().parents[2]

#: Exit status of the set-up when a mount fails; its stderr then starts with _MARK.
_SETUP_FAILED = 125
_MARK = "native root: "

#: $1 root, $2 models, $3 shader cache, $4 source, $5 shared directory or "", then the command.
#: The root is bound over itself read-only: a cached entry must stay what it was built as. rbind, because a
#: user namespace may not take a mount apart from what is mounted below it (mount_namespaces(7)).
_SETUP = f"""\
fail() {{ echo "{_MARK}cannot mount $1" >&2; exit {_SETUP_FAILED}; }}
root=$1 models=$2 shaders=$3 source=$4 share=$5; shift 5
mount --bind "$root" "$root" && mount -o remount,bind,ro "$root" || fail "$root"
for tree in proc dev sys tmp; do mount --rbind "/$tree" "$root/$tree" || fail "/$tree"; done
mount --bind "$models" "$root/models" || fail "$models"
mount --bind "$source" "$root/src" && mount -o remount,bind,ro "$root/src" || fail "$source"
mount --bind "$shaders" "$root/var/cache/mesa" || fail "$shaders"
if [ -n "$share" ]; then mount --bind "$share" "$root/share" || fail "$share"; fi
exec chroot "$root" "$@"
"""

#: The command's whole environment, before the caller's additions: nothing of this machine's leaks in.
ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "VK_DRIVER_FILES": "/usr/share/vulkan/icd.d/lvp_icd.json",
    # ggml skips Vulkan devices of type CPU unless they are named. Skipped, it computes without Vulkan and
    # llama-bench's table says "Vulkan" all the same [measured, llama.cpp 0.7.0].
    "GGML_VK_VISIBLE_DEVICES": "0",
    # Compiling the shaders takes llvmpipe 12 s, a run with them at hand 0.4 s [measured].
    "MESA_SHADER_CACHE_DIR": "/var/cache/mesa",
}


def native_command(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, share: Path | None = None, say: Say
) -> list[str]:
    """The argument vector that becomes ``command`` in the native root, by ``exec`` alone.

    In the root: /models (the models), /src (this source tree), /tmp (this machine's), /share (``share``,
    where given). ``env`` is added to :data:`ENVIRONMENT`. Builds root and models where missing.
    """
    if not command:
        raise LabError("no command to run in the native root")
    root = roots.native_root(say).path / "root"
    places = [root, models.models(say).path, _shader_cache(), _SOURCE, share.resolve() if share else ""]
    variables = [f"{name}={value}" for name, value in {**ENVIRONMENT, **(env or {})}.items()]
    return [
        "unshare",
        # Without root's rights: be root of a namespace of our own, with our own files only.
        *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]),
        *("--mount", "--propagation", "private", "--"),
        *("/bin/sh", "-c", _SETUP, "native-root", *map(str, places)),
        *("/usr/bin/env", "-i", *variables, *command),
    ]


def native_run(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    share: Path | None = None,
    timeout: float | None = None,
    say: Say = lambda line: print(line, file=sys.stderr),
) -> subprocess.CompletedProcess[str]:
    """Run ``command`` in the native root; its status and output. See :func:`native_command`.

    Raises :class:`LabError` where the root cannot be entered, ``subprocess.TimeoutExpired`` after ``timeout``
    seconds with the command killed. A command that does not exist is exit status 127, as in a shell.
    """
    arguments = native_command(command, env=env, share=share, say=say)
    done = subprocess.run(
        arguments, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=timeout, check=False
    )
    refused = done.stderr.startswith("unshare: ")
    if refused or (done.returncode == _SETUP_FAILED and _MARK in done.stderr):
        reason = "; ".join(done.stderr.split("\n")).strip("; ")
        raise LabError(f"cannot enter the native root ({reason}): needs root, or user namespaces, and mount")
    return done


def native_main(args: Sequence[str]) -> NoReturn:
    """``lab native -- CMD``: become the command. Its exit status and signals are then this process's own."""
    arguments = native_command(args, say=lambda line: print(line, file=sys.stderr, flush=True))
    sys.stdout.flush()
    try:
        os.execvp(arguments[0], arguments)
    except OSError as error:
        raise LabError(f"cannot run {arguments[0]}: {error.strerror}") from error


def native_library(soname: str, say: Say) -> Path:
    """The file of one of the native root's libraries, say ``libvulkan.so.1``, as this machine sees it.

    Links are resolved: it is the inode a uprobe is to be put on, and the same one inside the root.
    """
    path = roots.native_root(say).path / "root/usr/lib" / TRIPLETS["amd64"] / soname
    if not path.exists():
        raise LabError(f"the native root has no {soname}")
    return path.resolve()


def _shader_cache() -> Path:
    """Mesa's cache, kept between runs: below the lab's, or the user's own where that is somebody else's."""
    places = (cache_root() / "native-shaders", Path.home() / ".cache/panthor-trace/native-shaders")
    for place in places:
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(place, os.W_OK):
            return place
    raise LabError(
        f"cannot write to {places[0]} nor {places[1]}: set PANTHOR_LAB_CACHE to a directory of yours"
    )
