# SPDX-License-Identifier: MIT
"""Libraries wherever they come from, stacks, mappings and accounting of real processes on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from panthor_trace.analysis import Analysis, analyse
from panthor_trace.capture.elf import Elf, Symbol
from panthor_trace.capture.libraries import find_library
from panthor_trace.report.stacks import stack_lines
from panthor_trace.verdict import Cause, Confidence

from .tracing import analysed, compiled, environment, trace, tracer

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="loading BPF programs needs root")

PROGRAMS = Path(__file__).parent / "programs"
FRAMES = ["-fno-omit-frame-pointer", "-rdynamic"]
NULL = ("--node", "/dev/null", "--no-csv", "--")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the fake loader in a place no linker looks at, and the program that loads it."""
    directory = tmp_path_factory.mktemp("userland")
    (directory / "odd place").mkdir()
    library = ["-shared", "-fPIC", "-Wl,-soname,libvulkan.so.1", "-Wl,--build-id"]
    compiled(PROGRAMS / "vulkan.c", directory, library).rename(directory / "odd place" / "libvulkan.so.1")
    for name in ("engine.c", "refused.c", "mapper.c"):
        compiled(PROGRAMS / name, directory, [*FRAMES, "-Wl,--build-id"])
    return directory


def dispatches(analysis: Analysis) -> list[int]:
    return [int(value) for value in analysis.tables.dispatches["groups_x"]]


def vulkan_libraries(analysis: Analysis) -> pd.DataFrame:
    table = analysis.tables.libraries
    return table[table["layer"] == "vulkan"]


def test_library_loaded_later_from_an_odd_place_is_probed_and_said_to_be_late(
    tmp_path: Path, work: Path
) -> None:
    library = work / "odd place" / "libvulkan.so.1"
    analysis = analysed(tmp_path / "trace", "--no-csv", "--", work / "engine", library)
    assert dispatches(analysis) == list(range(1, 24))
    (row,) = [row for _, row in vulkan_libraries(analysis).iterrows()]
    assert (row["path"], row["build_id"]) == (str(library), Elf(library).build_id)
    assert 0 < row["late_ns"] < 300_000_000
    layer = analysis.trace.meta["layers"]["vulkan"]
    assert (layer["live"], layer["attached_late"]) == (True, row["late_ns"] / 1e9)
    # The device was made afterwards, so the answer stands; it is less certain, and says why.
    assert analysis.verdict.cause is Cause.RECOVERED
    assert analysis.verdict.confidence is Confidence.LOW
    assert any("after process" in reason and str(library) in reason for reason in analysis.verdict.missing)


def test_calls_before_a_late_probe_make_the_answer_inconclusive(tmp_path: Path, work: Path) -> None:
    analysis = analysed(
        tmp_path / "trace",
        "--no-csv",
        "--",
        work / "engine",
        work / "odd place" / "libvulkan.so.1",
        "at-once",
    )
    assert analysis.tables.dispatches.empty
    assert analysis.verdict.cause is Cause.INCONCLUSIVE


def test_library_path_given_to_the_command_is_probed_beforehand(tmp_path: Path, work: Path) -> None:
    library = work / "odd place" / "libvulkan.so.1"
    analysis = analysed(
        tmp_path / "trace", "--no-csv", "--env", f"LD_LIBRARY_PATH={library.parent}", "--",
        work / "engine", library.name, "at-once",
    )  # fmt: skip
    assert dispatches(analysis) == list(range(1, 24))
    assert vulkan_libraries(analysis)["late_ns"].isna().all()
    assert analysis.verdict.missing == ()


def test_library_of_another_mount_namespace_is_probed(tmp_path: Path, work: Path) -> None:
    """The path leads nowhere from where the tracer is."""
    place = tmp_path / "place"
    place.mkdir()
    library = work / "odd place" / "libvulkan.so.1"
    script = (
        f"mount -t tmpfs none {place} && cp '{library}' {place} && exec {work}/engine {place}/{library.name}"
    )
    analysis = analysed(
        tmp_path / "trace",
        "--no-csv",
        "--",
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        script,
    )
    assert not (place / library.name).exists()
    assert dispatches(analysis) == list(range(1, 24))


def test_deleted_library_is_probed(tmp_path: Path, work: Path) -> None:
    library = shutil.copy(work / "odd place" / "libvulkan.so.1", tmp_path)
    analysis = analysed(tmp_path / "trace", "--no-csv", "--", work / "engine", library, "unlinked")
    assert dispatches(analysis) == list(range(1, 24))


