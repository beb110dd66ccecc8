# SPDX-License-Identifier: MIT
"""What maintainer scripts would have done in a root made by extraction, as far as the bench needs it.

Each step is one function over the root's directory and says why it is needed. Nothing runs in the root:
its ldconfig and the native root's Python are started from outside, without chroot or mounts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .cache import Say
from .errors import LabError

#: Debian's multiarch directory names and the user-mode emulators of what this machine cannot run.
TRIPLETS: Mapping[str, str] = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
_EMULATORS: Mapping[str, Sequence[str]] = {"amd64": (), "arm64": ("qemu-aarch64-static", "qemu-aarch64")}

#: Not read by anything the bench runs; a third of the packages' files. Mirror addresses go with etc/apt,
#: this machine's name and resolver with hostname and resolv.conf (mmdebstrap copies them in).
PRUNED = (
    "dev",  # nodes only root can copy; devtmpfs, or the machine's own /dev, is mounted there
    "etc/apt",
    "etc/resolv.conf",
    "usr/share/bash-completion",
    "usr/share/bug",
    "usr/share/doc",
    "usr/share/doc-base",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/X11",
    "usr/lib/{triplet}/gconv",
    "var/cache/apt",
    "var/lib/apt",
)

#: Where the bench mounts things: models, a shared directory, this source tree; Mesa's compiled shaders.
MOUNT_POINTS = ("mnt", "models", "share", "src", "var/cache/mesa")

#: link -> target, as update-alternatives would have chosen. numpy and pandas load BLAS by these names.
ALTERNATIVES: Mapping[str, str] = {
    "usr/bin/awk": "mawk",
    "usr/bin/which": "which.debianutils",
    "usr/lib/{triplet}/libblas.so.3": "blas/libblas.so.3",
    "usr/lib/{triplet}/liblapack.so.3": "lapack/liblapack.so.3",
}

#: The unprivileged user: the board's usual one, who may open the render node and use sudo.
USER = "user"
_USER_ID = 1000
#: group -> (gid where base-passwd's table has none, whether USER is a member). render's number is udev's to
#: choose on a real system, from the dynamic range; nothing depends on it.
_GROUPS: Mapping[str, tuple[int, bool]] = {"video": (44, True), "render": (992, True), "sudo": (27, True)}


def provision(root: Path, arch: str, vulkan_driver: str, say: Say) -> None:
    """Make an extracted ``root`` usable: prune, mount points, links, accounts, sudo, names, loader cache."""
    triplet = TRIPLETS[arch]
    before = tree_bytes(root)
    prune(root, triplet)
    add_mount_points(root)
    keep_vulkan_driver(root, triplet, vulkan_driver)
    link_alternatives(root, triplet)
    add_accounts(root)
    allow_sudo(root)
    name_host(root)
    cache_libraries(root, arch, say)
    say(f"root: {before >> 20} MiB extracted, {tree_bytes(root) >> 20} MiB kept")


def tree_bytes(root: Path) -> int:
    """Bytes of the regular files below ``root``, links not followed."""
    return sum(
        path.lstat().st_size
        for directory, _, names in os.walk(root)
        for path in (Path(directory, name) for name in names)
        if path.is_file() and not path.is_symlink()
    )


def prune(root: Path, triplet: str) -> None:
    """Remove :data:`PRUNED`: the image is built and copied often."""
    for pattern in PRUNED:
        path = root / pattern.format(triplet=triplet)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def add_mount_points(root: Path) -> None:
    """Make :data:`MOUNT_POINTS` and those pruned: a root mounted read-only cannot have them made later."""
    for name in ("dev", *MOUNT_POINTS):
        (root / name).mkdir(parents=True, exist_ok=True)


def keep_vulkan_driver(root: Path, triplet: str, driver: str) -> None:
    """Remove all of Mesa's Vulkan drivers except ``driver`` (150 MiB, and the loader would open each)."""
    manifests = root / "usr/share/vulkan/icd.d"
    libraries = root / "usr/lib" / triplet
    if not (manifests / f"{driver}_icd.json").exists():
        raise LabError(
            f"the Mesa package for {triplet} has no Vulkan driver '{driver}': has it been renamed?"
        )
    for manifest in manifests.glob("*_icd.json"):
        if manifest.name != f"{driver}_icd.json":
            manifest.unlink()
    for library in libraries.glob("libvulkan_*.so"):
        if library.name != f"libvulkan_{driver}.so":
            library.unlink()


def link_alternatives(root: Path, triplet: str) -> None:
    """Make the links of :data:`ALTERNATIVES` whose target was extracted."""
    for name, target in ALTERNATIVES.items():
        link = root / name.format(triplet=triplet)
        if (link.parent / target).exists() and not link.is_symlink() and not link.exists():
            link.symlink_to(target)


