# SPDX-License-Identifier: MIT
"""A command line without what is private in it: flags and numbers stay, files, models and texts go."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Protocol


class Cleaner(Protocol):
    """What takes names and paths out of single values."""

    def text(self, text: str) -> str: ...
    def path(self, path: str) -> str: ...
    def program(self, path: str) -> str: ...


_PRIVATE = (
    (
        "[model]",
        "-m --model -md --model-draft -mm --mmproj -mv --model-vocoder --lora --lora-scaled --control-vector "
        "-hf -hfr -hff -hfd -hfv -hffv -dr --hf-repo --hf-file --hf-repo-draft --docker-repo -a --alias",
    ),
    ("[url]", "-mu --model-url -mmu --mmproj-url --rpc --url"),
    ("[text]", "--prompt -sys --system-prompt -r --reverse-prompt --in-prefix --in-suffix"),
    ("[secret]", "--api-key --api-key-file -hft --hf-token --token --password"),
    ("[host]", "--host --hostname"),
    ("[user]", "--user --username -u"),
)
#: Flags of llama.cpp and the like whose value goes whatever it looks like, and what stands for it.
PRIVATE_FLAGS = {flag: instead for instead, flags in _PRIVATE for flag in flags.split()}
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "busybox"})
_SHELL_SCRIPT_FLAG = re.compile(r"-[a-z]*c")
_SHELL_WORD = re.compile(r"\"(?:\\.|[^\"\\])*\"|'[^']*'|(?:\\.|[^\s'\"`;|&<>()])+")
_NUMBER = re.compile(r"[\d.,:+x-]+")
_ADDRESS = re.compile(
    r"\d+(\.\d+){3}(:\d+)?$|(?=.*(::|(:.*){7}))(?=.*\d)\[?[0-9A-Fa-f:]{3,39}(%\w+)?(\](:\d+)?)?$"
)
_ASSIGNMENT = re.compile(r"(-{0,2}[A-Za-z_][\w.-]*)=(.*)", re.DOTALL)
_MODEL = re.compile(r"\.(gguf|ggml|safetensors|onnx|bin|ckpt|pth?)$", re.IGNORECASE)
_PRIVATE_VARIABLE = re.compile(r"MODEL|TOKEN|KEY|SECRET|PASS|USER|HOST|PROMPT", re.IGNORECASE)


def clean_command(words: Sequence[str], cleaner: Cleaner) -> list[str]:
    """The same command line with placeholders."""
    cleaned = []
    shell, before, program = False, "", True
    for word in words:
        if shell and _SHELL_SCRIPT_FLAG.fullmatch(before):
            cleaned.append(_script(word, cleaner))
        elif program and _may_be_program(word):
            cleaned.append(cleaner.program(word))
            program = PurePosixPath(word).name in _BEFORE_A_PROGRAM
        else:
            cleaned.append(_word(word, before, cleaner))
        shell = shell or PurePosixPath(word).name in _SHELLS
        before = word
    return cleaned


def _may_be_program(word: str) -> bool:
    """Behind ``env`` or ``taskset`` come flags, numbers and variables before the program."""
    return not (word.startswith("-") or "=" in word or _NUMBER.fullmatch(word))


def _script(text: str, cleaner: Cleaner) -> str:
    """A shell's script: its words one by one, what is between them as it was."""
    return "".join(_script_parts(text, cleaner))


def _script_parts(text: str, cleaner: Cleaner) -> Iterator[str]:
    at, before, program = 0, "", True
    for found in _SHELL_WORD.finditer(text):
        between, word = text[at : found.start()], found[0]
        yield between
        at = found.end()
        program = program or bool(re.search(r"[;|&(\n]", between))
        quote = word[0] if word[0] in "'\"" else ""
        inner = word[1:-1] if quote else word
        if program and not quote and _may_be_program(word):
            yield cleaner.program(word)
            program = PurePosixPath(word).name in _BEFORE_A_PROGRAM
        elif quote and re.search(r"\s-", inner) and not re.match(r"[/~.$]", inner):
            yield quote + _script(inner, cleaner) + quote
        else:
            yield quote + _word(inner, before, cleaner) + quote
        before = inner
    yield text[at:]


#: Run the program that follows.
_BEFORE_A_PROGRAM = frozenset(
    {"exec", "env", "nice", "sudo", "time", "nohup", "taskset", "then", "do", "!", "else"}
)


def _word(word: str, before: str, cleaner: Cleaner) -> str:
    """A word behind ``before``."""
    may_be_number = PRIVATE_FLAGS.get(before) in ("[model]", "[text]") and _NUMBER.fullmatch(word)
    if before in PRIVATE_FLAGS and not word.startswith("-") and not may_be_number:
        model = _MODEL.search(word)
        return f"{PRIVATE_FLAGS[before]}{model[0] if model and PRIVATE_FLAGS[before] == '[model]' else ''}"
    if _ADDRESS.match(word):
        return "[host]"
    if _NUMBER.fullmatch(word):
        return word
    assigned = _ASSIGNMENT.fullmatch(word)
    if assigned:
        name, value = assigned[1], assigned[2]
        if name in PRIVATE_FLAGS:
            return f"{name}={_word(value, name, cleaner)}"
        if _PRIVATE_VARIABLE.search(name) and value and not _NUMBER.fullmatch(value):
            return f"{name}=[removed]"
        return f"{name}={_list(value, cleaner)}"
    return _list(word, cleaner)


def _list(word: str, cleaner: Cleaner) -> str:
    """A word that may be several by comma or colon, as PATH is."""
    if "://" in word:
        return "[url]"
    if re.search(r"\s", word):
        return cleaner.path(word) if "/" in word or _MODEL.search(word) else "[text]"
    if re.search(r"\w@\w", word):
        return "[user]@[host]"
    if "/" not in word and not _MODEL.search(word):
        return cleaner.text(word)
    return "".join(
        piece if piece in (",", ":") else _file(piece, cleaner) for piece in re.split(r"([,:])", word)
    )


def _file(word: str, cleaner: Cleaner) -> str:
    """A file, or what a cleaner knows besides."""
    if "/" in word or _MODEL.search(word):
        return cleaner.path(word.replace("\\ ", " "))
    return cleaner.text(word)
