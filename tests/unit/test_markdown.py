# SPDX-License-Identifier: MIT
"""The bug report: nothing private in it wherever it was in the trace, and nothing taken for markup."""

from __future__ import annotations

import string
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from panthor_trace.analysis import Analysis
from panthor_trace.model import build
from panthor_trace.report.markdown import _prose, markdown
from panthor_trace.report.privacy import Scrubber
from panthor_trace.trace.reader import Trace
from panthor_trace.trace.schema import ProcessEvent
from panthor_trace.verdict import judge

from .synthetic import ENOMEM, OUT_OF_DEVICE_MEMORY, SyntheticTrace, cgroup

MIB = 1 << 20


def analysed(trace: Trace) -> Analysis:
    tables = build(trace)
    return Analysis(trace, tables, judge(tables, trace.meta, trace.end))


def run_of(user: str, host: str, model: str, command: list[str]) -> Trace:
    """A run that has these names wherever a trace may have them, and fails so that all are reported."""
    home = f"/home/{user}"
    run = SyntheticTrace()
    run.process(ProcessEvent.EXEC, f"{home}/src/llama.cpp/build/bin/llama-bench")
    run.ioctl("VM_CREATE", {}, {"id": 1, "user_va_range": 1 << 47})
    group = f"/sys/fs/cgroup/user.slice/{user}-{host}.scope"
    run.message(f"panthor fb000000.gpu: llama-bench of {user}@{host} read {home}/{model} /data/{model}.gguf")
    run.message(f"BUG at /build/{user}/linux-rk/panthor_sched.c:12, HOSTNAME={host} USER={user}")
    with run.vulkan("vkAllocateMemory", 1, result=OUT_OF_DEVICE_MEMORY):
        run.bo_create(152 * MIB, error=ENOMEM)
    run.state("failure", cgroups=[cgroup(group, 250 * MIB, 249 * MIB, 250 * MIB, max=60, oom_kill=0)])
    run.layers["driver"] = {"live": False, "why": f"cannot open {home}/{host}/btf", "missing": []}
    trace = run.finish(134)
    meta = {
        **trace.meta,
        "user": user,
        "directory": f"{home}/work",
        "command": command,
        "machine": {"hostname": host, "kernel": f"6.12.0-{user}", "kernel_version": f"#1 {user}@{host}"},
        "libraries": [f"{home}/lib/libvulkan.so.1"],
    }
    module = {"pid": 100, "seen_ns": 2, "start": 4096, "end": 8192, "offset": 0, "device": 1, "soname": ""}
    paths = [
        f"{home}/src/build/libggml-vulkan.so",
        f"/opt/{user}/libvulkan_panfrost.so",
        f"/data/{model}.gguf",
    ]
    modules = [
        {**module, "inode": number, "path": path, "build_id": "ab12"} for number, path in enumerate(paths)
    ]
    late = {"layer": "vulkan", "path": f"{home}/lib/libvulkan.so.1", "build_id": None, "pid": 100}
    late |= {"mapped_ns": 1, "attached_ns": 2, "probes": 3, "missing": []}
    return replace(trace, meta=meta, side={**trace.side, "modules": modules, "libraries": [late]})


#: No word of a report begins so: what is found is the name and no part of a word.
names = st.text(string.ascii_lowercase + string.digits, min_size=3, max_size=8).map(lambda tail: f"qz{tail}")
models = st.builds(
    "{}{}{}".format,
    names,
    st.sampled_from([" ", "-", ".", "_", ", ", "'"]),
    st.sampled_from(["x", "7b", "q4"]),
)


