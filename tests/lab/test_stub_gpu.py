# SPDX-License-Identifier: MIT
"""The stub GPU by itself: what its debugfs files promise, and that every GPU of the table works on a kernel.

What each fault does to a program is tests/lab/test_simfail.py.
"""

from __future__ import annotations

import re

import pytest

from board import gpus

from .conftest import BoardRun

DEBUGFS = "/sys/kernel/debug/stub_gpu"

FAULTS = (
    "tiler-oom",
    "cs-fault",
    "cs-fatal",
    "mmu-fault",
    "hang",
    "progress-timeout",
    "mcu-dead",
    "hold",
    "release",
    "clear",
)

#: What panthor says when it waits in vain, loses a job or gives up (panthor_{fw,gpu,sched,mmu,device}.c).
COMPLAINTS = re.compile(r"timed? ?out|fail|unusable|unhandled|fatal|WARNING|Oops", re.IGNORECASE)

#: panvk's name for each GPU of the table (Mesa 26.1).
PANVK_NAMES = {
    "g610-mc4": "Mali-G610 MC4",
    "g310": "Mali-G310v2 MC1",
    "g720-mc10": "Mali-G720 MC10",
    "g925-mc12": "Mali-G725 MC12",
}


def counters(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in (line.split() for line in text.splitlines())}


def complaints(log: str) -> list[str]:
    """Lines of a kernel log in which panthor complains."""
    lines = (line for line in log.splitlines() if "panthor" in line or "BUG" in line)
    return [line for line in lines if COMPLAINTS.search(line)]


def test_jobs_run_and_nothing_times_out(board: BoardRun, kernel: str) -> None:
    """Twelve groups, more than there are slots, so that they are suspended and resumed in other ones."""
    done = board(f"gpustress >&2 || exit 1; cat {DEBUGFS}/counters; dmesg >&2", kernel=kernel, timeout=300)
    assert done.returncode == 0, done.stderr
    assert complaints(done.stderr) == []
    now = counters(done.stdout)
    assert now["jobs"] >= 1200
    assert now["csg_suspend"] > 0
    assert now["csg_resume"] > 0
    assert now["bad_walks"] == now["runaway_streams"] == 0


def test_inject_explains_itself(board: BoardRun, kernel: str) -> None:
    done = board(
        f"""cd {DEBUGFS}
        echo 'tiler-oom at=3 heap=0x1000' > inject; cat inject
        echo clear > inject; echo ---; cat inject
        for line in nonsense 'hang foo=1' 'hold csg=1' 'cs-fault csg=8' 'cs-fault at=0' 'cs-fault code=x'; do
            printf '%s' "$line" | dd of=inject 2>&1 >/dev/null | grep -o 'Invalid argument'
        done
        printf cs-fault | dd of=inject 2>&1 >/dev/null | grep -o 'No such device'
        dmesg | grep 'cannot inject' >&2
        """,
        kernel=kernel,
    )
    armed, cleared = done.stdout.split("---\n")
    assert [name for name in FAULTS if f"\n{name} " not in "\n" + armed] == []
    assert "armed: tiler-oom in 3 jobs" in armed
    assert "armed:" not in cleared
    assert done.stdout.count("Invalid argument") == 6
    assert done.stdout.count("No such device") == 1
    warnings = done.stderr.splitlines()
    assert len(warnings) == 5  # at=0 is a value nobody can mean, but neither name nor argument is unknown
    assert all(name in warnings[0] for name in ("nonsense", *FAULTS))


@pytest.mark.parametrize("gpu", gpus.GPUS)
def test_panvk_takes_every_gpu(board: BoardRun, kernel: str, gpu: str) -> None:
    done = board("vulkaninfo --summary 2>/dev/null; dmesg >&2", kernel=kernel, gpu=gpu)
    assert f"= {PANVK_NAMES[gpu]}\n" in done.stdout
    assert "DRIVER_ID_MESA_PANVK" in done.stdout
    assert complaints(done.stderr) == []
