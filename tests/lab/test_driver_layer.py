# SPDX-License-Identifier: MIT
"""Every way to fail, traced on the real driver: the verdict against what simfail made go wrong.

One guest a kernel, one recording for nearly all scenarios: starting BCC takes half a minute under emulation.
Each scenario's process is then judged by itself, as ``panthor-trace report --json --process PID`` does. Some
are traced alone, all of them with ``scripts/test --matrix --each``.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from board.kernels import KERNELS
from board.simfail import Scenario, scenarios
from panthor_trace.commands.report import report
from panthor_trace.model import Tables, build
from panthor_trace.trace.process import only_process
from panthor_trace.trace.reader import Trace, read_trace
from panthor_trace.verdict import judge
from panthor_trace.verdict.remedies import REMEDIES

from .. import damage
from .conftest import BoardRun
from .matrix import cells

#: With the whole machine's memory gone, the out-of-memory killer of 7.3 ends whom it likes: traced alone,
#: with others to choose from.
MACHINE_WIDE = ("retry-smaller", "bo-larger-than-memory")
#: Traced together with all others, as `report --process` tells them apart.
TOGETHER = tuple(scenario for scenario in scenarios() if scenario.name not in MACHINE_WIDE)
#: Traced alone as well, each by a command line of its own; with --each, every scenario is.
ALONE = (*MACHINE_WIDE, "vm-33rd")

#: SIGABRT, as a shell shows it.
ABORTED = 134

EACH = """
out=$1; shift
for name in "$@"; do
    simfail --as-program "$name" > "$out/$name.log" 2>&1 &
    pid=$!; status=0; wait $pid || status=$?
    echo "$name $pid $status" >> "$out/runs"
done
"""
SCRIPT = """
set -u
cd /tmp
panthor-trace --no-csv -o /share/trace -- sh /share/each.sh /share $(cat /share/together) \\
    > /share/out 2> /share/err
echo $? > /share/status
cat /sys/kernel/tracing/kprobe_events > /share/left_over
grep -aoh 'GGML_VK_[A-Z_0-9]*' /usr/lib/*/ggml/backends*/libggml-vulkan.so | sort -u > /share/variables
llama-bench --help > /share/llama-bench.help 2>&1
# Whoever runs the scenarios is spared where memory runs out; these are not.
echo -1000 > /proc/$$/oom_score_adj
for _ in 1 2 3; do
    sh -c 'echo 1000 > /proc/$$/oom_score_adj; held=$(head -c 16M /dev/zero | tr "\\0" x); sleep 3600' &
done
for name in $(cat /share/alone); do
    panthor-trace --no-csv -o /share/alone-$name -- simfail --as-program $name > /share/alone-$name.log 2>&1
    echo "$name $?" >> /share/alone-runs
done
"""


@dataclass(frozen=True)
class Recorded:
    """All scenarios' trace, process and exit status of each; exit statuses of those traced alone."""

    path: Path
    trace: Trace
    processes: dict[str, tuple[int, int]]
    alone: dict[str, int]

    def tables(self, name: str) -> Tables:
        """The tables of one scenario's processes."""
        pid, status = self.processes[name]
        return build(only_process(self.trace, pid, status))

    def verdict(self, name: str, *, alone: bool = False) -> dict[str, Any]:
        """What the command line prints for one scenario."""
        if alone:
            return printed(str(self.path.parent / f"alone-{name}"))
        pid, status = self.processes[name]
        return printed("--process", str(pid), "--exit-status", str(status), str(self.path))


def printed(*words: str) -> dict[str, Any]:
    """What ``panthor-trace report --json`` prints."""
    done = CliRunner().invoke(report, ["--json", *words], catch_exceptions=False)
    answer: dict[str, Any] = json.loads(done.output)
    return answer


