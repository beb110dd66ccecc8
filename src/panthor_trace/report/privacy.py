# SPDX-License-Identifier: MIT
"""Takes out of a report what says who made it: user and host names, home and build paths, model files.

What is taken out shows as a word in brackets. Paths that every system has stay, and of a program or library
elsewhere its name; everything else that looks like a path goes, whether or not it is known to be private.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from ..model import Tables
from ..trace.reader import Trace
from ..trace.schema import RecordType
from .command_line import clean_command

#: Names that tell nobody from anybody, though they may be a user's or a host's.
PUBLIC_NAMES = frozenset(
    {
        *("admin", "alarm", "android", "arm", "arm64", "armbian", "board", "build", "debian", "driver"),
        *("fedora", "ggml", "gpu", "home", "host", "kernel", "linux", "llama", "localdomain", "localhost"),
        *("mali", "manjaro", "memory", "mesa", "model", "models", "nobody", "opt", "orangepi", "panfrost"),
        *("panthor", "panvk", "process", "raspberrypi", "rk3588", "rock", "root", "system", "test", "tmp"),
        *("ubuntu", "user", "usr", "vm", "vulkan"),
    }
)
#: Where distributions put programs and libraries: the same on everybody's machine.
_SYSTEM = re.compile(
    r"/(usr/)?(s?bin|lib|lib32|lib64|libexec|lib/[\w-]+-linux-gnu\w*)(/|$)|/usr/local/(s?bin|lib)(/|$)|"
    r"/usr/share/vulkan/|/etc/vulkan/|/dev/(dri(/|$)|null$|zero$|std)|/proc(/|$)|/sys(?!/fs/cgroup/)(/|$)"
)
_CGROUPS = "/sys/fs/cgroup/"
#: What systemd and version 1 call groups anywhere, and the kernel's files in them.
_PUBLIC_GROUP = re.compile(
    r"(system|user|app|session|background|machine|user-\d+)\.slice|user@\d+\.service|init\.scope|"
    r"session-c?\d+\.scope|memory|unified|docker|podman|lxc|kubepods|memory\.[a-z_.]+|cgroup\.[a-z.]+"
)
_MODEL = re.compile(r"\.(gguf|ggml|ggla|safetensors|onnx|pth?|ckpt|bin|tflite|mmproj)$", re.IGNORECASE)
#: In a sentence, where "events.bin" may be no model.
_MODEL_IN_TEXT = re.compile(
    r"[^\s'\"`/\\()\[\],;:=]+(\.(?:gguf|ggml|safetensors|onnx|ckpt|tflite))(?:[.-]\w+)*\b", re.IGNORECASE
)
_LIBRARY = re.compile(r"\.so(\.\d+)*$")
_HOME = re.compile(r"(?:^|/)(?:home|Users|media|run/media|export/home|var/home)/([^/\s]+)")
_NAMED = re.compile(r"\b(?:USER|LOGNAME|SUDO_USER|HOSTNAME)=([\w.-]+)")
_URL = re.compile(r"\b[a-zA-Z][\w+.-]*://[^\s'\"`<>]+")
_PLACEHOLDERS = ("user", "host", "path", "model", "group", "url", "text")
_PATH = re.compile(
    "".join(rf"(?<!\[{word}\])" for word in _PLACEHOLDERS)
    + r"(?<![\w.~/-])(?:~[\w.-]*|\$\{?HOME\}?|\.{1,2})?/(?:\\.|[^\s'\"`<>|;&()\\\[\]])+"
)
_CLEAN = re.compile(rf"\[({'|'.join(_PLACEHOLDERS)})\](/|\.|$)")
_HOME_VARIABLE = re.compile(r"(?:~[\w.-]*|\$\{?HOME\}?)/")
#: A known path ends here, but for the file that a memory cgroup's limit is in.
_WHOLE = r"(?!\w|/(?!memory\.))"
_ENDING = ".,:!?"


class Scrubber:
    """Knows the names and paths of one trace."""

    def __init__(self, trace: Trace, tables: Tables) -> None:
        meta = trace.meta
        strings = [text for text in _strings(trace, tables) if text]
        lines = [bytes(text).decode(errors="replace") for text in trace.of(RecordType.MESSAGE)["text"]]
        named = [name for text in strings + lines for name in _HOME.findall(text) + _NAMED.findall(text)]
        hosts = [str((meta.get("machine") or {}).get("hostname") or "")]
        users = [str(meta.get("user") or ""), *named]
        self._names = {
            **dict.fromkeys(_worth_hiding(hosts + [host.partition(".")[0] for host in hosts]), "[host]"),
            **dict.fromkeys(_worth_hiding(users), "[user]"),
        }
        ordered = sorted(self._names, key=len, reverse=True)
        self._name = _any_of(ordered, before=r"(?<![^\W_])", after=r"(?![^\W_])", flags=re.IGNORECASE)
        self._part = _any_of([name for name in ordered if len(name) > 2], flags=re.IGNORECASE)
        paths = {text for text in strings if "/" in text}
        known = {text: self.path(text) for text in paths}
        self._known = {text: clean for text, clean in known.items() if clean != text}
        self._exact = _any_of(sorted(self._known, key=len, reverse=True), before=r"(?<![\w/])", after=_WHOLE)

    def text(self, text: str) -> str:
        """A sentence or a line of a log."""
        for pattern, replace in self._rules():
            text = pattern.sub(replace, text)
        return self._without_names(text)

    def _rules(self) -> Iterator[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]]:
        yield self._exact, lambda found: self._known[found[0]]
        yield _URL, lambda _: "[url]"
        yield _PATH, lambda found: self._path_in_text(found[0])
        yield _MODEL_IN_TEXT, lambda found: f"[model]{found[1]}"

    def _path_in_text(self, found: str) -> str:
        path = found.rstrip(_ENDING)
        # PATH=/usr/bin:/home/jane/bin
        return ":".join(self.path(part) for part in path.split(":")) + found[len(path) :]

    def _without_names(self, text: str) -> str:
        # Regular expressions take more letters for the same than lower() does: "\u017f" for "s".
        return self._name.sub(
            lambda found: self._names.get(found[0], self._names.get(found[0].lower(), "[user]")), text
        )

    def path(self, path: str) -> str:
        """A whole path, spaces and all."""
        if _CLEAN.match(path):
            return path
        name = PurePosixPath(path).name
        model = _MODEL.search(name)
        if model:
            return f"[model]{model[0]}"
        if path.startswith(_CGROUPS):
            groups = path.removeprefix(_CGROUPS).split("/")
            return _CGROUPS + "/".join(
                group if not group or _PUBLIC_GROUP.fullmatch(group) else "[group]" for group in groups
            )
        if _SYSTEM.match(path) and "/../" not in path:
            return self._without_names(path)
        if _LIBRARY.search(name):
            return f"[path]/{self._part.sub('[user]', name)}"
        if path.startswith("/") or _HOME_VARIABLE.match(path) or "/" in path:
            return "[path]" if path != "/" else path
        return self._without_names(path)

    def program(self, path: str) -> str:
        """The path of a program: its name says what failed, and stays."""
        clean = self.path(path)
        if clean != "[path]":
            return clean
        return f"[path]/{self._part.sub('[user]', PurePosixPath(path).name)}"

    def command(self, words: Sequence[str]) -> list[str]:
        """A command line."""
        return clean_command(words, self)


class Nothing(Scrubber):
    """Leaves everything as it is."""

    def __init__(self) -> None:
        pass

    def text(self, text: str) -> str:
        """The same text."""
        return text

    def path(self, path: str) -> str:
        """The same path."""
        return path

    def program(self, path: str) -> str:
        """The same path."""
        return path

    def command(self, words: Sequence[str]) -> list[str]:
        """The same words."""
        return list(words)


def _worth_hiding(names: Iterable[str]) -> set[str]:
    """As written and in small letters, which may be others: "\u0130" has two."""
    private = {name for name in names if name and name.lower() not in PUBLIC_NAMES and not name.isdecimal()}
    return private | {name.lower() for name in private}


def _any_of(words: Sequence[str], *, before: str = "", after: str = "", flags: int = 0) -> re.Pattern[str]:
    """Any of ``words``, the first that fits; nothing at all where there are none."""
    if not words:
        return re.compile(r"(?!)")
    return re.compile(f"{before}(?:{'|'.join(map(re.escape, words))}){after}", flags)


def _strings(trace: Trace, tables: Tables) -> Iterator[str]:
    """Everything in a trace that is a path or has one in it."""
    meta: Mapping[str, Any] = trace.meta
    yield from (str(word) for word in meta.get("command") or ())
    yield from (str(meta.get(name) or "") for name in ("directory", "root"))
    yield from (str(path) for path in meta.get("libraries") or ())
    for table, column in (
        (tables.modules, "path"),
        (tables.libraries, "path"),
        (tables.processes, "path"),
        (tables.states, "cgroup"),
        (tables.stacks, "module"),
    ):
        yield from (text for text in table[column].dropna().unique() if isinstance(text, str))
    for snapshot in trace.side.get("state", ()):
        yield str(snapshot.get("cgroup") or "")
        yield from (str(level.get("directory") or "") for level in snapshot.get("cgroups") or ())
