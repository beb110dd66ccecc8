# SPDX-License-Identifier: MIT
"""A sweep with real runs: the ceiling of a real llama-bench, what is run again, and how it is interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from board import roots
from board.native import native_command, native_run

from .tracing import environment, tracer

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="loading BPF programs needs root")


def sweep(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        tracer("sweep", *arguments),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.native
def test_ceiling_of_llama_bench(tmp_path: Path) -> None:
    """With buffers of 1 MiB at most, ggml's compute buffer sets the ceiling of -ub."""
    bench = ["env", f"GGML_VK_FORCE_MAX_BUFFER_SIZE={1 << 20}", "llama-bench", "-m", "/models/minimal.gguf"]
    bench += ["-p", "512", "-n", "0", "-r", "1", "-ub"]
    root = roots.native_root(print).path / "root"
    options = ["-o", tmp_path / "work", "--root", root, "--set", "ub=128,512", "--bisect", "--step", "128"]
    command = native_command([*bench, "{ub}"], say=print)
    done = sweep(*options, "--json", "--", *command)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    works, fails = found["ceiling"]["works"], found["ceiling"]["fails"]
    assert fails - works == 128
    assert native_run([*bench, str(works)], timeout=60).returncode == 0
    assert native_run([*bench, str(fails)], timeout=60).returncode != 0
    assert all(row["failed"] == (int(row["values"]["ub"]) > works) for row in found["results"])
    again = sweep(*options, "--json", "--", *command)
    assert again.stdout == done.stdout
    assert len(list((tmp_path / "work").glob("ub=*.log"))) == len(found["results"])


def test_only_what_is_missing_is_run_again(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    script = f"echo {{n}} >> {runs}; echo out {{n}}; test {{n}} -lt 2"
    arguments = ["-o", tmp_path / "work", "--no-hold", "--stop", "never", "--set"]
    assert sweep(*arguments, "n=1", "--", "sh", "-c", script).returncode == 0
    (tmp_path / "work" / "n=1" / "end.json").unlink()  # as if the tracer had been killed
    done = sweep(*arguments, "n=1,2", "--csv", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert runs.read_text().split() == ["1", "1", "2"]
    rows = [line.split(",")[:2] for line in done.stdout.splitlines()[1:]]
    assert rows == [["1", "0"], ["2", "1"]]
    assert "out 2" in (tmp_path / "work" / "n=2.log").read_text()
    assert (tmp_path / "work" / "n=1~2" / "end.json").exists()


def test_the_mark_of_a_run_that_came_to_no_trace_is_not_the_next_ones(tmp_path: Path) -> None:
    """Ctrl-C before the command was started leaves a mark, and nothing that it marks."""
    runs = tmp_path / "runs"
    arguments = ["-o", tmp_path / "work", "--no-hold", "--set", "n=1", "--csv", "--"]
    command = ["sh", "-c", f"echo {{n}} >> {runs}"]
    assert sweep(*arguments, "no-such-command", "{n}").returncode == 127
    plan = tmp_path / "work" / "sweep.json"
    plan.write_text(
        plan.read_text().replace('"no-such-command",\n  "{n}"', ",".join(map(json.dumps, command)))
    )
    (tmp_path / "work" / "n=1.interrupted").touch()
    first, again = (sweep(*arguments, *command) for _ in range(2))
    assert first.stdout.splitlines()[1].startswith("1,0,"), first.stderr
    assert again.stdout == first.stdout
    assert runs.read_text().split() == ["1"]


def test_an_interrupted_run_is_not_taken_for_a_result(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    # Not a shell: dash may lose a signal that comes while it forks.
    script = (
        f"import os, time\nif not os.path.exists('{tmp_path}/second'):\n"
        f"    open('{ready}', 'w').close()\n    time.sleep(60)\nraise SystemExit({{n}})"
    )
    command = [sys.executable, "-S", "-c", script]
    arguments = tracer("sweep", "-o", tmp_path / "work", "--no-hold", "--set", "n=0", "--", *command)
    process = subprocess.Popen(
        arguments, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    ready.read_text()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "the same sweep goes on from it" in err
    (tmp_path / "second").touch()
    done = sweep("-o", tmp_path / "work", "--no-hold", "--set", "n=0", "--csv", "--", *command)
    assert done.stdout.splitlines()[1].startswith("0,0,"), done.stderr


def test_a_command_that_is_not_there_ends_it_with_one_line(tmp_path: Path) -> None:
    done = sweep("-o", tmp_path / "work", "--set", "n=1,2", "--", "no-such-command", "{n}")
    assert (done.returncode, done.stdout) == (127, "")
    assert done.stderr == "panthor-trace: n=1: no-such-command: command not found\n"
