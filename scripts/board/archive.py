# SPDX-License-Identifier: MIT
"""Debian packages by name, series and suite: resolved in the archive's own index, fetched, unpacked.

Everything goes through ``apt-get`` with a private state directory, so signatures and hashes are checked as
on any Debian machine and the host's own package lists are left alone. The mirror's address is the one the
machine itself is configured with.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError

#: Debian's own keyring package: present on every Debian machine.
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

#: A mirror that stands still serves Release files past their Valid-Until; the signature still counts.
STALE_RELEASE_OPTIONS = (
    "-oAcquire::Check-Valid-Until=false",
    "-oAcquire::Check-Date=false",
)


@dataclass(frozen=True)
class Package:
    """One binary package as an index lists it."""

    name: str
    arch: str
    version: str
    suite: str


#: No build step but compiling shaders takes half as long; apt hangs where the disk fills up under its index.
TOOL_SECONDS = 900


def run_tool(
    command: Sequence[str | Path], *, doing: str, cwd: Path | None = None, seconds: float = TOOL_SECONDS
) -> str:
    """Run a build tool and return its stdout.

    Raises :class:`LabError` naming the tool, what it was for and its last words, and ``OSError`` (ENOSPC)
    where those say that the disk is full.
    """
    try:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=cwd,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        raise LabError(
            f"{doing} did not finish within {seconds:g} s and was ended (a full disk? no network?)"
        ) from error
    except FileNotFoundError as error:
        raise LabError(f"{doing} needs {command[0]}, which is not installed: run scripts/setup") from error
    if done.returncode != 0:
        if "No space left on device" in done.stderr + done.stdout:
            raise OSError(errno.ENOSPC, f"{doing}: {os.strerror(errno.ENOSPC)}")
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        last_words = "; ".join(lines[-3:]) or f"exit status {done.returncode}"
        raise LabError(f"{doing} failed: {Path(str(command[0])).name}: {last_words}")
    return done.stdout


@functools.cache
def mirror() -> str:
    """The Debian mirror this machine's apt uses."""
    targets = run_tool(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian"],
        doing="finding this machine's Debian mirror",
    ).split()
    if not targets:
        raise LabError(
            "this machine's apt knows no Debian mirror: the lab's packages come from Debian's archive"
        )
    return targets[0]


class Archive:
    """An apt of our own in ``state``, knowing ``suites`` of ``main`` for amd64 and arm64."""

    def __init__(self, state: Path, suites: Sequence[str]) -> None:
        self._state = state
        for directory in ("lists/partial", "cache/archives/partial"):
            (state / directory).mkdir(parents=True, exist_ok=True)
        self._options = [
            f"-oDir::State={state}",
            f"-oDir::State::lists={state}/lists",
            f"-oDir::Cache={state}/cache",
            f"-oDir::Etc::sourcelist={state}/sources.list",
            "-oDir::Etc::sourceparts=-",
            "-oDir::Etc::preferencesparts=-",
            "-oDir::State::status=/dev/null",
            "-oAPT::Architecture=amd64",
            "-oAPT::Architectures::=amd64",
            "-oAPT::Architectures::=arm64",
            "-oAPT::Sandbox::User=",
            "-oAcquire::Languages=none",
            "-oAcquire::Retries=3",
            *STALE_RELEASE_OPTIONS,
        ]
        lines = [f"deb [arch=amd64,arm64 signed-by={KEYRING}] {mirror()} {suite} main" for suite in suites]
        (state / "sources.list").write_text("\n".join(lines) + "\n")
        run_tool(
            ["apt-get", *self._options, "update"],
            doing="reading Debian's package index (network?)",
            seconds=300,
        )

    @functools.cached_property
    def packages(self) -> list[Package]:
        """Every binary package of every suite and architecture asked for."""
        listing = run_tool(
            [
                "apt-get",
                *self._options,
                "indextargets",
                "--format",
                "$(RELEASE) $(CODENAME) $(FILENAME)",
                "Created-By: Packages",
            ],
            doing="listing Debian's package index",
        )
        found: list[Package] = []
        for line in listing.splitlines():
            _release, suite, file = line.split(maxsplit=2)
            text = run_tool(
                ["/usr/lib/apt/apt-helper", "cat-file", file], doing="reading Debian's package index"
            )
            found.extend(_parse_index(text, suite))
        return found

    def has(self, name: str, suite: str) -> bool:
        """Whether ``suite`` has a package of exactly this name."""
        return any(p.name == name and p.suite == suite for p in self.packages)

    def newest(self, pattern: str, *, arch: str, suite: str) -> Package:
        """The newest package whose whole name matches the regular expression ``pattern``."""
        name = re.compile(pattern)
        matches = [
            p
            for p in self.packages
            if p.suite == suite and p.arch in (arch, "all") and name.fullmatch(p.name)
        ]
        if not matches:
            raise LabError(
                f"Debian {suite} has no package matching {pattern} for {arch} (has the suite moved on?)"
            )
        return max(matches, key=functools.cmp_to_key(_compare))

    def fetch(self, packages: Sequence[Package], into: Path) -> None:
        """Download ``packages`` and unpack them all into the directory ``into`` (no maintainer scripts)."""
        debs = into.parent / f"{into.name}.debs"
        debs.mkdir(parents=True, exist_ok=True)
        into.mkdir(parents=True, exist_ok=True)
        wanted = [f"{p.name}:{p.arch}={p.version}" for p in packages]
        run_tool(["apt-get", *self._options, "download", *wanted], doing="downloading packages", cwd=debs)
        for deb in sorted(debs.glob("*.deb")):
            run_tool(["dpkg-deb", "--extract", deb, into], doing=f"unpacking {deb.name}")
            deb.unlink()
        debs.rmdir()


def _parse_index(text: str, suite: str) -> Iterator[Package]:
    """The packages of one ``Packages`` file: only the three fields we need, for it holds 60,000 stanzas."""
    for stanza in text.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Architecture): (.*)$", stanza, re.MULTILINE))
        if fields:
            yield Package(fields["Package"], fields["Architecture"], fields["Version"], suite)


def _compare(a: Package, b: Package) -> int:
    """Debian's version order (``dpkg --compare-versions``), as a cmp function."""
    if a.version == b.version:
        return 0
    newer = subprocess.run(["dpkg", "--compare-versions", a.version, "gt", b.version], check=False)
    return 1 if newer.returncode == 0 else -1
