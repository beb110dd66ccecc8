# SPDX-License-Identifier: MIT
"""An out-of-tree arm64 module, built against *unpacked* Debian packages on an amd64 host.

Nothing is installed: ``linux-headers-*-arm64``, ``linux-headers-*-common``, the amd64 ``linux-kbuild-*`` and
an amd64 ``libc6`` (``kernels.TOOL_PACKAGES``) are unpacked into one directory. What stands between such a
directory and a build, and what is done about each:

* the headers' Makefile includes ``/usr/src/…`` by absolute path: a view of the tree (links, and one Makefile
  of our own) is made beside the module;
* it asks for the compiler the kernel was built with, ``aarch64-linux-gnu-gcc-14``: where the host has only
  another one, that is used through a wrapper that spells ``-fmin-function-alignment`` (GCC 14) its way;
* ``modpost`` is linked against the C library of the packages' own release (2.38 or later; Debian 12 has
  2.36): it runs through the loader of the unpacked ``libc6``;
* BTF of modules needs ``pahole``: left out, nothing reads the module's BTF.

Which kernel the module is for (``vermagic``, and symbol CRCs where the kernel has MODVERSIONS: 6.12 does, 7.3
does not) comes from the headers; it is checked afterwards.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .cache import Say
from .errors import LabError

CROSS = "aarch64-linux-gnu-"

_COMPILER_WRAPPER = """\
#!/bin/sh
# -fmin-function-alignment came with GCC 14.
for word do
    shift
    case $word in
    -fmin-function-alignment=*) word=-falign-functions=${{word#*=}} ;;
    esac
    set -- "$@" "$word"
done
exec {compiler} "$@"
"""

_MODPOST_WRAPPER = """\
#!/bin/sh
exec {loader} --library-path {libraries} {modpost} "$@"
"""


def _only(matches: Sequence[Path], what: str, where: Path) -> Path:
    if len(matches) != 1:
        raise LabError(f"expected one {what} unpacked in {where}, found {len(matches)}")
    return matches[0]


def _link_all(source: Path, view: Path, *, but: Sequence[str]) -> None:
    """Make ``view`` a directory of links to what ``source`` holds, except the names in ``but``."""
    view.mkdir(parents=True, exist_ok=True)
    for entry in source.iterdir():
        if entry.name not in but:
            (view / entry.name).symlink_to(entry.resolve())


def _executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def _headers_view(unpacked: Path, view: Path) -> None:
    """A tree ``make -C`` can be pointed at, like ``/usr/src/linux-headers-…`` once installed."""
    sources = unpacked / "usr/src"
    flavour = _only(sorted(sources.glob("linux-headers-*-arm64")), "linux-headers-*-arm64", unpacked)
    common = _only(sorted(sources.glob("linux-headers-*-common")), "linux-headers-*-common", unpacked)
    libraries = unpacked / "usr/lib/x86_64-linux-gnu"
    loader = libraries / "ld-linux-x86-64.so.2"
    modpost = flavour / "scripts/mod/modpost.real-lsb-64"
    for needed in (loader, modpost):
        if not needed.exists():
            raise LabError(f"{needed} is missing: unpack libc6 and linux-kbuild into {unpacked}")
    _link_all(flavour, view, but=("Makefile", "scripts"))
    _link_all(flavour / "scripts", view / "scripts", but=("mod",))
    _link_all(flavour / "scripts/mod", view / "scripts/mod", but=("modpost",))
    (view / "Makefile").write_text(f"KBUILD_OUTPUT={view}\ninclude {common}/Makefile\n")
    wrapper = _MODPOST_WRAPPER.format(loader=loader, libraries=libraries, modpost=modpost.resolve())
    _executable(view / "scripts/mod/modpost", wrapper)


def _compiler(directory: Path) -> Path:
    """The cross compiler to use as CC: the kernel's own if the host has it, else the host's, wrapped."""
    if exact := shutil.which(f"{CROSS}gcc-14"):
        return Path(exact)
    other = shutil.which(f"{CROSS}gcc")
    if not other:
        raise LabError("building the stub GPU needs gcc-aarch64-linux-gnu: run scripts/setup")
    return _executable(directory / f"{CROSS}gcc", _COMPILER_WRAPPER.format(compiler=other))


def _make(command: Sequence[str], log: Path) -> None:
    """Run make with its output in ``log``; a failure shows the first error of it."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")
    }
    with log.open("w") as output:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
    if done.returncode == 0:
        return
    lines = log.read_text(errors="replace").splitlines()
    errors = [line.strip() for line in lines if re.search(r"\berror\b|\*\*\*", line, re.IGNORECASE)]
    raise LabError(f"the module did not compile: {errors[0] if errors else 'no error message'}")


def _field(module: Path, field: str) -> str:
    done = subprocess.run(["modinfo", "-F", field, module], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def build_module(source: Path, headers: Path, out: Path, say: Say) -> Path:
    """Build the module in directory ``source`` and return ``out/NAME.ko``, without debug information.

    ``headers`` is where the packages are unpacked, and stays as it is; ``out`` must exist. The module's
    name is that of ``source``'s directory. Raises :class:`LabError` if the module does not compile (with the
    first error), a package is missing, or the module turns out to be for another kernel.
    """
    headers, out = headers.resolve(), out.resolve()
    view, module = out / "headers", out / "module"
    for directory in (view, module):
        shutil.rmtree(directory, ignore_errors=True)
    _headers_view(headers, view)
    module.mkdir()
    for file in sorted(source.iterdir()):
        if file.suffix in (".c", ".h") or file.name == "Kbuild":
            shutil.copy(file, module)
    release = (view / "include/config/kernel.release").read_text().strip()
    say(f"compiling {source.name} for {release}")
    compiler = _compiler(out / "bin")
    _make(
        [
            "make",
            "-C",
            str(view),
            f"M={module}",
            f"CC={compiler}",
            "CONFIG_DEBUG_INFO_BTF_MODULES=",
            "modules",
        ],
        out / "build.log",
    )
    built = out / f"{source.name}.ko"
    subprocess.run([f"{CROSS}strip", "-g", module / built.name, "-o", built], check=True)
    vermagic = _field(built, "vermagic")
    if vermagic.split()[0] != release:
        raise LabError(f"{built} came out for {vermagic.split()[0]}, not for {release}")
    return built
