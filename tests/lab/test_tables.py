# SPDX-License-Identifier: MIT
"""The tables against other people's numbers: strace's ioctls, bpftrace's dispatches, the kernel's memory.

The reference runs are runs of their own of the same command: what they count must be what we recorded.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from panthor_trace.analysis import Analysis, analyse
from panthor_trace.uapi.ioctls import name_of

from .conftest import BoardRun

UBATCHES = (64, 128)
#: How often a wait is asked for depends on how long the GPU takes, and a tracer that stops at each call makes
#: that longer: a poll of a fence is a SYNCOBJ_WAIT, and panvk then asks for the state of VM and groups.
POLLING = frozenset({"SYNCOBJ_WAIT", "SYNCOBJ_TIMELINE_WAIT", "GROUP_GET_STATE", "VM_GET_STATE"})
SCRIPT = """
set -u
cd /tmp
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
for ub in 64 128; do
    bench="llama-bench -m /models/wide.gguf -p $ub -ub $ub -n 0 -r 1"
    python3 /src/tests/lab/memory_samples.py llama-bench /share/samples$ub &
    panthor-trace -o /share/ub$ub -- $bench > /share/ub$ub.out 2>&1 || exit
    wait
    strace -f -qq --seccomp-bpf -X raw -y -e trace=ioctl -o /share/strace$ub $bench || exit
    probe="uprobe:/usr/lib/aarch64-linux-gnu/libvulkan.so.1:vkCmdDispatch { @dispatches = count(); }"
    bpftrace -e "$probe" -c "$(which llama-bench) -m /models/wide.gguf -p $ub -ub $ub -n 0 -r 1" \
        > /share/bpftrace$ub || exit
done
"""


@dataclass(frozen=True)
class Reference:
    """One run of ours and what the others said of the same command."""

    analysis: Analysis
    strace: str
    bpftrace: str
    samples: list[dict[str, object]]


@pytest.fixture(scope="module")
def reference(
    board: BoardRun, kernel: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[int], Reference]:
    """The runs of one guest, by micro-batch."""
    share: Path = tmp_path_factory.mktemp(f"tables-{kernel}")
    done = board(SCRIPT, kernel=kernel, memory_mib=2048, share=share, timeout=1800)
    assert done.returncode == 0, done.stderr

    def of(ubatch: int) -> Reference:
        lines = (share / f"samples{ubatch}").read_text().splitlines()
        return Reference(
            analyse(share / f"ub{ubatch}"),
            (share / f"strace{ubatch}").read_text(),
            (share / f"bpftrace{ubatch}").read_text(),
            [json.loads(line) for line in lines],
        )

    return of


@pytest.mark.parametrize("ubatch", UBATCHES)
def test_as_many_of_each_ioctl_as_strace_counts(reference: Callable[[int], Reference], ubatch: int) -> None:
    run = reference(ubatch)
    found = re.findall(r"ioctl\(\d+</dev/dri/\w+>, (0x[0-9a-f]+)", run.strace)
    theirs = Counter(name_of(int(command, 16) & 0xFF) for command in found)
    ours = Counter(run.analysis.tables.ioctls["name"])
    print({name: (theirs[name], ours[name]) for name in POLLING})
    assert {name: n for name, n in ours.items() if name not in POLLING} == {
        name: n for name, n in theirs.items() if name not in POLLING
    }
    assert run.analysis.tables.losses.empty


@pytest.mark.parametrize("ubatch", UBATCHES)
def test_every_dispatch_is_a_row_and_was_carried(reference: Callable[[int], Reference], ubatch: int) -> None:
    run = reference(ubatch)
    counted = re.search(r"@dispatches: (\d+)", run.bpftrace)
    assert counted, run.bpftrace
    dispatches = run.analysis.tables.dispatches
    assert len(dispatches) == int(counted[1])
    assert dispatches["submit_id"].notna().all()
    assert dispatches["group_submits"].gt(0).all()
    assert dispatches["submit_to_done_ns"].gt(0).all()


@pytest.mark.parametrize("ubatch", UBATCHES)
def test_ledger_is_what_the_kernel_says(reference: Callable[[int], Reference], ubatch: int) -> None:
    """fdinfo's total to the byte, at every sample during which nothing changed."""
    run = reference(ubatch)
    memory = run.analysis.tables.memory
    times = memory["time_ns"].to_numpy()
    assert len(run.samples) > 20
    if not any(sample["clients"] for sample in run.samples):
        pytest.skip("this kernel's panthor says nothing of memory in fdinfo")
    compared = 0
    for sample in run.samples:
        first, last = np.searchsorted(times, [sample["before"], sample["after"]], "right")
        # The exit is recorded before the kernel closes the files.
        if first != last or not sample["clients"] or first in (0, len(times)):
            continue
        clients = sample["clients"].values()  # type: ignore[attr-defined]
        live = int(memory["live_bo_bytes"].iloc[first - 1])
        assert sum(client["drm-total-memory"] for client in clients) == live
        compared += 1
        if "gems" in sample and live and not _in_an_ioctl(run.analysis, sample):
            _assert_objects_explained(str(sample["gems"]), live, list(clients))
    assert compared > 20


def _in_an_ioctl(analysis: Analysis, sample: dict[str, object]) -> bool:
    """The kernel makes objects of its own while it makes a VM, a group or a heap: half of them are there."""
    calls = analysis.tables.ioctls
    during = calls["enter_ns"].lt(sample["after"]) & calls["exit_ns"].gt(sample["before"])
    return bool((during & ~calls["name"].isin(POLLING)).any())


def _assert_objects_explained(gems: str, live: int, clients: list[dict[str, int]]) -> None:
    """debugfs lists the driver's own objects too: those fdinfo counts as panthor's.

    And 7.3 keeps one of 2 MiB without pages a VM, which nobody has a handle of.
    """
    rows = [line.split() for line in gems.splitlines() if line.startswith("llama-bench/")]
    kernel = sum(client["panthor-resident-memory"] for client in clients)
    unexplained = sum(int(row[4]) for row in rows) - live - kernel
    assert unexplained in (0, 2 << 20)