def add_accounts(root: Path) -> None:
    """passwd, group and shadow from base-passwd's tables, plus :data:`USER` with a home.

    No account has a password: root logs in on the console by the bench's init, the user by ``su`` or setpriv.
    """
    etc, masters = root / "etc", root / "usr/share/base-passwd"
    passwd = (masters / "passwd.master").read_text().splitlines()
    passwd.append(f"{USER}:x:{_USER_ID}:{_USER_ID}:board user:/home/{USER}:/bin/bash")
    groups = {line.split(":")[0]: line for line in (masters / "group.master").read_text().splitlines()}
    groups[USER] = f"{USER}:x:{_USER_ID}:"
    for name, (gid, member) in _GROUPS.items():
        known = groups.get(name, f"{name}:*:{gid}:")
        groups[name] = known.rsplit(":", 1)[0] + ":" + (USER if member else "")
    _write(etc / "passwd", [line.replace(":*:", ":x:", 1) for line in passwd])
    _write(etc / "group", [line.replace(":*:", ":x:", 1) for line in groups.values()])
    _write(etc / "shadow", [f"{line.split(':')[0]}:*:20000:0:99999:7:::" for line in passwd], 0o640)
    home = root / "home" / USER
    for path in (home, home / ".cache"):
        path.mkdir(exist_ok=True)
        os.chown(path, _USER_ID, _USER_ID)
    # libc-bin's postinst copies this one; without it glibc 2.43 still reads "files", but say so.
    _write(
        etc / "nsswitch.conf", [f"{db}: files" for db in ("passwd", "group", "shadow", "hosts", "protocols")]
    )


def allow_sudo(root: Path) -> None:
    """Let :data:`USER` use sudo without a password, so that it is tested as people run it.

    Debian's PAM services include common-* files that pam-auth-update makes; ours permit and ask nothing.
    "other" too is replaced: libpam reads it at every start and gives up where an include is missing.
    The setuid bit is in the package already; checked, because a copy by another user would have lost it.
    """
    sudo = root / "usr/bin/sudo"
    if not sudo.exists():
        return
    if sudo.stat().st_uid != 0 or not sudo.stat().st_mode & 0o4000:
        raise LabError(f"{sudo} is not setuid root: the file system of the cache must not be mounted nosuid")
    permit = [f"{kind} required pam_permit.so" for kind in ("auth", "account", "session")]
    for service in ("sudo", "sudo-i", "su", "su-l", "runuser", "runuser-l"):
        _write(root / "etc/pam.d" / service, permit)
    _write(root / "etc/pam.d/other", [line.replace("permit", "deny") for line in permit])
    (root / "etc/sudoers").chmod(0o440)
    _write(root / "etc/sudoers.d" / USER, [f"{USER} ALL=(ALL:ALL) NOPASSWD: ALL"], 0o440)


def name_host(root: Path) -> None:
    """A name that resolves: sudo asks for its own host's address at every start."""
    _write(root / "etc/hostname", ["board"])
    _write(root / "etc/hosts", ["127.0.0.1 localhost board", "::1 localhost"])


def cache_libraries(root: Path, arch: str, say: Say) -> None:
    """Write etc/ld.so.cache with the root's own ldconfig, which is static and takes ``-r``.

    This machine's ldconfig writes an empty cache for another architecture [measured, glibc 2.36]. Without
    one everything still starts, because ld.so searches the multiarch directories by itself; only
    ``ctypes.util.find_library`` (``ldconfig -p``) finds nothing. So a missing emulator is said, not fatal.
    """
    emulators = _EMULATORS[arch]
    found = next(filter(None, map(shutil.which, emulators)), None)
    if emulators and found is None:
        say(
            f"root: no ld.so.cache ({' or '.join(emulators)} not installed): find_library finds nothing there"
        )
        return
    command = [*([found] if found else []), str(root / "usr/sbin/ldconfig"), "-r", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"ldconfig in the {arch} root failed: {_last_line(done)}")


def compile_python(root: Path, native: Path, say: Say) -> None:
    """Byte-compile ``root``'s Python modules with the Python of ``native``, another root of the same release.

    Byte code does not depend on the architecture, and without it every start in the guest compiles what it
    imports, under emulation. ``unchecked-hash``: valid whatever time stamps the image gives the sources.
    The native Python is started through its own loader, so neither chroot nor mounts are needed.
    """
    libraries = native / "usr/lib" / TRIPLETS["amd64"]
    (python,) = (native / "usr/bin").glob("python3.[0-9]*[0-9]")
    if not (root / "usr/bin" / python.name).exists():
        raise LabError(f"the roots' Python differ ({python.name} here): rebuild both with scripts/lab")
    say("root: compiling Python modules")
    command = [
        *(str(native / "usr/lib64/ld-linux-x86-64.so.2"), "--library-path", str(libraries), str(python)),
        *("-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"),
        *("-s", str(root), "-p", "/"),
        *map(str, sorted((root / "usr/lib").glob("python3*"))),
    ]
    environment = {"PYTHONHOME": str(native / "usr"), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    # Exit status 1 is "not all of them": packages ship tests that are syntax errors on purpose.
    if done.returncode not in (0, 1) or not list((root / "usr/lib").glob("python3.*/__pycache__/os.*.pyc")):
        raise LabError(f"compiling the root's Python modules failed: {_last_line(done)}")


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr + done.stdout).strip().splitlines()
    return lines[-1] if lines else f"exit status {done.returncode}"


def _write(path: Path, lines: Sequence[str], mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text("\n".join(lines) + "\n")
    path.chmod(mode)
