# SPDX-License-Identifier: MIT
"""The manual page, from what ``--help`` says: one definition of every option, example and exit status."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator

import click

_ENVIRONMENT = (
    ("NO_COLOR", "Set to anything: no colours, whatever the terminal."),
    ("PANTHOR_TRACE_DEBUG", "Set to anything: unexpected errors show where they come from."),
    (
        "SUDO_UID, SUDO_GID",
        "Who ran sudo, as sudo sets them: the user the command runs as, and to whom the trace belongs.",
    ),
)
_FILES = (
    ("panthor-trace-COMMAND-DATE-PID/", "The trace, in the current directory, if -o names no other."),
    ("panthor-trace-COMMAND-DATE-PID/csv/", "Its tables."),
)
_SEE_ALSO = "sudo(8), strace(1), bpftrace(8), vulkaninfo(1)"


def escaped(text: str) -> str:
    """Plain text as roff shows it unchanged."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)
    # What is not ASCII by its number: without a preprocessor, roff reads Latin-1.
    return re.sub(r"[^\x00-\x7f]", lambda found: f"\\[u{ord(found[0]):04X}]", text)


def _paragraphs(text: str) -> Iterator[str]:
    """Click's help text: paragraphs to be filled, and, marked with a \\b, blocks to be left as they are."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        verbatim, _, block = paragraph.rpartition("\b\n")
        if verbatim or paragraph.startswith("\b"):
            yield ".PP\n.nf"
            yield escaped(textwrap.dedent(block))
            yield ".fi"
        else:
            yield ".PP"
            yield escaped(" ".join(paragraph.split()))


def _definitions(rows: Iterator[tuple[str, str]] | tuple[tuple[str, str], ...]) -> Iterator[str]:
    for term, meaning in rows:
        yield f".TP\n\\fB{escaped(term)}\\fR"
        yield escaped(meaning)


def _options(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    for parameter in command.get_params(context):
        if not isinstance(parameter, click.Option):
            continue
        record = parameter.get_help_record(context)
        if record:
            yield record


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f".SS {escaped(context.command_path)} {escaped(' '.join(command.collect_usage_pieces(context)))}"
    yield from _paragraphs(command.help or "")
    yield from _definitions(_options(command, context))
    yield from _paragraphs(command.epilog or "")


def manpage(group: click.Group, name: str, version: str, date: str) -> str:
    """The page of ``group`` with all its commands, in man(7)."""
    context = click.Context(group, info_name=name, **group.context_settings)
    summary, _, rest = inspect.cleandoc(group.help or "").partition("\n\n")
    parts = [
        f'.TH {name.upper()} 1 {date} "{name} {version}" "User Commands"',
        ".ad l\n.nh",
        ".SH NAME",
        f"{escaped(name)} \\- {escaped(' '.join(summary.split()).rstrip('.'))}",
        ".SH SYNOPSIS",
    ]
    commands = [
        (command, click.Context(command, context, key, **command.context_settings))
        for key, command in group.commands.items()
    ]
    for command, inner in commands:
        pieces = escaped(" ".join(command.collect_usage_pieces(inner)))
        parts.append(f"\\fB{escaped(inner.command_path)}\\fR {pieces}\n.br")
    parts += [".SH DESCRIPTION", *_paragraphs(rest), *_paragraphs(group.epilog or ""), ".SH COMMANDS"]
    for command, inner in commands:
        parts += _command(command, inner)
    parts += [".SH ENVIRONMENT", *_definitions(_ENVIRONMENT), ".SH FILES", *_definitions(_FILES)]
    parts += [".SH SEE ALSO", escaped(_SEE_ALSO)]
    return "\n".join(parts) + "\n"