def test_one_file_under_two_names_in_two_processes_is_probed_once(tmp_path: Path, work: Path) -> None:
    library = work / "odd place" / "libvulkan.so.1"
    other = work / "libvulkan.so.1.other"
    other.unlink(missing_ok=True)
    os.link(library, other)
    script = f"{work}/engine '{library}' && {work}/engine '{other}'"
    analysis = analysed(tmp_path / "trace", "--no-csv", "--", "sh", "-c", script)
    assert dispatches(analysis) == [*range(1, 24), *range(1, 24)]
    assert len(vulkan_libraries(analysis)) == 1
    assert analysis.tables.dispatches["pid"].nunique() == 2


def symbols(analysis: Analysis, kind: str) -> list[list[str]]:
    """Names of the frames of each stack of a kind of failure; "" for frames without."""
    failures = analysis.tables.failures
    ids = failures.loc[failures["kind"] == kind, "stack_id"].dropna()
    by_stack = analysis.tables.stacks.groupby("stack_id")["symbol"]
    return [list(by_stack.get_group(stack).astype(object).fillna("")) for stack in ids]


def test_failing_ioctl_has_its_stack_by_name(tmp_path: Path, work: Path) -> None:
    analysis = analysed(tmp_path / "trace", *NULL, work / "refused")
    (names,) = symbols(analysis, "ioctl")
    assert "asks_for_buffers" in names
    assert names.index("asks_for_buffers") < names.index("main")
    text = "\n".join(stack_lines(analysis.tables))
    assert text.startswith("BO_CREATE → ENOTTY")
    assert "(refused)" in text


def test_stripped_program_can_be_symbolised_elsewhere(tmp_path: Path, work: Path) -> None:
    """Module and offset with a build id, from which the program with its symbols gives the names."""
    stripped = tmp_path / "stripped"
    subprocess.run(
        [
            "gcc",
            "-O1",
            "-fno-omit-frame-pointer",
            "-Wl,--build-id",
            "-o",
            tmp_path / "whole",
            PROGRAMS / "refused.c",
        ],
        check=True,
    )
    subprocess.run(["strip", "-o", stripped, tmp_path / "whole"], check=True)
    analysis = analysed(tmp_path / "trace", *NULL, stripped)
    frames = analysis.tables.stacks
    ours = frames[frames["module"] == str(stripped)]
    assert ours["symbol"].isna().all()
    whole = Elf(tmp_path / "whole")
    assert set(ours["build_id"]) == {whole.build_id}
    found = [whole.function_at(int(offset) - 1) for offset in ours["offset"]]
    named = [symbol.name for symbol in found if symbol]
    assert [name for name in named if name != "_start"][-2:] == ["asks_for_buffers", "main"]


def test_failing_vulkan_call_and_exception_have_their_stacks(tmp_path: Path, work: Path) -> None:
    library = work / "odd place" / "libvulkan.so.1"
    analysis = analysed(tmp_path / "engine", "--no-csv", "--", work / "engine", library)
    (names,) = symbols(analysis, "vulkan")
    assert "main" in names
    thrower = compiled(PROGRAMS / "thrower.cc", tmp_path, FRAMES)
    trace(tmp_path / "thrown", *NULL, thrower)
    # It is gone at once; its stack is there all the same, by build id and offset.
    frames = analyse(tmp_path / "thrown").tables.stacks
    runtime = find_library("libstdc++.so.6", Path("/"), {})
    assert runtime is not None
    assert frames["build_id"].iloc[0] == Elf(runtime).build_id
    assert Elf(runtime).function_at(int(frames["offset"].iloc[0])) == Symbol("__cxa_throw", 0)


def test_who_threw_is_the_second_frame_of_an_exception(tmp_path: Path) -> None:
    """At the first instruction of __cxa_throw the frame pointer is that of its caller's caller."""
    thrower = compiled(PROGRAMS / "thrower.cc", tmp_path, FRAMES)
    trace(tmp_path / "trace", *NULL, thrower, "linger")
    (names,) = symbols(analyse(tmp_path / "trace"), "exception")
    assert names[:3] == ["__cxa_throw", "gives_up", "main"]


def test_same_failure_over_and_over_is_cut_off_and_counted(tmp_path: Path, work: Path) -> None:
    analysis = analysed(tmp_path / "trace", *NULL, work / "refused", "200")
    assert len(analysis.tables.failures) == 200
    assert analysis.tables.failures["stack_id"].notna().sum() == 64
    assert dict(analysis.verdict.losses) == {"skipped_stack": 136}


ZERO = ("--node", "/dev/zero", "--no-csv", "--")


