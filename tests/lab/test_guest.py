# SPDX-License-Identifier: MIT
"""The bench itself: commands, their output and status, users, files, time limits, several guests."""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
from pathlib import Path

import pytest

from board.errors import LabError

from .conftest import BoardRun


def test_output_status_and_input_pass_through(board: BoardRun, kernel: str, tmp_path: Path) -> None:
    script = (
        "cat; printf 'to stderr' >&2; printf '\\000\\377' > /share/bytes; uname -r; echo again > /dev/stdout;"
        "test $(id -u) = 0 && ls -l /dev/dri/renderD128 > /dev/null && exit 42"
    )
    done = board(script, kernel=kernel, share=tmp_path, stdin=b"from stdin\n")
    lines = done.stdout.splitlines()
    assert done.returncode == 42
    assert lines[0] == "from stdin"
    assert lines[1].startswith(f"{kernel}.")
    assert lines[2:] == ["again"]
    assert done.stderr == "to stderr"
    assert (tmp_path / "bytes").read_bytes() == b"\x00\xff"


def test_words_arrive_as_they_were_given(board: BoardRun) -> None:
    words = ["printf", "%s|", "two words", "quo'te\"s", "$HOME", "new\nline", ""]
    assert board(words).stdout == "two words|quo'te\"s|$HOME|new\nline||"


def test_an_ordinary_user_can_use_the_gpu_sudo_and_standard_input(board: BoardRun) -> None:
    script = """
        id -un
        test -r /dev/dri/renderD128 -a -w /dev/dri/renderD128 && sudo id -un
        sleep 1  # the host has sent all by then
        cat /dev/stdin
    """
    before = os.umask(0o077)
    try:
        done = board(script, user=True, stdin=b"by name\n", timeout=120)
    finally:
        os.umask(before)
    assert done.stdout.splitlines() == ["user", "root", "by name"], done.stderr


def test_death_by_signal_is_128_plus_its_number(board: BoardRun) -> None:
    assert board(["sh", "-c", "kill -SEGV $$"]).returncode == 128 + 11


def test_what_the_command_left_running_does_not_hold_the_guest(board: BoardRun) -> None:
    assert board("sleep 100000 & echo started", timeout=60).stdout == "started\n"


def test_a_hung_guest_is_ended_and_its_console_kept(board: BoardRun) -> None:
    with pytest.raises(LabError, match=r"did not finish within 15 s") as caught:
        board("while :; do :; done", timeout=15)
    assert caught.value.exit_code == 124
    console = Path(str(caught.value).rsplit(": ", 1)[1])
    assert "Linux version" in console.read_text(errors="replace")


def test_a_panic_is_told_from_a_command_that_failed(board: BoardRun) -> None:
    with pytest.raises(LabError, match="kernel panicked"):
        board("echo c > /proc/sysrq-trigger", timeout=60)


def test_guests_side_by_side_do_not_meet(board: BoardRun) -> None:
    def write(name: str) -> str:
        return board(f"echo {name} > /root/file; sleep 2; cat /root/file").stdout.strip()

    with concurrent.futures.ThreadPoolExecutor() as pool:
        assert list(pool.map(write, ["one", "two"])) == ["one", "two"]


@pytest.mark.parametrize(("sink", "status"), [("| head -c 2", 141), ("> /dev/full", 125)])
def test_output_nobody_takes_ends_the_guest(sink: str, status: int) -> None:
    lab = Path(__file__).parents[2] / "scripts" / "lab"
    script = f"{{ {lab} run --timeout 100 -- yes; echo $? >&3; }} 3>&2 {sink}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.stderr.splitlines()[-1] == str(status)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
