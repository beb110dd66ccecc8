# SPDX-License-Identifier: MIT
"""Roots without a network: what a failing mmdebstrap becomes, and the steps after extraction on a tree."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from board import provision, roots
from board.errors import LabError

#: What mmdebstrap 1.3.5 and apt 2.6 said [recorded], the mirror's name replaced.
UNKNOWN_PACKAGE = """\
I: downloading packages with apt...
Reading package lists...
E: Unable to locate package busyboxy
E: apt download failed: E: apt-get --yes install busyboxy -oDpkg::Use-Pty=false failed
I: main() received signal PIPE: waiting for setup...
E: mmdebstrap failed to run
"""
NO_NETWORK = """\
Err:1 http://mirror.invalid/debian forky InRelease
  Could not connect to mirror.invalid:80 (127.0.0.1). - connect (111: Connection refused)
E: Failed to fetch http://mirror.invalid/debian/dists/forky/InRelease  Could not connect to mirror.invalid:80
E: Some index files failed to download. They have been ignored, or old ones used instead.
E: apt-get update --error-on=any -oAPT::Status-Fd=<$fd> -oDpkg::Use-Pty=false failed
E: mmdebstrap failed to run
"""
DISK_FULL = """\
E: You don't have enough free space in /tmp/root/var/cache/apt/archives/.
E: mmdebstrap failed to run
"""


@pytest.fixture
def fake_mmdebstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An mmdebstrap that says ``mmdebstrap.says`` and fails; the path of that file."""
    programs = tmp_path / "bin"
    programs.mkdir()
    says = programs / "mmdebstrap.says"
    program = programs / "mmdebstrap"
    program.write_text(f'#!/bin/sh\necho "$@" > {programs}/arguments\ncat {says} >&2\nexit 25\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(roots, "mirror", lambda: "http://mirror.invalid/debian")
    return says


def _build(out: Path) -> None:
    roots.build_root("arm64", "forky", ["bash", "busyboxy"], out, lambda line: None)


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (UNKNOWN_PACKAGE, "Unable to locate package busyboxy"),
        (NO_NETWORK, "Failed to fetch http://mirror.invalid/debian/dists/forky/InRelease"),
        ("E: mmdebstrap failed to run\n", "mmdebstrap failed to run"),
        ("", "mmdebstrap said nothing"),
    ],
)
def test_failure_is_one_line_with_the_reason(
    says: str, reason: str, fake_mmdebstrap: Path, tmp_path: Path
) -> None:
    fake_mmdebstrap.write_text(says)
    with pytest.raises(LabError) as raised:
        _build(tmp_path)
    assert reason in str(raised.value)
    assert "forky arm64" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_full_disk_is_enospc_for_the_cache_to_word(fake_mmdebstrap: Path, tmp_path: Path) -> None:
    fake_mmdebstrap.write_text(DISK_FULL)
    with pytest.raises(OSError, match="No space left") as raised:
        _build(tmp_path)
    assert raised.value.errno == errno.ENOSPC


def test_nothing_of_the_packages_is_executed(fake_mmdebstrap: Path, tmp_path: Path) -> None:
    fake_mmdebstrap.write_text(UNKNOWN_PACKAGE)
    with pytest.raises(LabError):
        _build(tmp_path)
    arguments = fake_mmdebstrap.with_name("arguments").read_text().split()
    assert "--variant=extract" in arguments
    assert "--architectures=arm64" in arguments
    assert "--include=bash,busyboxy" in arguments


def test_missing_mmdebstrap_and_missing_rights_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match="mmdebstrap is not installed"):
        _build(tmp_path)
    (tmp_path / "mmdebstrap").touch(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match="needs root"):
        _build(tmp_path)


def test_versions_come_from_the_names_of_the_downloads() -> None:
    debs = ["busybox_1%3a1.38.0-3+b1_arm64.deb", "base-files_14.2_arm64.deb"]
    assert roots.package_versions(debs) == {"busybox": "1:1.38.0-3+b1", "base-files": "14.2"}


