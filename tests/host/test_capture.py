# SPDX-License-Identifier: MIT
"""What is recorded of real processes on this machine's kernel.

/dev/null stands in for a panthor node: it refuses every ioctl (ENOTTY), which is enough to see which are
attributed, with what arguments and how often.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from panthor_trace.trace.schema import RecordType

from .tracing import analysed, compiled, trace

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="loading BPF programs needs root")

PROGRAMS = Path(__file__).parent / "programs"
NODE = ("--node", "/dev/null", "--no-csv", "--")


@pytest.fixture(scope="module")
def ioctls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(PROGRAMS / "ioctls.c", tmp_path_factory.mktemp("ioctls"), ["-pthread"])


def test_every_ioctl_on_the_node_is_recorded_with_its_arguments(tmp_path: Path, ioctls: Path) -> None:
    tables = analysed(tmp_path / "trace", *NODE, ioctls, "/dev/null").tables
    assert tables.ioctls["name"].value_counts().to_dict() == {"BO_CREATE": 23, "VM_BIND": 3}
    assert set(tables.ioctls["errno"]) == {"ENOTTY"}
    assert set(tables.ioctls["node"]) == {"null"}
    assert tables.bos["requested"].tolist() == [4096 * n for n in range(1, 24)]
    assert (tables.ioctls["exit_ns"] > tables.ioctls["enter_ns"]).all()


def test_bind_operations_are_complete_or_counted(tmp_path: Path, ioctls: Path) -> None:
    analysis = analysed(tmp_path / "trace", *NODE, ioctls, "/dev/null")
    binds, calls = analysis.tables.binds, analysis.tables.ioctls
    by_call = binds.groupby("ioctl_id")["size"].apply(list).tolist()
    assert by_call[:2] == [[4096], [4096 * n for n in range(1, 12)]]
    assert by_call[2] == [4096 * n for n in range(1, 513)]
    assert calls.loc[calls["name"] == "VM_BIND", "cut"].tolist() == [False, False, True]
    assert dict(analysis.verdict.losses) == {"lost_array": 1}


def test_points_of_a_timeline_wait_are_recorded_with_their_handles(tmp_path: Path, ioctls: Path) -> None:
    analysis = analysed(tmp_path / "trace", *NODE, ioctls, "/dev/null", "points")
    three, most = analysis.trace.of(RecordType.ARRAY)["bytes"]
    assert three[:128].view("<u8").tolist() == [101, 102, 103] + [0] * 13
    assert three[128:].view("<u4").tolist() == [1, 2, 3] + [0] * 13
    assert most[:128].view("<u8").tolist() == list(range(101, 117))
    assert most[128:].view("<u4").tolist() == list(range(1, 17))
    assert analysis.tables.ioctls["cut"].tolist() == [False, False, True]
    assert dict(analysis.verdict.losses) == {"lost_array": 1}


def test_same_numbers_on_another_device_are_not_panthors(tmp_path: Path, ioctls: Path) -> None:
    assert analysed(tmp_path / "trace", *NODE, ioctls, "/dev/zero").tables.ioctls.empty


def test_duplicated_descriptor_in_a_thread_of_a_grandchild(tmp_path: Path, ioctls: Path) -> None:
    tables = analysed(tmp_path / "trace", *NODE, ioctls, "/dev/null", "elsewhere").tables
    assert len(tables.bos) == 23
    processes = tables.processes.set_index("pid")
    assert len(processes) == 3
    (pid,) = set(tables.bos["pid"])
    assert set(tables.bos["tid"]) != {pid}
    assert set(tables.bos["fd"]) == {200}
    child = processes.loc[pid, "parent"]
    root = processes.loc[child, "parent"]
    assert processes.loc[root, "parent"] is processes["parent"].dtype.na_value
    assert processes["exit_ns"].notna().all()


def test_other_processes_are_not_recorded(tmp_path: Path, ioctls: Path) -> None:
    script = f"{ioctls} /dev/null & wait"
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    outsider = os.spawnl(os.P_NOWAIT, "/bin/sh", "sh", "-c", f"read line < {gate}; {ioctls} /dev/null")
    tables = analysed(tmp_path / "trace", *NODE, "sh", "-c", f"echo go > {gate}; {script}; sleep 0.3").tables
    os.waitpid(outsider, 0)
    assert tables.bos["pid"].nunique() == 1
    assert len(tables.bos) == 23


def test_process_tree_is_followed_from_the_first_instruction(tmp_path: Path) -> None:
    """47 short-lived children, each executing a file: none is missed, each has its parent."""
    script = "for i in $(seq 47); do /bin/true; done"
    tables = analysed(tmp_path / "trace", *NODE, "sh", "-c", script).tables
    processes = tables.processes
    ran = processes[processes["path"].str.endswith("/true")]
    assert len(ran) == 47
    assert ran["parent"].nunique() == 1
    assert (ran["exit_ns"] > ran["start_ns"]).all()


def test_exception_is_known_by_its_type(tmp_path: Path) -> None:
    program = compiled(PROGRAMS / "thrower.cc", tmp_path)
    done = trace(tmp_path / "trace", *NODE, program)
    assert done.returncode == 5
    from panthor_trace.analysis import analyse

    analysis = analyse(tmp_path / "trace")
    assert analysis.tables.failures["error"].tolist() == ["vk::OutOfDeviceMemoryError"]
    assert len(analysis.trace.of(RecordType.EXCEPTION)) == 1
