# SPDX-License-Identifier: MIT
"""Programs that fail for real reasons under panvk, and what the verdict says of each.

simfail (test_driver_layer.py) makes the driver refuse one thing at a time. Here Vulkan programs run out of
something, lose the GPU or never get it, with Mesa and ggml in between. One guest and one recording a kernel
for all of them, each judged by itself; the guest has memory enough for panvk to run out of addresses before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from board.kernels import KERNELS
from panthor_trace.analysis import Analysis, analyse
from panthor_trace.verdict import Cause, Confidence, KernelCap, Verdict

from .conftest import BoardRun

BENCH = "llama-bench -m /models/minimal.gguf -n 0 -r 1 -p 64 -ub 64"
MIB = 1 << 20
KILLED = 137

#: ``run NAME COMMAND…``; what it starts is killed first where memory runs out.
FUNCTIONS = """
cd /tmp
run() {
    name=$1; shift
    ( echo 500 > /proc/self/oom_score_adj; exec "$@" ) > /tmp/$name.log 2>&1 &
    pid=$!; status=0; wait $pid || status=$?
    echo "$name $pid $status" >> /share/runs
    cp /tmp/$name.log /share
}
inject() { echo "$*" > /sys/kernel/debug/stub_gpu/inject; }
counter() {
    while read -r name value; do [ $name != $1 ] || echo $value; done < /sys/kernel/debug/stub_gpu/counters
}
# When a stream has a tiler heap, the firmware wants chunks until it gets none; the stream dies of it.
fill_heap() {
    before=$(counter tiler_oom_replies)
    until inject tiler-oom 2> /dev/null; do sleep 0.05; done
    inject hold
    until [ $(counter tiler_oom_replies) -gt $before ]; do sleep 0.05; done
    while [ $(counter tiler_oom_last_chunk) != 0 ]; do inject tiler-oom; sleep 0.03; done
    inject cs-fatal code=0x49
    inject release
}
"""
#: Where kernels differ: 6.12 takes a buffer's pages when it is made, 7.3 when it is bound.
ON_EVERY_KERNEL = """
run pools vkalloc pool=512M*16
run pool-at-once vkalloc pool=4080M
run cgroup memory-limit 200M vkalloc memory=64M*8
run other-way vkalloc try=65536G memory=64M
"""
ON_THE_NEWEST = f"""
run thread vkalloc memory=1M*2 thread memory=65536G
run child vkalloc child memory=65536G
run two sh -c 'vkalloc memory=1M*200 & vkalloc memory=65536G & wait'
sysctl -q -w vm.max_map_count=500
run mappings vkalloc pool=64K*1000
sysctl -q -w vm.max_map_count=100
run mappings-bench {BENCH}
sysctl -q -w vm.max_map_count=65530
run buffer-size env GGML_VK_FORCE_MAX_BUFFER_SIZE=100000 {BENCH}
run nofile sh -c "ulimit -n 5; exec {BENCH}"
run permission setpriv --reuid 65534 --regid 65534 --clear-groups {BENCH}
inject cs-fatal code=0x49 at=3
run fault {BENCH}
inject hang at=3
run reset {BENCH}
fill_heap &
run heap {BENCH}
wait
inject clear
run small-machine vkalloc memory=512M*16
"""
SCRIPT = """
set -u
echo -900 > /proc/$$/oom_score_adj
cd /tmp
panthor-trace --no-csv -o /share/trace -- sh /share/each.sh > /share/out 2> /share/err
"""
#: Attached to when it has a device, and memory, already.
ATTACHED = """
vkalloc memory=4M wait=/tmp/go pool=4080M > /share/attached.log 2>&1 &
pid=$!
until grep -q ready /share/attached.log; do sleep 0.1; done
panthor-trace --no-csv -o /share/attached -p $pid > /share/attached.out 2> /share/attached.err &
until grep -q "attached to process $pid" /share/attached.err; do sleep 0.2; done
touch /tmp/go
wait
"""


@dataclass(frozen=True)
class Expected:
    """How a program may end and what is said of it; ``story``: in headline, evidence or what is missing."""

    statuses: tuple[int, ...]
    cause: Cause
    refused_by: str
    story: tuple[str, ...]
    call: str | None = None


OUT_OF_ADDRESSES = ("panvk's own addresses, 32 MiB to 4 GiB", "was made and closed there without being bound")
TOO_LARGE = ("a fixed limit of DRM: BO_CREATE of 64 TiB → ENOSPC", "limit: mmap_offsets")

EXPECTED = {
    "pools": Expected(
        (1,),
        Cause.DRIVER_VA,
        "panvk",
        (*OUT_OF_ADDRESSES, "no room for 512 MiB", "descriptors 3.5 GiB in 7"),
        "vkCreateDescriptorPool",
    ),
    "pool-at-once": Expected((1,), Cause.DRIVER_VA, "panvk", OUT_OF_ADDRESSES, "vkCreateDescriptorPool"),
    "thread": Expected((1,), Cause.KERNEL_CAP, "kernel", TOO_LARGE, "vkAllocateMemory"),
    "child": Expected((1,), Cause.KERNEL_CAP, "kernel", TOO_LARGE, "vkAllocateMemory"),
    "two": Expected((0,), Cause.KERNEL_CAP, "kernel", TOO_LARGE, "vkAllocateMemory"),
    "cgroup": Expected((1, KILLED), Cause.KERNEL_MEMORY, "kernel", ("memory cgroup", "limit 200 MiB")),
    "other-way": Expected(
        (0,), Cause.RECOVERED, "nobody in the end", ("got over it", "its reason: BO_CREATE of 64 TiB")
    ),
    "mappings": Expected(
        (1,), Cause.PROCESS_LIMIT, "kernel", ("vm.max_map_count = 500",), "vkCreateDescriptorPool"
    ),
    "mappings-bench": Expected(
        (0,), Cause.RECOVERED, "nobody in the end", ("went on without the GPU", "vm.max_map_count = 100")
    ),
    "buffer-size": Expected((1,), Cause.APPLICATION, "program", ("vk::OutOfDeviceMemoryError",)),
    "nofile": Expected((1,), Cause.PROCESS_LIMIT, "kernel", ("open of a file", "RLIMIT_NOFILE = 5")),
    "permission": Expected(
        (0,),
        Cause.RECOVERED,
        "nobody in the end",
        ("went on without the GPU", "open → EACCES", "may the command's user open /dev/dri/"),
    ),
    "fault": Expected((1,), Cause.GPU_FAULT, "GPU", ("CS_FATAL", "group lost"), "vkQueueSubmit"),
    # That the stream dies is not the reason, though all that the program and the kernel's log say of it.
    "heap": Expected(
        (1,), Cause.KERNEL_CAP, "kernel", ("heap growth of 2 MiB", "64 of 64 chunks", "command-stream fatal")
    ),
    "reset": Expected((1,), Cause.GPU_FAULT, "GPU", ("job time-out", "group lost"), "vkQueueSubmit"),
    # Whether the allocation is refused or the out-of-memory killer is faster hangs by a page.
    "small-machine": Expected((1, KILLED), Cause.KERNEL_MEMORY, "kernel", ("memory of the whole machine",)),
}

Recorded = Callable[[str], Analysis]


@pytest.fixture(scope="module")
def share(board: BoardRun, kernel: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one guest of ``kernel`` left."""
    share: Path = tmp_path_factory.mktemp(f"real-{kernel}")
    newest = kernel == KERNELS[0].name
    (share / "each.sh").write_text(FUNCTIONS + ON_EVERY_KERNEL + (ON_THE_NEWEST if newest else ""))
    done = board(
        SCRIPT + (ATTACHED if newest else ""), kernel=kernel, memory_mib=5632, share=share, timeout=1800
    )
    assert done.returncode == 0, done.stderr
    return share