def test_mappings_of_the_node_are_recorded_and_their_refusal_is_the_cause(tmp_path: Path, work: Path) -> None:
    done = trace(tmp_path / "trace", *ZERO, work / "mapper", "/dev/zero")
    assert done.returncode == 1, done.stderr
    analysis = analyse(tmp_path / "trace")
    table = analysis.tables.mappings
    maps, unmaps = table[table["name"] == "mmap"], table[table["name"] == "munmap"]
    assert maps["size"].tolist() == [4096 * n for n in range(1, 24)] + [512 << 20]
    assert maps["offset"].tolist() == [4096 * n for n in range(1, 24)] + [0]
    assert unmaps["address"].tolist() == maps["address"].tolist()[:11]
    assert table.loc[table["failed"], "errno"].tolist() == ["ENOMEM"]
    verdict = analysis.verdict
    assert (verdict.cause, verdict.refused_by) == (Cause.PROCESS_LIMIT, "kernel")
    assert verdict.refusal is not None
    assert (verdict.refusal.ioctl, verdict.refusal.size) == ("mmap", 512 << 20)
    assert any("RLIMIT_AS = 256 MiB" in fact for fact in verdict.evidence)
    (use,) = [use for use in verdict.caps if use.name == "mappings"]
    assert (use.used, use.note) == (table.loc[table["failed"], "maps"].iloc[0], "")
    (names,) = symbols(analysis, "mmap")
    assert "mmap" in names[0]


def test_refused_mapping_that_was_got_over(tmp_path: Path, work: Path) -> None:
    analysis = analysed(tmp_path / "trace", *ZERO, work / "mapper", "/dev/zero", "go-on")
    assert analysis.verdict.cause is Cause.RECOVERED
    # Another device's mappings are not the node's.
    other = analysed(tmp_path / "other", *NULL, work / "mapper", "/dev/zero", "go-on")
    assert other.tables.mappings.empty


def test_processes_have_their_end_and_their_peak_memory(tmp_path: Path) -> None:
    """A child that touches 64 MiB, one killed by a signal, and the shell that sees both."""
    hungry = "import sys; b = bytearray(64 << 20); b[::4096] = b'x' * len(b[::4096]); sys.exit(7)"
    script = f'/usr/bin/python3 -S -c "{hungry}"; sh -c "kill -TERM \\$\\$"; exit 3'
    done = trace(tmp_path / "trace", "--no-csv", "--", "sh", "-c", script)
    assert done.returncode == 3, done.stderr
    analysis = analyse(tmp_path / "trace")
    assert analysis.trace.meta["layers"]["taskstats"]["live"]
    table = analysis.tables.processes
    assert sorted(table["exit_status"]) == [3, 7, 143]
    ended = table.set_index("exit_status")["peak_rss_bytes"]
    assert 64 << 20 < ended[7] < 128 << 20
    assert ended[3] < 16 << 20
    delays = [name for name in table if name.endswith("_delay_ns")]
    if Path("/proc/sys/kernel/task_delayacct").read_text().strip() == "0":
        assert table[delays].isna().all().all()  # not measured is not 0


def test_without_pyroute2_two_layers_are_missing_and_nothing_else(tmp_path: Path) -> None:
    shadow = tmp_path / "shadow" / "pyroute2"
    shadow.mkdir(parents=True)
    (shadow / "__init__.py").write_text("raise ImportError('none here', name='pyroute2')\n")
    env = environment()
    env["PYTHONPATH"] = f"{shadow.parent}:{env['PYTHONPATH']}"
    done = subprocess.run(
        tracer("-o", tmp_path / "trace", "--no-csv", "--", "sh", "-c", "exit 4"),
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 4, done.stderr
    assert "taskstats layer not live: pyroute2 is missing (install python3-pyroute2)" in done.stderr
    table = analyse(tmp_path / "trace").tables.processes
    assert table["exit_status"].tolist() == [4]
    assert table["peak_rss_bytes"].isna().all()


def test_calls_within_calls_and_calls_that_never_return_are_told_apart(tmp_path: Path) -> None:
    library = ["-shared", "-fPIC", "-Wl,-soname,libvulkan.so.1"]
    compiled(PROGRAMS / "nested_vulkan.c", tmp_path, library).rename(tmp_path / "libvulkan.so.1")
    program = compiled(PROGRAMS / "nested.c", tmp_path, ["-L", str(tmp_path), "-l:libvulkan.so.1"])
    analysis = analysed(tmp_path / "trace", "--no-csv", "--env", f"LD_LIBRARY_PATH={tmp_path}", "--", program)
    calls = analysis.tables.vulkan.sort_values("enter_ns")
    assert list(zip(calls["function"], calls["finished"], strict=True)) == [
        ("vkCmdDispatch", True),
        ("vkEndCommandBuffer", True),
        ("vkCmdDispatch", True),
        ("vkQueueSubmit", False),
        ("vkCmdDispatch", True),
        ("vkQueueWaitIdle", False),
    ]
    outer, inner = calls.iloc[1], calls.iloc[2]
    assert inner["parent_id"] == outer["vulkan_id"]
    assert outer["enter_ns"] < inner["enter_ns"] < inner["exit_ns"] < outer["exit_ns"]
    assert outer["result_name"] == "VK_ERROR_OUT_OF_DEVICE_MEMORY"
    assert dispatches(analysis) == [1, 2, 3]
    assert analysis.tables.losses.empty
