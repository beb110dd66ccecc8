# SPDX-License-Identifier: MIT
"""Started in odd ways, or against someone who wants to break it: the command runs as without us."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

from panthor_trace.trace.reader import read_trace

from .tracing import analysed, compiled, environment, started, trace, tracer

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="loading BPF programs needs root")

NOBODY = 65534
LOADER = """
#include <dlfcn.h>
#include <unistd.h>
int main(int count, char **paths)
{
	for (int i = 1; i < count; i++)
		if (!dlopen(paths[i], RTLD_NOW))
			return 1;
	usleep(400 * 1000);
	execl("/bin/true", "true", (char *)0);
	return 2;
}
"""


def in_a_shell(line: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of bash; ``$PT`` in it is panthor-trace, without CSV."""
    words = f"PT={shlex.quote(shlex.join(tracer('--no-csv')))}\n{line}"
    return subprocess.run(
        ["bash", "-c", words],
        cwd=directory,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    "line",
    [
        "$PT -o trace -- sh -c 'touch ran; exit 3' 2>&-",
        "$PT -o trace -- sh -c 'touch ran; exit 3' <&- >&- 2>&-",
        "$PT -o trace -- sh -c 'touch ran; exit 3' 2>/dev/full",
        "{ $PT -o trace -- sh -c 'touch ran; exit 3'; echo $? >&3; } 3>&1 2>&1 >&3 | true; exit 3",
    ],
    ids=["stderr closed", "all closed", "stderr full", "stderr without a reader"],
)
def test_the_command_runs_where_nobody_can_be_told_anything(tmp_path: Path, line: str) -> None:
    done = in_a_shell(line, tmp_path)
    assert done.returncode == 3, done.stderr
    assert (tmp_path / "ran").exists()
    assert read_trace(tmp_path / "trace").end is not None


def test_a_closed_stream_is_closed_for_the_command_too(tmp_path: Path) -> None:
    """And none of our files has its number."""
    look = "$PT -o trace -- sh -c 'readlink /proc/self/fd/0 || echo closed' <&-"
    assert in_a_shell(look, tmp_path).stdout == "closed\n"


def test_parent_that_ignores_sigchld(tmp_path: Path) -> None:
    """The kernel then keeps no exit status, unless we see to it; the command inherits what we found."""
    line = "exec env --ignore-signal=CHLD $PT -o trace -- grep SigIgn /proc/self/status"
    ignored = int(in_a_shell(line, tmp_path).stdout.split()[1], 16)
    assert ignored >> (signal.SIGCHLD - 1) & 1
    line = "exec env --ignore-signal=CHLD $PT -o trace2 -- sh -c 'exit 3'"
    assert in_a_shell(line, tmp_path).returncode == 3


@pytest.mark.parametrize(
    ("content", "status"), [(b"echo $0 $1\nexit 5\n", 5), (b"\x00\x01\x02", 126), (b"#!/none\n", 127)]
)
def test_script_that_names_no_interpreter_is_the_shells(tmp_path: Path, content: bytes, status: int) -> None:
    """As with execvp(3), env(1), and any shell."""
    script = tmp_path / "script"
    script.write_bytes(content)
    script.chmod(0o755)
    done = trace(tmp_path / "trace", "--no-csv", "--", script, "argument")
    assert done.returncode == status, done.stderr
    assert done.stdout == (f"{script} argument\n" if status == 5 else "")


def test_few_descriptors(tmp_path: Path) -> None:
    """Our probes take some hundred. The command's limit is its own."""
    done = in_a_shell("ulimit -Sn 24; $PT -o trace -- sh -c 'ulimit -n; exit 3'", tmp_path)
    assert (done.returncode, done.stdout) == (3, "24\n"), done.stderr


def test_working_directory_that_has_been_removed(tmp_path: Path) -> None:
    line = f"mkdir gone; cd gone; rmdir ../gone; $PT -o {tmp_path}/trace -- sh -c 'exit 3'"
    done = in_a_shell(line, tmp_path)
    assert done.returncode == 3, done.stderr
    assert read_trace(tmp_path / "trace").meta["directory"] == f"{tmp_path}/gone (deleted)"


def test_names_at_which_lines_could_be_cut(tmp_path: Path) -> None:
    """Only a newline ends a line of /proc/PID/maps; Python has ten other characters that it would cut at."""
    (tmp_path / "loader.c").write_text(LOADER)
    (tmp_path / "empty.c").write_text("")
    loader = compiled(tmp_path / "loader.c", tmp_path, ["-ldl"])
    library = compiled(tmp_path / "empty.c", tmp_path, ["-shared", "-fPIC"])
    names = ["\r0 x", "\v", "\f", "\x1c", "\x85", "\u2028", "\udcff", "new\nline", "back\\012slash", " two  "]
    paths = [tmp_path / f"lib{name}" for name in names]
    for number, path in enumerate(paths):
        path.write_bytes(library.read_bytes() + bytes([number]))
    analysis = analysed(tmp_path / "trace", "--", loader, *paths)
    assert analysis.trace.end is not None
    assert analysis.trace.end["write_failure"] is None
    assert analysis.tables.processes["path"].str.endswith("/true").any()
    seen = {row["path"] for row in analysis.trace.side["modules"]}
    assert {str(path) for path in paths[:8]} | {str(paths[9])} <= seen


