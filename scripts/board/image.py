# SPDX-License-Identifier: MIT
"""Disk images made from directories, without mounting anything."""

from __future__ import annotations

import os
from pathlib import Path

from .archive import run_tool

#: Room left for the guest to write in, beyond the content: it is discarded when the guest ends.
SPARE = 512 << 20


def ext4_image(content: Path, image: Path, *, spare: int = SPARE) -> None:
    """Write ``content`` into a new ext4 ``image`` (sparse). No journal: the image is never written back."""
    size = sum(
        (status.st_blocks * 512) + 512
        for directory, names, files in os.walk(content)
        for status in (os.lstat(os.path.join(directory, name)) for name in (*names, *files))  # noqa: PTH118
    )
    total = int(size * 1.15) + spare
    with image.open("wb") as handle:
        handle.truncate((total + 0xFFFFF) & ~0xFFFFF)
    run_tool(
        [
            "mke2fs",
            "-q",
            "-t",
            "ext4",
            "-O",
            "^has_journal",
            "-m",
            "0",
            "-E",
            "lazy_itable_init=0",
            "-d",
            content,
            image,
        ],
        doing=f"making {image.name}",
    )
