# SPDX-License-Identifier: MIT
"""Built things, cached by the hash of what they were built from.

An entry is a directory ``<kind>-<hash>`` below :func:`cache_root`. It is built as
``<kind>-<hash>.<pid>.partial`` and renamed when complete, so a half-built entry is never used, whatever ended
the build. (The process id: children of a killed builder may go on writing for a while.) Builders of the same
entry wait for one another (``flock``); builders of different ones do not.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pwd
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError

#: What the build says while it goes on: one line at a time.
Say = Callable[[str], None]


def cache_root() -> Path:
    """``$PANTHOR_LAB_CACHE``, else ``panthor-trace/lab`` below the user's cache directory.

    Under sudo the invoking user's: building needs root, running what was built does not.
    """
    override = os.environ.get("PANTHOR_LAB_CACHE")
    if override:
        return Path(override)
    if "SUDO_UID" in os.environ:
        base = Path(pwd.getpwuid(int(os.environ["SUDO_UID"])).pw_dir) / ".cache"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "panthor-trace" / "lab"


def _make_root() -> Path:
    root = cache_root()
    try:
        root.mkdir(parents=True, exist_ok=True)
        if "SUDO_UID" in os.environ:
            for path in (root.parent, root):
                os.chown(path, int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"]))
    except OSError as error:
        raise LabError(f"cannot create the lab's cache {root}: {error.strerror}") from error
    return root


def files_hash(paths: Iterable[Path]) -> str:
    """SHA-256 over names (not directories) and contents of ``paths``, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(paths, key=lambda p: (p.name, p)):
        content = path.read_bytes()
        digest.update(f"{path.name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


@dataclass(frozen=True)
class Entry:
    """One complete cached build: where it is and what it was made of."""

    path: Path
    inputs: Mapping[str, object]
    seconds: float

    @property
    def identity(self) -> str:
        """What stands for this entry in the inputs of another: its name, and the package versions in it."""
        versions = self.path / "packages.json"
        return f"{self.path.name} {files_hash([versions])}" if versions.exists() else self.path.name


def _key(kind: str, inputs: Mapping[str, object]) -> str:
    canonical = json.dumps(inputs, sort_keys=True)
    return f"{kind}-{hashlib.sha256(canonical.encode()).hexdigest()[:12]}"


@contextlib.contextmanager
def _locked(path: Path, say: Say) -> Iterator[None]:
    """Hold ``path`` exclusively. The kernel drops the lock with the process, however that ends."""
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{path.stem}: being built by another process, waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _read(path: Path) -> Entry | None:
    try:
        record = json.loads((path / "entry.json").read_text())
    except (OSError, ValueError):
        return None
    return Entry(path, record["inputs"], record["seconds"])


def lookup(kind: str, inputs: Mapping[str, object]) -> Entry | None:
    """The entry if it is complete, without building anything."""
    return _read(cache_root() / _key(kind, inputs))


def entry(kind: str, inputs: Mapping[str, object], build: Callable[[Path], None], say: Say) -> Entry:
    """Return the entry for ``inputs``, calling ``build(directory)`` first where it is missing.

    ``inputs`` must be JSON and hold everything the result depends on. Raises :class:`LabError` on a full
    disk or an unwritable cache; whatever ``build`` raises is passed on with the partial directory removed.
    """
    root = _make_root()
    final = root / _key(kind, inputs)
    found = _read(final)
    if found:
        return found
    with _locked(root / f"{final.name}.lock", say):
        found = _read(final)
        if found:
            return found
        partial = root / f"{final.name}.{os.getpid()}.partial"
        shutil.rmtree(final, ignore_errors=True)
        say(f"{kind}: building {final.name}")
        start = time.monotonic()
        try:
            partial.mkdir()
            build(partial)
            seconds = round(time.monotonic() - start, 1)
            (partial / "entry.json").write_text(json.dumps({"inputs": inputs, "seconds": seconds}, indent=1))
            partial.rename(final)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            if error.errno == errno.ENOSPC:
                raise LabError(
                    f"no space left while building {final.name} in {root}: free some, or set "
                    "PANTHOR_LAB_CACHE to a directory on a larger disk"
                ) from error
            raise
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        say(f"{kind}: built in {seconds:.0f} s")
        return Entry(final, inputs, seconds)


def entries() -> list[Entry]:
    """All complete entries, by name."""
    root = cache_root()
    found = (
        _read(path)
        for path in sorted(root.glob("*-*"))
        if path.is_dir() and not path.name.endswith((".partial", ".aside"))
    )
    return [item for item in found if item]


@contextlib.contextmanager
def set_aside(items: Iterable[Entry]) -> Iterator[None]:
    """Have ``items`` built anew in the block; should that fail, they are back as they were."""
    aside = [(item.path, item.path.with_name(f"{item.path.name}.aside")) for item in items]
    try:
        for path, hidden in aside:
            path.rename(hidden)
        yield
    except BaseException:
        for path, hidden in aside:
            if hidden.exists():
                shutil.rmtree(path, ignore_errors=True)
                hidden.rename(path)
        raise
    for _, hidden in aside:
        shutil.rmtree(hidden)


def superseded() -> list[Entry]:
    """Entries of which a newer one of the same kind exists: left over from older inputs."""
    newest: dict[str, Entry] = {}
    old: list[Entry] = []
    for item in sorted(entries(), key=lambda e: (e.path / "entry.json").stat().st_mtime):
        kind = item.path.name.rsplit("-", 1)[0]
        if kind in newest:
            old.append(newest[kind])
        newest[kind] = item
    return old


def from_packages() -> list[Entry]:
    """Entries that Debian packages were fetched for."""
    return [item for item in entries() if packages(item)]


def leftovers() -> list[Path]:
    """What no entry needs: directories of builders that are gone, locks nobody holds, console logs."""
    root = cache_root()
    found = [*root.glob("*.aside"), *root.glob("consoles/*.log")]
    for partial in root.glob("*.partial"):
        builder = partial.name.split(".")[-2]
        if not Path(f"/proc/{builder}").exists():
            found.append(partial)
    for lock in root.glob("*.lock"):
        with contextlib.suppress(OSError), lock.open() as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found.append(lock)
    return found


def packages(item: Entry) -> dict[str, str]:
    """The Debian packages an entry was made from, where it is made from any: ``{name: version}``."""
    try:
        taken: dict[str, str] = json.loads((item.path / "packages.json").read_text())
    except FileNotFoundError:
        return {}
    return taken


def disk_bytes(path: Path) -> int:
    """Bytes of disk below ``path`` (images are sparse)."""
    return sum(
        os.lstat(os.path.join(directory, name)).st_blocks * 512  # noqa: PTH118 (a root has 10,000 files)
        for directory, names, files in os.walk(path)
        for name in (*names, *files)
    )