def runs(share: Path) -> dict[str, tuple[int, int]]:
    """Process and exit status of each program, by name."""
    lines = [line.split() for line in (share / "runs").read_text().splitlines()]
    return {name: (int(pid), int(status)) for name, pid, status in lines}


@pytest.fixture(scope="module")
def recorded(share: Path) -> Recorded:
    """Each program's part of the recording, judged by itself."""

    @cache
    def named(name: str) -> Analysis:
        pid, status = runs(share)[name]
        return analyse(share / "trace", pid, status)

    return named


def story_of(verdict: Verdict) -> str:
    return " ".join((verdict.headline, *verdict.evidence, *verdict.missing))


def only_on_the_newest(kernel: str) -> None:
    if kernel != KERNELS[0].name:
        pytest.skip("kernels do not differ in this: run on the newest only")


@pytest.mark.parametrize("name", EXPECTED)
def test_verdict(share: Path, recorded: Recorded, kernel: str, name: str) -> None:
    if f"run {name} " not in ON_EVERY_KERNEL:
        only_on_the_newest(kernel)
    expected = EXPECTED[name]
    assert runs(share)[name][1] in expected.statuses, (share / f"{name}.log").read_text()
    verdict = recorded(name).verdict
    assert (verdict.cause, verdict.refused_by) == (expected.cause, expected.refused_by), verdict
    assert (verdict.kernel_cap is KernelCap.YES) == (verdict.cause is Cause.KERNEL_CAP)
    for words in expected.story:
        assert words in story_of(verdict)
    assert expected.call is None or (verdict.failing_call and verdict.failing_call.name == expected.call)


def test_addresses_are_said_with_certainty(recorded: Recorded) -> None:
    verdict = recorded("pools").verdict
    assert verdict.confidence is Confidence.HIGH
    own = next(use for use in verdict.caps if use.name == "panvk-va")
    assert own.used is not None
    assert 7 * 512 * MIB < own.used < 4064 * MIB
    assert recorded("pools").tables.ioctls["failed"].sum() == 0


def test_failing_thread_and_child_are_named(share: Path, recorded: Recorded, kernel: str) -> None:
    """Neither the thread nor the process that a command begins with is the one that fails."""
    only_on_the_newest(kernel)
    thread, child = (recorded(name).verdict.failing_call for name in ("thread", "child"))
    assert thread is not None
    assert child is not None
    assert thread.pid == runs(share)["thread"][0] != thread.tid
    assert child.pid != runs(share)["child"][0]


def test_what_was_before_the_tracer_came_is_said_to_be_unknown(share: Path, kernel: str) -> None:
    only_on_the_newest(kernel)
    verdict = analyse(share / "attached").verdict
    assert verdict.cause in (Cause.DRIVER_VA, Cause.INCONCLUSIVE), story_of(verdict)
    assert verdict.confidence is not Confidence.HIGH
    said = " ".join((*verdict.missing, *verdict.would_raise))
    assert "the objects it had made before are not known" in said
    counted = {use.name: use.used for use in verdict.caps if use.name in ("vms", "groups", "heaps")}
    assert all(used is None for used in counted.values())