def alone(config: pytest.Config) -> tuple[str, ...]:
    """Scenarios that are traced alone, the one that loses the device last."""
    each = tuple(scenario.name for scenario in scenarios())
    return each if config.getoption("--each", default=False) else ALONE


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The rows of the matrix: every scenario in one trace with the others, and some or all of them alone."""
    if "how" in metafunc.fixturenames:
        by_name = {scenario.name: scenario for scenario in scenarios()}
        rows = [(scenario, "others") for scenario in TOGETHER]
        rows += [(by_name[name], "alone") for name in alone(metafunc.config)]
        ids = [f"{scenario.name}-{how}" for scenario, how in rows]
        metafunc.parametrize(("scenario", "how"), rows, ids=ids)


@pytest.fixture(scope="module")
def recorded(
    board: BoardRun, kernel: str, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Recorded:
    """One guest of ``kernel`` with every scenario in it, the one that loses the device last."""
    share: Path = tmp_path_factory.mktemp(f"driver-layer-{kernel}")
    (share / "each.sh").write_text(EACH)
    (share / "together").write_text("\n".join(scenario.name for scenario in TOGETHER))
    (share / "alone").write_text("\n".join(alone(pytestconfig)))
    began = time.monotonic()
    done = board(
        SCRIPT, kernel=kernel, memory_mib=1536, share=share, timeout=1500 + 120 * len(alone(pytestconfig))
    )
    assert done.returncode == 0, done.stderr
    assert (share / "status").read_text().strip() == "0", (share / "err").read_text()
    runs = [line.split() for line in (share / "runs").read_text().splitlines()]
    print(f"\n{kernel}: {len(runs)} scenarios in {time.monotonic() - began:.0f} s")
    processes = {name: (int(pid), int(status)) for name, pid, status in runs}
    assert set(processes) == {scenario.name for scenario in TOGETHER}
    singly = [line.split() for line in (share / "alone-runs").read_text().splitlines()]
    statuses = {name: int(status) for name, status in singly}
    return Recorded(share / "trace", read_trace(share / "trace"), processes, statuses)


@pytest.mark.matrix
def test_verdict(
    recorded: Recorded,
    kernel: str,
    scenario: Scenario,
    how: str,
    record_property: Callable[[str, object], None],
) -> None:
    """One row of the matrix: printed at the end of the run (conftest.py)."""
    if how == "alone":
        assert recorded.alone[scenario.name] == (ABORTED if scenario.aborts else 0)
    verdict = recorded.verdict(scenario.name, alone=how == "alone")
    row = cells(scenario, verdict)
    record_property("matrix", [kernel, scenario.name, how, {title: str(cell) for title, cell in row.items()}])
    assert verdict["losses"] == {}
    assert [f"{title}: {cell}" for title, cell in row.items() if cell.wrong] == [], verdict["headline"]


#: What no refusal's chain names, and verdicts rest on.
SILENT = ("panthor_heap_grow", "group_term_work", "oom_kill_process")


@pytest.mark.parametrize("name", [scenario.name for scenario in TOGETHER])
def test_any_part_left_out(recorded: Recorded, kernel: str, name: str) -> None:
    """The same recordings without a layer, an event, types, or a function the verdict rests on."""
    if kernel != KERNELS[0].name:
        pytest.skip("done on the newest only: half a second a verdict, ten to a scenario")
    trace = only_process(recorded.trace, *recorded.processes[name])
    whole = judge(build(trace), trace.meta, trace.end)
    chain = ((whole.refusal and whole.refusal.origin_chain) or "").split(" < ")
    needed = {f"function {function}" for function in (chain[0], *SILENT)}
    damaged = {
        what: damage.wrong(judge(build(left), left.meta, left.end), whole)
        for what, left in damage.left_out(trace)
        if not what.startswith("function ") or what in needed
    }
    assert len(damaged) > 3
    assert {what: how for what, how in damaged.items() if how} == {}


def test_options_that_remedies_name_exist(recorded: Recorded) -> None:
    share = recorded.path.parent
    variables = set((share / "variables").read_text().split())
    options = (share / "llama-bench.help").read_text()
    text = " ".join(f"{row.text} {row.ggml}" for row in REMEDIES)
    named = set(re.findall(r"GGML_[A-Z_]+", text))
    assert named
    assert named <= variables
    # -c is of llama-cli and llama-server.
    assert {"-ub", "-ngl"} <= set(re.findall(r"-{1,2}[a-z-]+", options))


def test_a_refusal_comes_with_its_kernel_stack(recorded: Recorded) -> None:
    verdict = recorded.verdict("kernel-va")
    stack = verdict["refusal"]["kernel_stack"]
    assert "drm_ioctl" in stack
    assert verdict["refusal"]["origin_chain"].split(" < ") == [
        "panthor_vm_alloc_va",
        "panthor_kernel_bo_create",
        "panthor_alloc_heap_chunk",
        "panthor_heap_create",
        "panthor_ioctl_tiler_heap_create",
    ]


def test_heap_growth_is_seen_with_its_counts(recorded: Recorded) -> None:
    grown = recorded.tables("heap-grows").heap_growth
    assert grown["errno"].eq("").all()
    assert len(grown) == 3
    refused = recorded.tables("heap-max-chunks").heap_growth
    assert refused["errno"].tolist() == ["", "", "ENOMEM"]
    assert refused["chunks"].tolist() == [2, 3, 4]
    assert refused["limit"].tolist() == ["", "", "heap_max_chunks"]
    assert recorded.tables("heap-in-flight").heap_growth["limit"].tolist() == ["heap_target_in_flight"]


def test_heap_counts_agree_with_the_kernels_own(recorded: Recorded) -> None:
    """What the model counts is what panthor_alloc_heap_chunk leaves in the heap."""
    tables = recorded.tables("heap-grows")
    chunks = tables.kernel[tables.kernel["function"] == "panthor_alloc_heap_chunk"]
    assert chunks["chunk_count"].tolist() == list(range(1, len(chunks) + 1))
    assert int(chunks["chunk_count"].iloc[-1]) == int(tables.heap_growth["chunks"].iloc[-1]) + 1
    heap_bytes = tables.memory["heap_bytes"]
    assert int(heap_bytes.max()) == int(chunks["chunk_size"].sum())
    assert int(heap_bytes.iloc[-1]) == 0


def test_vm_objects_are_known_by_id(recorded: Recorded) -> None:
    vms = recorded.tables("vm-33rd").vms
    made = vms[vms["vm_id"].notna()]
    assert made["vm_id"].tolist() == list(range(1, 33))
    assert made["vm"].nunique() == 32


def test_work_of_kernel_threads_belongs_to_the_process(recorded: Recorded) -> None:
    for name in ("mmu-fault", "cs-fatal", "job-hang"):
        faults = recorded.tables(name).gpu_faults
        lost = faults[faults["fault"] == "group lost"]
        # Its end is worked on once for the fault, and may be again when the program destroys it.
        assert set(lost["pid"]) == {recorded.processes[name][0]}, (name, faults)


def test_out_of_memory_kill_names_the_memory_cgroup(recorded: Recorded) -> None:
    killed = recorded.tables("cgroup-oom-kill").processes
    killed = killed[killed["oom_killed_ns"].notna()]
    assert killed["oom_in_cgroup"].tolist() == [True]
    assert killed["oom_limit"].tolist() == [64 << 20]


def test_ioctls_were_caught_on_the_drm_path_and_no_return_was_missed(recorded: Recorded) -> None:
    meta = recorded.trace.meta
    assert meta["ioctl_hook"] == "drm"
    assert meta["layers"]["driver"]["live"]
    assert recorded.tables("burst").losses.empty
    assert (recorded.tables("burst").ioctls["name"] == "BO_CREATE").sum() == 1009
    assert (recorded.path.parent / "left_over").read_text() == ""


def test_both_hooks_give_the_same_records(board: BoardRun, kernel: str, tmp_path: Path) -> None:
    script = "\n".join(
        f"panthor-trace --no-csv --ioctl-hook {hook} -o /share/{hook} -- simfail all-well > /dev/null 2>&1"
        for hook in ("drm", "syscall")
    )
    done = board(script, kernel=kernel, memory_mib=1536, share=tmp_path, timeout=1500)
    assert done.returncode == 0, done.stderr
    columns: Callable[[Tables], list[Any]] = lambda tables: (  # noqa: E731
        tables.ioctls[["fd", "node", "name", "argument_size", "ret", "errno"]].to_numpy().tolist()
    )
    drm, syscall = (build(read_trace(tmp_path / hook)) for hook in ("drm", "syscall"))
    assert columns(drm) == columns(syscall)
    assert drm.bos["size"].tolist() == syscall.bos["size"].tolist()
    assert drm.binds["va"].tolist() == syscall.binds["va"].tolist()
