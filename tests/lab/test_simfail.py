# SPDX-License-Identifier: MIT
"""Every scenario on every kernel, against the table; what simfail leaves behind; the stress program."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from board import simfail

from .conftest import BoardRun

#: Lines of the kernel log that say something is wrong with the driver, or with what it drives.
KERNEL_BUG = re.compile(r"WARNING: |BUG: |Oops")
DRIVER_TROUBLE = re.compile(rf"panthor.*\*ERROR\*|panthor.*timeout|{KERNEL_BUG.pattern}")

SCENARIOS = simfail.scenarios()

#: First those that inject nothing: they must leave the kernel log clean.
QUIET = [s.name for s in SCENARIOS if "inject" not in s.needs]
FAULTY = [s.name for s in SCENARIOS if "inject" in s.needs]

SCRIPT = f"""
cd /share
simfail --list --json > table
simfail --json {" ".join(QUIET)} > results 2> steps
dmesg > quiet.dmesg
simfail --json {" ".join(FAULTY)} >> results 2>> steps
dmesg > faulty.dmesg
simfail all-well > afterwards 2>&1
cat /sys/kernel/debug/stub_gpu/inject > inject
ls /sys/fs/cgroup > cgroups
"""


@dataclass(frozen=True)
class Run:
    """What one guest left: the results by scenario's name, and files."""

    results: Mapping[str, Mapping[str, Any]]
    files: Mapping[str, str]


@pytest.fixture(scope="session")
def run(board: BoardRun, kernel: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All scenarios in one boot of ``kernel``."""
    share = tmp_path_factory.mktemp(f"simfail-{kernel}")
    done = board(SCRIPT, kernel=kernel, share=share, timeout=400)
    assert done.returncode == 0, done.stderr
    files = {path.name: path.read_text(errors="replace") for path in share.iterdir()}
    results = [json.loads(line) for line in files["results"].splitlines()]
    assert len(results) == len(SCENARIOS), files["steps"][-2000:]
    return Run({result["name"]: result for result in results}, files)


def steps_of(run: Run, name: str) -> str:
    """The step lines of one scenario, up to its result."""
    before, found, after = run.files["steps"].partition(f"simfail: {name}:")
    start = before.rfind("\nsimfail: ") + 1
    return before[start:] + found + after.partition("\n")[0]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_scenario(run: Run, scenario: simfail.Scenario) -> None:
    result = run.results.get(scenario.name)
    assert result, f"no result of {scenario.name}: {run.files['steps'][-2000:]}"
    assert result["result"] == "as expected", f"{result['why']}\n{steps_of(run, scenario.name)}"
    # What simfail counted is what the table promises to those who test by it.
    failed = {(f["call"], f["errno"]) for f in result["failures"]}
    assert failed in [{(f.call, f.errno) for f in outcome.failures} for outcome in scenario.outcomes]
    assert result["calls"].items() >= scenario.exact.items()


def test_the_guest_runs_the_table_that_the_tests_read(run: Run) -> None:
    here = subprocess.run([simfail.table_program()], capture_output=True, text=True, check=True)
    assert run.files["table"] == here.stdout


def test_without_injection_the_driver_has_nothing_to_report(run: Run) -> None:
    trouble = [line for line in run.files["quiet.dmesg"].splitlines() if DRIVER_TROUBLE.search(line)]
    assert not trouble


@pytest.mark.parametrize(
    "report",
    [
        "DATA_INVALID_FAULT",
        "CS_INHERIT_FAULT",
        "CS_FATAL.EXCEPTION_TYPE",
        "Unhandled Page fault",
        "progress timeout",
        "job timeout",
        "making device unusable",
    ],
)
def test_injected_faults_reach_the_driver(run: Run, report: str) -> None:
    assert report in run.files["faulty.dmesg"].replace(run.files["quiet.dmesg"], "")


def test_injection_breaks_nothing_but_the_gpu(run: Run) -> None:
    assert not [line for line in run.files["faulty.dmesg"].splitlines() if KERNEL_BUG.search(line)]


def test_everything_is_as_before_afterwards(run: Run) -> None:
    assert run.files["afterwards"].endswith("simfail: all-well: as expected (no failure)\n")
    assert "hold: no\nmcu-dead: no\n" in run.files["inject"]
    assert "armed: " not in run.files["inject"].replace("last armed: ", "")
    assert "simfail" not in run.files["cgroups"]


def test_a_signal_undoes_what_was_begun(board: BoardRun) -> None:
    script = """
    simfail job-hang > /tmp/steps & simfail=$!
    timeout 20 sh -c 'until grep -q "inject hang" /tmp/steps; do sleep 0.1; done'
    sleep 1; kill -TERM $simfail; wait $simfail; echo "status $?"
    simfail all-well | tail -1
    simfail cgroup-oom-kill > /tmp/steps & simfail=$!
    timeout 20 sh -c 'until ls -d /sys/fs/cgroup/simfail-*; do sleep 0.01; done' > /dev/null 2>&1
    kill -TERM $simfail; wait $simfail; echo "status $?"
    ls -d /sys/fs/cgroup/simfail-* 2> /dev/null
    pgrep simfail
    """
    assert board(script).stdout.splitlines() == [
        "status 143",
        "simfail: all-well: as expected (no failure)",
        "status 143",
    ]


def test_as_a_program_it_ends_as_vulkan_programs_do(board: BoardRun) -> None:
    names = "all-well retry-other-vm vm-33rd"
    script = f"for name in {names}; do simfail --as-program $name > /dev/null; echo $?; done"
    assert board(script).stdout.split() == ["0", "0", "134"]


def test_an_ordinary_user_is_told_what_is_not_possible(board: BoardRun) -> None:
    done = board("simfail group-priority; echo $?; simfail cgroup-bind; echo $?", user=True)
    lines = done.stdout.splitlines()
    assert lines[-4:] == [
        "simfail: group-priority: as expected (GROUP_CREATE EACCES)",
        "0",
        "simfail: cgroup-bind: not possible here: not root",
        "77",
    ]


def test_wrong_use_is_one_line_and_status_2(board: BoardRun) -> None:
    done = board("simfail no-such-thing; echo $?; simfail; echo $?; simfail --list all-well; echo $?")
    assert done.stdout.split() == ["2", "2", "2"]
    assert len(done.stderr.splitlines()) == 3
    assert "no-such-thing" in done.stderr


def test_stress(board: BoardRun, kernel: str) -> None:
    done = board("gpustress --groups 40 --jobs 60 --cycles 20 --binds 30; dmesg", kernel=kernel)
    assert "gpustress: all counters as expected" in done.stdout, done.stderr
    assert not [line for line in done.stdout.splitlines() if DRIVER_TROUBLE.search(line)]
