# SPDX-License-Identifier: MIT
"""Files of /proc hold names that anybody can choose."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from panthor_trace.capture.attach import Attached
from panthor_trace.capture.hold import stop_state
from panthor_trace.capture.memory_cgroup import find_hierarchy
from panthor_trace.capture.proc import read_lines, unescaped

#: Sets the name it is given (PR_SET_NAME), says so, and waits.
NAMED = """
import ctypes, sys, time
ctypes.CDLL(None).prctl(15, bytes.fromhex(sys.argv[1]))
print(flush=True)
time.sleep(60)
"""


def test_only_a_newline_ends_a_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in ("", "one", "one\ntwo", "\r\v\f\x1c\x85\u2028\nlast  ", "\udcff\n\nx"):
        path.write_bytes(os.fsencode(content))
        assert read_lines(path) == (content.split("\n") if content else [])
        path.write_bytes(os.fsencode(content + "\n" if content else ""))
        assert read_lines(path) == (content.split("\n") if content else [])


def test_names_are_unescaped() -> None:
    assert unescaped(r"/a\040b\134c\012d\x") == "/a b\\c\nd\\x"


def test_mounts_of_any_name(tmp_path: Path) -> None:
    lines = [
        b"30 1 0:26 / /odd\r\x0b\xff\x85 rw - tmpfs none rw",
        b"31 1 0:27 / /sys/fs/my\\040cgroup rw - cgroup2 none rw",
    ]
    (tmp_path / "mountinfo").write_bytes(b"\n".join(lines) + b"\n")
    found = find_hierarchy(tmp_path / "mountinfo")
    assert found is not None
    assert found.mount == Path("/sys/fs/my cgroup")


@pytest.mark.parametrize("name", [b"\xff\xfe", b"\rShdPnd:\tfffff", b") T (", b"\rVmSize:"])
def test_process_of_any_name(name: bytes) -> None:
    """It can be attached to, and whether it is stopped is seen, for it must be continued."""
    process = subprocess.Popen([sys.executable, "-c", NAMED, name.hex()], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        assert Path(f"/proc/{process.pid}/comm").read_bytes() == name + b"\n"
        assert stop_state(process.pid).pending == frozenset()
        assert not stop_state(process.pid).stopped
        Attached(process.pid).close()
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        assert stop_state(process.pid).stopped
    finally:
        process.kill()
        process.wait()