def test_mount_point_of_an_odd_name(tmp_path: Path) -> None:
    names = "'a\rb' \"$(printf 'c\\377')\" 'd\ve'"
    script = f'for name in {names}; do mkdir "$name"; mount -t tmpfs none "$name"; done'
    apart = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", f'{script}; exec "$@"', "sh"]
    subprocess.run(
        [*apart, *tracer("-o", tmp_path / "trace", "--", "sleep", "0.3")],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        check=True,
    )
    there = Path("/sys/fs/cgroup/cgroup.controllers").exists() or Path("/sys/fs/cgroup/memory").exists()
    assert bool(read_trace(tmp_path / "trace").side["state"][0]["cgroup"]) == there


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory of the user nobody's."""
    place = tmp_path / "place"
    place.mkdir()
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(0o755)
    os.chown(place, NOBODY, NOBODY)
    return place


BY_NOBODY = environment(SUDO_UID=str(NOBODY), SUDO_GID=str(NOBODY))


@pytest.mark.parametrize("options", [("--no-drop",), ("--user", "daemon")])
def test_the_trace_is_the_invoking_users_whoever_the_command_runs_as(
    place: Path, options: tuple[str, ...]
) -> None:
    done = trace(place / "trace", *options, "--", "id", "-un", env=BY_NOBODY)
    assert done.stdout in ("root\n", "daemon\n"), done.stderr
    written = [place / "trace", *(place / "trace").rglob("*")]
    assert len(written) > 20
    assert {path.stat().st_uid for path in written} == {NOBODY}


def test_root_writes_through_no_link_of_the_users(place: Path) -> None:
    """The user, whose the directory is, puts another in its place as soon as the recording has ended."""
    precious = place.parent / "precious"
    precious.write_text("root's")
    precious.chmod(0o600)
    swap = "while ! [ -e t/end.json ]; do sleep 0.01; done; mv t real; mkdir -p t/csv; cp real/*.* t"
    links = f"ln -s {precious} t/csv/ioctls.csv; ln -s {place.parent}/new t/csv/bos.csv"
    attacker = subprocess.Popen(
        [
            "setpriv",
            "--reuid",
            str(NOBODY),
            "--regid",
            str(NOBODY),
            "--clear-groups",
            "sh",
            "-c",
            f"{swap}; {links}",
        ],
        cwd=place,
    )
    done = trace(place / "t", "--no-drop", "--", "sh", "-c", "exit 3", env=BY_NOBODY)
    assert attacker.wait(30) == 0
    assert done.returncode == 3
    assert precious.read_text() == "root's"
    assert not (place.parent / "new").exists()


def test_giving_up_removes_what_we_made_and_nothing_else(place: Path) -> None:
    """The command turns out not to be executable when the directory has been made, and replaced."""
    bad = place / "bad"
    bad.write_text("#!/none\n")
    bad.chmod(0o755)
    elsewhere = place.parent / "elsewhere"
    (elsewhere / "trace").mkdir(parents=True)
    (place / "inner").mkdir()
    os.chown(place / "inner", NOBODY, NOBODY)
    process = subprocess.Popen(
        tracer("-o", place / "inner" / "trace", "--", bad),
        env=BY_NOBODY,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (place / "inner" / "trace").exists():
        time.sleep(0.002)
    (place / "inner").rename(place / "moved")
    (place / "inner").symlink_to(elsewhere)
    (place / "moved" / "trace" / "mine").mkdir()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 127
    assert err.splitlines()[-1] == f"panthor-trace: {bad}: No such file or directory"
    assert (elsewhere / "trace").is_dir()
    assert [path.name for path in (place / "moved" / "trace").iterdir()] == ["mine"]


@pytest.mark.parametrize("uid", ["abc", "-1", "99999999999", ""])
def test_a_user_that_cannot_be_is_no_reason_to_run_as_root(tmp_path: Path, uid: str) -> None:
    env = environment(SUDO_UID=uid, SUDO_GID="1")
    done = trace(tmp_path / "trace", "--", "touch", tmp_path / "ran", env=env)
    assert done.returncode == 125
    assert "are no user" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_command_of_any_name_has_a_trace_directory(tmp_path: Path) -> None:
    for name in ("x" * 250, "a\nb\x1b[31m"):
        program = tmp_path / name
        program.symlink_to("/bin/true")
        done = subprocess.run(
            tracer("--no-csv", "--", program),
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    names = {path.name.rsplit("-", 3)[0] for path in tmp_path.glob("panthor-trace-*")}
    assert names == {f"panthor-trace-{'x' * 64}", "panthor-trace-a_b__31m"}


def test_a_directory_is_said_to_be_one(tmp_path: Path) -> None:
    done = trace(tmp_path / "trace", "--", tmp_path)
    assert done.returncode == 126
    assert done.stderr.splitlines()[-1] == f"panthor-trace: {tmp_path}: is a directory"


@pytest.mark.parametrize("module", ["click", "resource"])
def test_ctrl_c_while_loading_is_one_line(tmp_path: Path, module: str) -> None:
    """A module of that name takes long to load: before the command line is looked at, and after."""
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    (tmp_path / f"{module}.py").write_text(
        f"import time\nopen({str(ready)!r}, 'w').close()\ntime.sleep(60)\n"
    )
    env = environment()
    process = subprocess.Popen(
        tracer("-o", tmp_path / "trace", "--", "touch", tmp_path / "ran"),
        env={**env, "PYTHONPATH": f"{tmp_path}:{env['PYTHONPATH']}"},
        stderr=subprocess.PIPE,
        text=True,
    )
    ready.read_text()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err.strip() == "panthor-trace: interrupted"
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "trace").exists()


def test_ctrl_c_during_the_report_leaves_the_commands_status(tmp_path: Path) -> None:
    process, command = started(tmp_path, "exit 3")
    while not (tmp_path / "trace" / "end.json").exists():
        time.sleep(0.01)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    assert not Path(f"/proc/{command}").exists()
    assert read_trace(tmp_path / "trace").end is not None