def commands(user: str, host: str, model: str) -> list[list[str]]:
    """The same model by every way to name one."""
    path = f"/home/{user}/My Models/{model}.gguf"
    quoted = path.replace("'", "'\"'\"'")
    return [
        ["llama-bench", "-m", path, "-p", "64", "-ub", "64"],
        ["llama-bench", "-m", f"../{user}/{model}.gguf"],
        ["llama-bench", "-m", f"{model}.GGUF"],
        ["llama-cli", f"--model={path}", "--prompt", f"Dear {user}", "--alias", model],
        ["llama-server", "-hf", f"{user}/{model}:Q4", "--host", host, "--api-key", f"key{user}"],
        ["env", f"LLAMA_ARG_MODEL={path}", f"HOME=/home/{user}", f"/home/{user}/bin/llama-bench"],
        ["sh", "-c", f"cd ~{user}/x && exec ./llama-bench -m '{quoted}' -p 64 > out/{user}.log"],
        ["bash", "-lc", f"LD_LIBRARY_PATH=/usr/lib:/home/{user}/lib llama-bench --model /data/{user}.bin"],
        ["scp", f"{user}@{host}:/srv/{user}.gguf", f"https://{host}/{user}?token=1"],
    ]


@settings(max_examples=8)
@given(user=names, host=names, model=models)
def test_nothing_private_is_in_it(user: str, host: str, model: str) -> None:
    once = analysed(run_of(user, host, model, []))
    for command in commands(user, host, model):
        trace = replace(once.trace, meta={**once.trace.meta, "command": command})
        analysis = Analysis(trace, once.tables, once.verdict)
        report = markdown(analysis)
        for private in (user, host, model, model[:5], "My Models", "/home", "/data", "/srv", "/build"):
            assert private.lower() not in report.lower(), private
        assert "llama-bench" in report
    kept = markdown(analysis, keep_paths=True)
    assert user in kept
    assert "/home/" in kept


USER, HOST, MODEL = "qzjane", "qzhost", "qzwide"


@pytest.fixture(scope="module")
def clean() -> Scrubber:
    trace = run_of(USER, HOST, MODEL, commands(USER, HOST, MODEL)[0])
    return Scrubber(trace, build(trace))


words = st.sampled_from(
    [
        USER,
        HOST,
        f"{MODEL}.gguf",
        f"/home/{USER}",
        "/usr/lib",
        "/sys/fs/cgroup/x",
        "/",
        ":",
        " ",
        ".",
        "(",
        "]",
    ]
)


@given(st.lists(words, max_size=8).map("".join))
def test_cleaned_twice_is_cleaned_once(clean: Scrubber, text: str) -> None:
    once = clean.text(text)
    assert clean.text(once) == once
    assert f"/{USER}" not in once


@pytest.mark.parametrize("user", ["Jürgen", "qzSam", "qzİstanbul", "яна"])
def test_names_of_any_letters(user: str) -> None:
    trace = run_of(user, "qzhost", "qzwide", ["llama-bench"])
    clean = Scrubber(trace, build(trace))
    assert clean.text(f"by {user}.") == clean.text(f"by {user.lower()}.") == "by [user]."
    assert "by" in clean.text(user.replace("s", "\u017f").replace("S", "\u017f") + " by")
    assert user not in clean.text(f"{user} {user}_x /home/{user}")


def test_names_that_say_nothing_leave_the_words_alone() -> None:
    """A board where the user is called panthor and the host debian."""
    report = markdown(analysed(run_of("panthor", "debian", "qzmodel", ["llama-bench", "-m", "m.gguf"])))
    assert "[user]" not in report
    assert "requests to panthor" in report or "panthor fb000000.gpu" in report


