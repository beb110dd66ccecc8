# SPDX-License-Identifier: MIT
"""User space on the emulated board: refused mappings by their limit, stacks of what panvk was refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from board import roots
from panthor_trace import __version__
from panthor_trace.analysis import Analysis, analyse
from panthor_trace.verdict import Cause

from .conftest import BoardRun

BENCH = "llama-bench -m /models/wide.gguf -p 64 -n 0 -ub 64 -r 1"
REPOSITORY = Path(__file__).parents[2]
SCENARIOS = ("mmap-map-count", "mmap-address-space", "bo-mmap-refused")
#: The root was made by extraction: dpkg has to be told what is in it to see that nothing is missing.
INSTALL = """
(
    set -e
    cp /share/dpkg-status /var/lib/dpkg/status
    dpkg -i /share/panthor-trace.deb
    mkdir /tmp/elsewhere
    cd /tmp/elsewhere
    as_installed() { env -i PATH=/usr/bin:/usr/sbin HOME=/root LANG=C.UTF-8 panthor-trace "$@"; }
    as_installed --version
    as_installed doctor
    as_installed -o /share/installed-trace -- vulkaninfo --summary
    dpkg --remove panthor-trace
    test ! -e /usr/bin/panthor-trace
    test ! -e /usr/lib/python3/dist-packages/panthor_trace
)
"""
SCRIPT = f"""
cd /tmp
for name in {" ".join(SCENARIOS)}; do
    panthor-trace -o /share/$name --no-csv -- simfail $name
done
cat /models/wide.gguf > /dev/null
panthor-trace -o /share/tight --no-csv -- \\
    sh -c 'echo change > /sys/class/drm/renderD128/uevent; exec memory-limit 250M {BENCH}'
panthor-trace report -v /share/tight > /share/tight.report
{INSTALL.strip()} > /share/install.log 2>&1
echo $? > /share/installed
"""


def _as_installed(name: str, version: str) -> str:
    """What dpkg's status says of an installed package; architecture-independent ones do for any."""
    fields = {
        "Package": name,
        "Status": "install ok installed",
        "Maintainer": "-",
        "Architecture": "arm64",
        "Version": version,
        "Description": "-",
    }
    return "".join(f"{key}: {value}\n" for key, value in fields.items()) + "\n"


@pytest.fixture(scope="module")
def traces(board: BoardRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one guest recorded."""
    share: Path = tmp_path_factory.mktemp("userland-board")
    packages = json.loads((roots.guest_root(print).path / "packages.json").read_text())
    (share / "dpkg-status").write_text("".join(_as_installed(*package) for package in packages.items()))
    subprocess.run([sys.executable, REPOSITORY / "packaging/package", share / "dist"], check=True)
    next((share / "dist").glob("*.deb")).rename(share / "panthor-trace.deb")
    done = board(SCRIPT, memory_mib=1024, share=share, timeout=1800)
    assert (share / "tight.report").exists(), done.stderr
    return share


def test_mapping_limit_is_named_with_its_use(traces: Path) -> None:
    verdict = analyse(traces / "mmap-map-count").verdict
    assert (verdict.cause, verdict.refusal and verdict.refusal.ioctl) == (Cause.PROCESS_LIMIT, "mmap")
    assert any("of vm.max_map_count = 65530" in fact for fact in verdict.evidence)
    start = "mappings of the process: "
    counted = [int(fact[len(start) :].split()[0]) for fact in verdict.evidence if fact.startswith(start)]
    assert counted[0] >= 65530
    (use,) = [use for use in verdict.caps if use.name == "mappings"]
    assert (use.used, use.limit, use.headroom, use.note) == (counted[0], 65530, 0, "")
    verdict = analyse(traces / "mmap-address-space").verdict
    assert verdict.cause is Cause.PROCESS_LIMIT
    assert any("RLIMIT_AS" in fact for fact in verdict.evidence)


def test_mapping_not_permitted_is_no_limit(traces: Path) -> None:
    verdict = analyse(traces / "bo-mmap-refused").verdict
    assert verdict.cause is Cause.KERNEL_REJECTED


def tight(traces: Path) -> Analysis:
    return analyse(traces / "tight")


def test_panvk_maps_its_buffers(traces: Path) -> None:
    table = tight(traces).tables.mappings
    # From this offset on it is the GPU's registers (DRM_PANTHOR_USER_MMIO_OFFSET_64BIT), which are no buffer.
    maps = table[(table["name"] == "mmap") & (table["offset"] < 1 << 56)]
    assert len(maps) > 0
    assert not maps["failed"].any()
    assert maps["bo_id"].notna().all()
    bos = tight(traces).tables.bos.set_index("bo_id")
    assert (bos["size"].reindex(maps["bo_id"].astype(int)).to_numpy() == maps["size"].to_numpy()).all()


def test_failing_request_has_its_stack_from_the_ioctl_to_the_program(traces: Path) -> None:
    """arm64 keeps frame pointers: the stack leads through panvk and the loader into ggml and llama-bench."""
    tables = tight(traces).tables
    failed = tables.failures[(tables.failures["kind"] == "ioctl") & (tables.failures["error"] == "ENOMEM")]
    assert failed["stack_id"].notna().any()
    frames = tables.stacks[tables.stacks["stack_id"] == failed["stack_id"].dropna().iloc[-1]]
    modules = [Path(str(module)).name for module in frames["module"]]
    assert any(name.startswith("libvulkan_panfrost.so") for name in modules)
    assert any("ggml" in name for name in modules)
    assert frames["build_id"].notna().sum() > 5
    assert "libvulkan_panfrost.so" in (traces / "tight.report").read_text()


def test_processes_were_accounted_and_device_events_recorded(traces: Path) -> None:
    analysis = tight(traces)
    layers = analysis.trace.meta["layers"]
    assert layers["taskstats"]["live"], layers["taskstats"]
    assert layers["uevent"]["live"], layers["uevent"]
    processes = analysis.tables.processes
    # Aborted by the exception, or by the out-of-memory killer where the cgroup's pages were not only buffers.
    ended = processes[processes["exit_status"].isin([134, 137])]
    assert len(ended) == 1
    assert ended["peak_rss_bytes"].iloc[0] > 16 << 20
    assert "change" in set(analysis.tables.uevents["action"])


def test_debian_package_installs_records_and_goes(traces: Path) -> None:
    """By Debian's Python modules alone, no source tree in sight; dpkg checks what it depends on."""
    log = (traces / "install.log").read_text()
    assert (traces / "installed").read_text() == "0\n", log
    assert f"panthor-trace, version {__version__}\n" in log
    assert "ready: " in log
    assert "Setting up panthor-trace" in log
    analysis = analyse(traces / "installed-trace")
    assert analysis.verdict.cause is Cause.CLEAN, analysis.verdict
    assert analysis.tables.ioctls["name"].eq("DEV_QUERY").any()
    assert all(layer["live"] for layer in analysis.trace.meta["layers"].values())
