# SPDX-License-Identifier: MIT
"""The scenario table: complete, consistent, and in the words of the design and of the tracer."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest

from board import simfail
from panthor_trace.uapi import ioctls

#: The design's causes that a program can be made to have without Vulkan.
CAUSES = {
    "clean",
    "recovered",
    "kernel-cap",
    "kernel-memory",
    "kernel-rejected",
    "gpu-fault",
    "process-limit",
    "driver-va",
    "application",
}

#: Causes with no failure that the kernel could have been asked about.
SILENT_CAUSES = {"clean", "driver-va", "application"}

#: Functions of the guest that a scenario may ask for.
NEEDS = {"inject", "cgroup", "root"}


@pytest.fixture(params=simfail.scenarios(), ids=lambda s: s.name)
def scenario(request: pytest.FixtureRequest) -> simfail.Scenario:
    found = request.param
    assert isinstance(found, simfail.Scenario)
    return found


def test_names_are_unique() -> None:
    names = [s.name for s in simfail.scenarios()]
    assert len(names) == len(set(names))


def test_every_cause_has_a_scenario() -> None:
    assert {s.cause for s in simfail.scenarios()} == CAUSES


def test_errnos_exist_and_layers_fit_the_call(scenario: simfail.Scenario) -> None:
    for outcome in scenario.outcomes:
        for failure in outcome.failures:
            assert hasattr(errno, failure.errno)
            assert failure.layer in {"ioctl", "syscall", "driver"}
            # ioctls are named as in the uAPI header, what is no ioctl in lower case
            assert failure.call.isupper() == (failure.layer == "ioctl")


def test_something_fails_unless_the_cause_is_elsewhere(scenario: simfail.Scenario) -> None:
    assert scenario.outcomes
    for outcome in scenario.outcomes:
        silent = scenario.cause in SILENT_CAUSES or outcome.when == "only the kernel log tells"
        assert bool(outcome.failures) != silent


def test_outcomes_can_be_told_apart(scenario: simfail.Scenario) -> None:
    assert len({o.failures for o in scenario.outcomes}) == len(scenario.outcomes)
    assert len({o.when for o in scenario.outcomes}) == len(scenario.outcomes)


def test_a_cap_names_its_limit(scenario: simfail.Scenario) -> None:
    if scenario.cause in {"kernel-cap", "kernel-memory", "process-limit"}:
        assert scenario.limit is not None


def test_only_a_fatal_failure_aborts(scenario: simfail.Scenario) -> None:
    assert scenario.aborts == (scenario.cause not in {"clean", "recovered"})


def test_needs_are_known(scenario: simfail.Scenario) -> None:
    assert scenario.needs <= NEEDS
    # What the driver reports comes from the GPU, and that only by injection.
    assert not scenario.driver_logs or "inject" in scenario.needs


def test_ioctls_are_called_what_the_tracer_calls_them(scenario: simfail.Scenario) -> None:
    known = {ioctl.name for ioctl in (*ioctls.PANTHOR, *ioctls.CORE)}
    failing = {f.call for outcome in scenario.outcomes for f in outcome.failures if f.layer == "ioctl"}
    assert failing <= known
    assert {call for call in scenario.exact if call.isupper()} <= known


def test_counts_that_find_lost_records_are_exact() -> None:
    burst = next(s for s in simfail.scenarios() if s.name == "burst")
    count = burst.exact["BO_CREATE"]
    assert count > 1000
    assert all(count % divisor for divisor in range(2, int(count**0.5) + 1)), "not a prime"


def test_every_fault_of_the_stub_gpu_is_in_some_scenario() -> None:
    """So that the verdict matrix has a row for each."""
    faults = (Path(simfail.__file__).parent / "stub_gpu" / "faults.c").read_text()
    table = faults[faults.index("const struct fault faults[]") :]
    names = re.findall(r'^    \{"([a-z-]+)",', table, flags=re.MULTILINE)
    injected = "".join(path.read_text() for path in simfail.SOURCES.glob("*.c"))
    assert len(names) == 10
    assert [name for name in names if not re.search(rf'"{name}[" ]', injected)] == []