@pytest.mark.parametrize(
    ("given_text", "left"),
    [
        ("VM 1, file 3 of process 10; 64x2x1", "VM 1, file 3 of process 10; 64x2x1"),
        ("CS chunks or descriptors, queue/heap", "CS chunks or descriptors, queue/heap"),
        ("/usr/lib/aarch64-linux-gnu/libvulkan.so.1 was", "/usr/lib/aarch64-linux-gnu/libvulkan.so.1 was"),
        ("(/sys/fs/cgroup/tight/memory.max), or", "(/sys/fs/cgroup/[group]/memory.max), or"),
        ("v1: /sys/fs/cgroup/memory/a/b.", "v1: /sys/fs/cgroup/memory/[group]/[group]"),
        ("gitlab.freedesktop.org/mesa/mesa", "gitlab.freedesktop.org/mesa/mesa"),
        ("/dev/dri/renderD128: /proc/self/maps", "/dev/dri/renderD128: /proc/self/maps"),
        ("/usr/share/models/qz.gguf", "[model].gguf"),
        ("PATH=/usr/bin:/srv/x/bin", "PATH=/usr/bin:[path]"),
        ("at drivers/gpu/drm/panthor/panthor_mmu.c:9", "at drivers/gpu/drm/panthor/panthor_mmu.c:9"),
        ("~/x and ${HOME}/y, ../z", "[path] and [path], [path]"),
    ],
)
def test_what_stays_and_what_goes(given_text: str, left: str) -> None:
    trace = SyntheticTrace().finish(0)
    assert Scrubber(trace, build(trace)).text(given_text).rstrip(".") == left.rstrip(".")


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (
            ["llama-bench", "-m", "/m/wide.gguf", "-p", "64"],
            ["llama-bench", "-m", "[model].gguf", "-p", "64"],
        ),
        (["taskset", "-c", "4-7", "./llama-bench"], ["taskset", "-c", "4-7", "[path]/llama-bench"]),
        (["ping", "fe80::dead:beef", "[::1]:80", "1:2:3"], ["ping", "[host]", "[host]", "1:2:3"]),
        (
            ["nice", "llama-cli", "-ctk", "q8_0", "-ngl", "99"],
            ["nice", "llama-cli", "-ctk", "q8_0", "-ngl", "99"],
        ),
        (["sh", "-c", "a; exec /x/y -ub 64"], ["sh", "-c", "a; exec [path]/y -ub 64"]),
        (["x", "TOKEN=abc", "-n=3"], ["x", "TOKEN=[removed]", "-n=3"]),
        (["s", "--host", "10.0.0.7", "--port", "80"], ["s", "--host", "[host]", "--port", "80"]),
        (["llama-bench", "--rpc", "10.0.0.7:5", "-r", "3"], ["llama-bench", "--rpc", "[url]", "-r", "3"]),
        (["ping", "10.0.0.7"], ["ping", "[host]"]),
    ],
)
def test_command_lines(words: list[str], left: list[str]) -> None:
    trace = SyntheticTrace().finish(0)
    assert Scrubber(trace, build(trace)).command(words) == left


def rendered(source: str, part: int = 0) -> str:
    """What a reader sees of a paragraph or cell."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(source)
    inline: Any = [token for token in tokens if token.type == "inline"]
    return "".join(
        child.content if child.type == "text" else f"<{child.type}>" for child in inline[part].children
    )


@given(st.text("ab_*`<>[]()|~#&;-+1. !:/\\", min_size=1, max_size=30).filter(lambda text: text.strip()))
def test_no_text_is_taken_for_markup(text: str) -> None:
    shown = " ".join(text.split())
    assert rendered(f"x {_prose(shown)}") == f"x {shown}"
    assert rendered(f"- {_prose(shown)}") == shown
    assert rendered(f"| a |\n|---|\n| {_prose(shown)} |", -1) == shown


def test_tables_are_tables_and_code_is_closed() -> None:
    report = markdown(analysed(run_of("qzjane", "qzhost", "a`|`b", ["sh", "-c", "echo ``` | cat\nls"])))
    tokens = MarkdownIt("commonmark").enable("table").parse(report)
    headings = [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]
    assert {"Evidence", "Limits at the failure", "Environment", "How to reproduce"} <= set(headings)
    assert headings[-1] != "", headings
    rows = [at for at, token in enumerate(tokens) if token.type == "tr_open"]
    assert len(rows) > 10
    (code,) = [token for token in tokens if token.type == "fence" and token.info == "sh"]
    assert code.content.endswith("ls'\n")


def test_a_clean_run_has_a_report_too() -> None:
    """Nothing failed: no remedy, nobody to write to, and still a report."""
    run = SyntheticTrace()
    run.ioctl("VM_CREATE", {}, {"id": 1, "user_va_range": 1 << 47})
    report = markdown(analysed(run.finish(0)))
    assert "Where to" not in report
    assert "\n\n\n" not in report
    assert report.startswith("# ")
