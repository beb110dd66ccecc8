# SPDX-License-Identifier: MIT
"""Which file a command would load, as the dynamic linker finds it."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from panthor_trace.capture.libraries import MACHINES, VULKAN, find_library, resolve

NATIVE = MACHINES[platform.machine()]
FOREIGN = 8  # MIPS


def library(path: Path, machine: int = NATIVE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF\x02" + bytes(13) + machine.to_bytes(2, "little"))
    return path


def test_links_are_followed_inside_the_root(tmp_path: Path) -> None:
    real = library(tmp_path / "usr/lib/aarch64-linux-gnu/libvulkan.so.1.4.309")
    (real.parent / VULKAN).symlink_to("/usr/lib/aarch64-linux-gnu/libvulkan.so.1.4.309")
    assert find_library(VULKAN, tmp_path, {}) == real


def test_library_path_of_the_environment_comes_first(tmp_path: Path) -> None:
    library(tmp_path / "usr/lib" / VULKAN)
    own = library(tmp_path / "opt/mesa" / VULKAN)
    assert find_library(VULKAN, tmp_path, {"LD_LIBRARY_PATH": "/nowhere:/opt/mesa"}) == own


def test_configured_directories_with_includes(tmp_path: Path) -> None:
    library(tmp_path / "usr/lib" / VULKAN)
    own = library(tmp_path / "opt/vendor" / VULKAN)
    (tmp_path / "etc/ld.so.conf.d").mkdir(parents=True)
    (tmp_path / "etc/ld.so.conf").write_text("# comment\ninclude ld.so.conf.d/*.conf\n")
    (tmp_path / "etc/ld.so.conf.d/vendor.conf").write_text("/opt/vendor # ours\n")
    assert find_library(VULKAN, tmp_path, {}) == own


def test_library_of_another_machine_is_passed_over(tmp_path: Path) -> None:
    library(tmp_path / "usr/local/lib" / VULKAN, FOREIGN)
    own = library(tmp_path / "usr/lib" / VULKAN)
    assert find_library(VULKAN, tmp_path, {}) == own


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x01" + bytes(30), b"#!/bin/sh\n" + bytes(20)])
def test_what_is_no_library_is_passed_over(tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "usr/lib" / VULKAN
    place.parent.mkdir(parents=True)
    place.write_bytes(content)
    assert find_library(VULKAN, tmp_path, {}) is None


def test_links_that_lead_nowhere_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert resolve(tmp_path, Path("/a")) is None
    assert resolve(tmp_path, Path("/missing")) is None