def test_key_follows_packages_and_provisioning_only() -> None:
    inputs = roots._inputs(roots.GUEST)
    assert json.loads(json.dumps(inputs))["arch"] == "arm64"
    assert inputs["packages"] == sorted(roots.GUEST.packages)
    assert len(set(roots.GUEST.packages)) == len(roots.GUEST.packages)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root with just enough of an extracted one; chown recorded as done, tests may run unprivileged."""
    monkeypatch.setattr(os, "chown", lambda path, uid, gid: None)
    root = tmp_path / "root"
    for name in ("etc/pam.d", "home", "usr/bin", "usr/share/base-passwd", "usr/share/vulkan/icd.d"):
        (root / name).mkdir(parents=True)
    (root / "usr/lib/aarch64-linux-gnu/blas").mkdir(parents=True)
    masters = root / "usr/share/base-passwd"
    (masters / "passwd.master").write_text("root:*:0:0:root:/root:/bin/bash\nbin:*:2:2:bin:/bin:/x\n")
    (masters / "group.master").write_text("root:*:0:\nsudo:*:27:\nvideo:*:44:\n")
    return root


def test_accounts(tree: Path) -> None:
    provision.add_accounts(tree)
    passwd = (tree / "etc/passwd").read_text().splitlines()
    assert passwd[0] == "root:x:0:0:root:/root:/bin/bash"
    assert passwd[-1] == "user:x:1000:1000:board user:/home/user:/bin/bash"
    groups = dict(line.split(":", 1) for line in (tree / "etc/group").read_text().splitlines())
    assert groups["video"] == "x:44:user"
    assert groups["sudo"] == "x:27:user"
    assert groups["render"].endswith(":user")
    assert groups["root"] == "x:0:"
    shadow = (tree / "etc/shadow").read_text().splitlines()
    assert {line.split(":")[1] for line in shadow} == {"*"}
    assert all(len(line.split(":")) == 9 for line in shadow)
    assert stat.S_IMODE((tree / "etc/shadow").stat().st_mode) == 0o640
    assert (tree / "home/user").is_dir()


def test_one_vulkan_driver_is_kept(tree: Path) -> None:
    libraries = tree / "usr/lib/aarch64-linux-gnu"
    for driver in ("panfrost", "lvp", "radeon"):
        (tree / f"usr/share/vulkan/icd.d/{driver}_icd.json").touch()
        (libraries / f"libvulkan_{driver}.so").touch()
    (libraries / "libvulkan.so.1").touch()
    provision.keep_vulkan_driver(tree, "aarch64-linux-gnu", "panfrost")
    assert [path.name for path in (tree / "usr/share/vulkan/icd.d").iterdir()] == ["panfrost_icd.json"]
    assert {path.name for path in libraries.glob("libvulkan*")} == {"libvulkan.so.1", "libvulkan_panfrost.so"}
    with pytest.raises(LabError, match="no Vulkan driver 'lvp'"):
        provision.keep_vulkan_driver(tree, "aarch64-linux-gnu", "lvp")


def test_alternatives_link_what_is_there_and_nothing_else(tree: Path) -> None:
    libraries = tree / "usr/lib/aarch64-linux-gnu"
    (libraries / "blas/libblas.so.3").write_text("blas")
    provision.link_alternatives(tree, "aarch64-linux-gnu")
    provision.link_alternatives(tree, "aarch64-linux-gnu")
    assert (libraries / "libblas.so.3").read_text() == "blas"
    assert not (libraries / "liblapack.so.3").is_symlink()
    assert not (tree / "usr/bin/awk").is_symlink()


def test_prune_leaves_no_mirror_and_no_name_of_the_building_machine(tree: Path) -> None:
    (tree / "etc/apt").mkdir()
    (tree / "etc/apt/sources.list").write_text("deb http://mirror.invalid/debian forky main\n")
    (tree / "etc/resolv.conf").write_text("nameserver 192.0.2.1\n")
    (tree / "etc/hostname").write_text("builder\n")
    provision.prune(tree, "aarch64-linux-gnu")
    provision.add_mount_points(tree)
    provision.name_host(tree)
    text = "".join(path.read_text() for path in tree.rglob("*") if path.is_file())
    assert not [word for word in ("mirror.invalid", "192.0.2.1", "builder") if word in text]
    assert all((tree / name).is_dir() for name in ("dev", *provision.MOUNT_POINTS))


def test_sudo_without_its_setuid_bit_is_refused(tree: Path) -> None:
    provision.allow_sudo(tree)  # a root without sudo needs nothing
    assert not (tree / "etc/sudoers.d").exists()
    (tree / "usr/bin/sudo").touch(0o755)
    with pytest.raises(LabError, match="not setuid root"):
        provision.allow_sudo(tree)
