# SPDX-License-Identifier: MIT
"""doctor on this machine: what it says is what a recording then has, and it changes nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from panthor_trace.capture.nodes import panthor_nodes

from .tracing import REPOSITORY, environment, trace, tracer

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")
#: Those a recording's layers depend on, by layer.
NEEDED = {
    "process": ("bpf", "lockdown", "tracefs", "events", "bcc"),
    "ioctl": ("btf",),
    "vulkan": ("uprobes", "libvulkan"),
    "exception": ("uprobes", "libstdc++"),
    "taskstats": ("taskstats",),
    "driver": ("driver", "kprobes", "functions"),
}


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)),
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def states(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    return {row["name"]: row["state"] for row in json.loads(done.stdout)["checks"]}


@pytest.fixture(scope="module")
def as_root() -> subprocess.CompletedProcess[str]:
    return run(*tracer("doctor", "--json"))


def test_a_recording_has_what_doctor_says(as_root: subprocess.CompletedProcess[str], tmp_path: Path) -> None:
    assert as_root.stderr == ""
    found = states(as_root)
    done = trace(tmp_path / "trace", "--no-csv", "--", "true")
    assert done.returncode == 0, done.stderr
    layers: dict[str, Any] = json.loads((tmp_path / "trace/meta.json").read_text())["layers"]
    for layer, names in NEEDED.items():
        fine = all(found[name] == "ok" for name in names)
        assert layers[layer]["live"] == fine, (layer, {name: found[name] for name in names})


def test_exit_status_is_that_of_its_findings(as_root: subprocess.CompletedProcess[str]) -> None:
    found = set(states(as_root).values())
    expected = 1 if "missing" in found else 13 if "unknown" in found else 0
    assert as_root.returncode == expected
    assert bool(panthor_nodes()) == (states(as_root)["driver"] == "ok")


def test_without_root_it_sees_nearly_as_much(as_root: subprocess.CompletedProcess[str]) -> None:
    """By /usr/bin/python3, which anybody can run and which has the distribution's bcc."""
    done = run(
        *NOBODY, "/usr/bin/python3", "-m", "panthor_trace", "doctor", "--json", PYTHONDONTWRITEBYTECODE="1"
    )
    assert done.stderr == ""
    found, roots = states(done), states(as_root)
    different = {name for name in found if found[name] != roots[name]}
    assert {found[name] for name in different} <= {"unknown"}
    assert different <= {"lockdown", "events", "bpf", "node", "uapi"}


def test_probes_are_those_a_recording_puts(as_root: subprocess.CompletedProcess[str], tmp_path: Path) -> None:
    """As far as this machine has libraries and a driver to probe."""
    rows = json.loads(run(*tracer("probes", "--json")).stdout)
    listed = {row["probe"] for row in rows if row["present"]}
    assert run(*tracer("probes")).stdout.split() == [row["probe"] for row in rows if row["present"]]
    assert trace(tmp_path / "trace", "--no-csv", "--", "true").returncode == 0
    layers = json.loads((tmp_path / "trace/meta.json").read_text())["layers"]
    put = {probe.split()[0] for layer in layers.values() for probe in layer["probes"]}
    assert {probe for probe in put if probe.startswith("tracepoint:")} <= listed
    assert "tracepoint:task/task_newtask" in listed
    for layer in ("vulkan", "exception"):
        assert any(row["layer"] == layer and row["present"] for row in rows) == layers[layer]["live"]
    without = run(*NOBODY, "/usr/bin/python3", "-m", "panthor_trace", "probes", PYTHONDONTWRITEBYTECODE="1")
    assert set(without.stdout.split()) >= listed


def machine_state() -> dict[str, Any]:
    """What a check could have changed of the machine."""
    return {
        "mounts": Path("/proc/self/mountinfo").read_text(),
        "modules": [line.split()[0] for line in Path("/proc/modules").read_text().splitlines()]
        if Path("/proc/modules").exists()
        else [],
        "settings": [
            Path(name).read_text()
            for name in ("/proc/sys/kernel/kptr_restrict", "/proc/sys/vm/max_map_count")
        ],
        "here": sorted(path.name for path in Path().iterdir()),
    }


def test_nothing_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = machine_state()
    assert run(*tracer("doctor")).returncode in (0, 1, 13)
    assert machine_state() == before


def test_tracefs_is_not_mounted_by_it() -> None:
    """In a mount namespace of its own, where nobody has mounted it; a recording would."""
    script = "while umount /sys/kernel/tracing 2> /dev/null; do :; done; before=$(cat /proc/self/mountinfo); "
    script += '"$@"; [ "$before" = "$(cat /proc/self/mountinfo)" ] || echo CHANGED >&2'
    done = run("unshare", "--mount", "sh", "-c", script, "sh", *tracer("doctor", "--json"))
    assert done.stderr == ""
    (row,) = [row for row in json.loads(done.stdout)["checks"] if row["name"] == "tracefs"]
    assert (row["state"], row["found"]) == ("ok", "not mounted; recording mounts it")


def test_says_what_is_missing_without_what_is_missing(tmp_path: Path) -> None:
    """An interpreter with click and nothing else: no bcc, no rich, no pandas."""
    (tmp_path / "click").symlink_to(Path(click.__file__).parent)
    command = [sys.executable, "-S", "-m", "panthor_trace", "doctor"]
    path = f"{REPOSITORY / 'src'}:{tmp_path}"
    done = run(*command, "--json", PYTHONPATH=path)
    assert done.stderr == ""
    assert done.returncode == 1
    found = states(done)
    assert {found[name] for name in ("bcc", "numpy", "pandas", "rich")} == {"missing"}
    assert {found[name] for name in ("pyroute2", "taskstats")} == {"degraded"}
    assert found["click"] == "ok"
    shown = run(*command, PYTHONPATH=path)
    assert "not ready" in shown.stdout.splitlines()[0]
    assert "\x1b" not in shown.stdout
    (tmp_path / "click").unlink()
    done = run(*command, PYTHONPATH=path)
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr == "panthor-trace: the Python module click is missing: install python3-click\n"
