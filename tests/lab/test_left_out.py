# SPDX-License-Identifier: MIT
"""The capture without one of its parts, on the real driver: the truth, or no answer.

Each way is how some kernel really is: without type information, without system-call tracepoints, with
addresses hidden; or how a recording may go: with a ring too small for what comes. Files of /sys and /proc are
covered by mounts of the tracer's own, so that the tracer itself is the released one.
Traces recorded whole are damaged in test_driver_layer.py and tests/unit/test_damaged_traces.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from board.simfail import scenarios
from panthor_trace.analysis import Analysis, analyse
from panthor_trace.errors import TraceError
from panthor_trace.verdict import Cause, Verdict

from .conftest import BoardRun
from .matrix import REFUSED_BY

#: Of each kind of failure at least one.
SIMFAIL = (
    *("vm-range", "bind-past-range", "heap-max-chunks", "heap-in-flight", "kernel-va", "cgroup-bind"),
    *("cgroup-oom-kill", "mmap-address-space", "export-nofile", "open-nofile", "bo-never-bound", "gives-up"),
    *("bind-misaligned", "bind-closed-bo", "heap-initial", "submit-queue", "submit-after-fatal", "mmu-fault"),
    *("retry-other-vm", "all-well", "burst"),
)
#: With Vulkan in between, by the cause that is true of it.
VKALLOC = {
    "too-large": (Cause.KERNEL_CAP, "memory=1M*2 memory=65536G"),
    "no-address": (Cause.DRIVER_VA, "pool=4080M"),
    "other-way": (Cause.RECOVERED, "try=65536G memory=1M"),
}
TRUTHS = {
    **{row.name: Cause(row.cause) for row in scenarios() if row.name in SIMFAIL},
    **{name: cause for name, (cause, _) in VKALLOC.items()},
}
LIMITS = {row.name: row.limit.name for row in scenarios() if row.limit is not None}
LIMITS["too-large"] = "mmap_offsets"


@dataclass(frozen=True)
class Way:
    """What is covered before the tracer starts, and what it must say of that."""

    name: str
    cover: str
    #: By layer: whether it is live, and what is missing of it.
    live: dict[str, bool]
    missing: tuple[tuple[str, str], ...] = ()
    options: str = ""


_NO_BTF = "mount -t tmpfs none /sys/kernel/btf"
_NO_TRACEPOINTS = "for of in syscalls oom printk; do mount -t tmpfs none /sys/kernel/tracing/events/$of; done"
#: Each start of the tracer takes half a minute under emulation: what does not concern the same layer is left
#: out together.
WAYS = (
    Way("no-types", _NO_BTF, {"ioctl": False, "mmap": False, "driver": False}),
    Way(
        "no-types-of-the-module",
        f"cp /sys/kernel/btf/vmlinux /tmp; {_NO_BTF}; cp /tmp/vmlinux /sys/kernel/btf",
        {"ioctl": True, "driver": True},
    ),
    Way(
        "no-addresses-no-tracepoints",
        f"sysctl -q -w kernel.kptr_restrict=2; {_NO_TRACEPOINTS}",
        {"ioctl": True, "mmap": False, "driver": False},
        (("process", "tracepoint:oom/mark_victim"), ("driver", "tracepoint:printk/console")),
    ),
    Way("no-room", ":", {"ioctl": True, "driver": True}, options="--ring-size 4K"),
)

EACH = f"""
out=$1; shift
run() {{
    name=$1; shift
    "$@" > $out-$name.log 2>&1 &
    pid=$!; status=0; wait $pid || status=$?
    echo "$name $pid $status" >> $out.runs
}}
for name in {" ".join(SIMFAIL)}; do run $name simfail --as-program $name; done
{chr(10).join(f"run {name} vkalloc {steps}" for name, (_, steps) in VKALLOC.items())}
"""
SCRIPT = (
    "set -u\ncd /tmp\nmount -o remount,rw /sys 2> /dev/null\n"
    + "\n".join(
        f"unshare -m sh -c '{way.cover.replace(chr(39), chr(34))}; exec panthor-trace --no-csv {way.options} "
        f"-o /share/trace-{way.name} -- sh /share/each.sh /share/{way.name}' "
        f"> /share/{way.name}.out 2> /share/{way.name}.err\nsysctl -q -w kernel.kptr_restrict=0"
        for way in WAYS
    )
    + "\nexit 0\n"
)

Recorded = Callable[[str, str], Analysis]


@pytest.fixture(scope="module")
def share(board: BoardRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one guest left: kernels do not differ in this."""
    share: Path = tmp_path_factory.mktemp("left-out")
    (share / "each.sh").write_text(EACH)
    done = board(SCRIPT, memory_mib=1536, share=share, timeout=2400)
    assert done.returncode == 0, done.stderr
    return share


@pytest.fixture(scope="module")
def recorded(share: Path) -> Recorded:
    """Each program's part of each recording, judged by itself."""

    @cache
    def of(way: str, name: str) -> Analysis:
        lines = [line.split() for line in (share / f"{way}.runs").read_text().splitlines()]
        pid, status = {name: (int(pid), int(status)) for name, pid, status in lines}[name]
        return analyse(share / f"trace-{way}", pid, status)

    return of


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_what_is_left_out_is_said(share: Path, way: Way) -> None:
    """Otherwise nothing was left out, and the verdicts below prove nothing."""
    whole = analyse(share / f"trace-{way.name}")
    layers = whole.trace.meta["layers"]
    assert {name: layers[name]["live"] for name in way.live} == way.live
    assert [pair for pair in way.missing if pair[1] not in layers[pair[0]]["missing"]] == []
    if way.options:
        assert whole.trace.meta["ring_bytes"] == 4096
        assert not whole.tables.losses.empty


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_never_another_cause(recorded: Recorded, way: Way, name: str) -> None:
    try:
        verdict = recorded(way.name, name).verdict
    except TraceError as error:  # all that was seen of it may have been lost
        if way.name != "no-room" or not str(error).endswith("records of processes were lost"):
            raise
        return
    assert verdict.cause in (TRUTHS[name], Cause.INCONCLUSIVE), story_of(verdict)
    if verdict.cause is Cause.INCONCLUSIVE:
        assert verdict.missing
        return
    assert verdict.refused_by == REFUSED_BY[verdict.cause.value]
    limit = verdict.refusal.limit if verdict.refusal else None
    assert limit is None or verdict.cause is Cause.RECOVERED or limit.name == LIMITS[name]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_not_everything_is_given_up(recorded: Recorded, way: Way) -> None:
    """An answer that is always open is worth nothing: what a way does not hide is still told."""
    if way.name in ("no-types", "no-room"):
        pytest.skip("hides nearly everything")
    told = [name for name in TRUTHS if recorded(way.name, name).verdict.cause is TRUTHS[name]]
    print(f"{way.name}: {len(told)} of {len(TRUTHS)} told: {' '.join(told)}")
    assert len(told) >= len(TRUTHS) // 3, told


def story_of(verdict: Verdict) -> str:
    return " ".join((verdict.headline, *verdict.evidence, *verdict.missing))
