# SPDX-License-Identifier: MIT
"""``--help`` of every command, with examples that work, and what a shell is told to complete."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click
import pytest
from click.shell_completion import ShellComplete

from panthor_trace import cli


def commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The group and all below it."""
    yield path, group
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield (*path, name), command


ALL = list(commands(cli.cli))


def help_of(path: tuple[str, ...], capsys: pytest.CaptureFixture[str], option: str = "--help") -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main([*path, option])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(path) or "-" for path, _ in ALL])
def test_help_has_examples_that_can_be_typed(
    path: tuple[str, ...], command: click.Command, capsys: pytest.CaptureFixture[str]
) -> None:
    text = help_of(path, capsys)
    assert max(map(len, text.splitlines())) <= 80
    assert help_of(path, capsys, "-h") == text
    lines = [line.strip() for line in text.partition("Examples:\n")[2].splitlines() if line.strip()]
    assert lines
    for line in lines:
        words = shlex.split(line.removeprefix("sudo ").partition(" | ")[0], comments=True)
        assert words[0] == "panthor-trace"
        # Parsed, not run: of the paths they name, none is here.
        with cli.cli.make_context("panthor-trace", words[1:]) as context:
            name, chosen, rest = cli.cli.resolve_command(context, cli._expand(words[1:]))
            assert chosen is not None
            chosen.make_context(name, rest, parent=context)
            assert not path or name == path[0]
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


def completed(line: str) -> list[str]:
    *words, incomplete = line.split(" ")[1:]
    shell = ShellComplete(cli.cli, {}, "panthor-trace", "_PANTHOR_TRACE_COMPLETE")
    return [item.value or item.type for item in shell.get_completions(words, incomplete)]


@pytest.mark.parametrize(
    ("line", "among"),
    [
        ("panthor-trace ", {"doctor", "run", "report", "export", "probes"}),
        ("panthor-trace rep", {"report"}),
        ("panthor-trace --no-h", {"--no-hold"}),
        ("panthor-trace --exit-verdict --no-", {"--no-csv", "--no-drop", "--no-hold"}),
        ("panthor-trace --ioctl-hook s", {"syscall"}),
        ("panthor-trace report --format ", {"text", "json"}),
        ("panthor-trace -- pyth", {"python3"}),
        ("panthor-trace -o x -- pyth", {"python3"}),
    ],
)
def test_shells_complete(line: str, among: set[str]) -> None:
    found = completed(line)
    assert among <= set(found)
    assert len(found) == len(set(found))


def test_shells_complete_a_commands_arguments_by_files() -> None:
    assert completed("panthor-trace -- python3 ") == ["file"]
    assert completed("panthor-trace ./scripts/x") == ["./scripts/x"]
