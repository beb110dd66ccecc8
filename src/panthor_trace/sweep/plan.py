# SPDX-License-Identifier: MIT
"""Which values to run next. Pure: what has been run, and whether it failed, comes in."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..errors import TraceError

#: Of a number to halve: no option takes more, and Python itself refuses thousands.
_DIGITS = 30
#: The values of one run, by name.
Values = Mapping[str, str]


@dataclass(frozen=True)
class Template:
    """A command line with ``{name}`` where a value belongs; other braces mean nothing."""

    words: tuple[str, ...]

    def check(self, names: Sequence[str]) -> None:
        """Raise TraceError where a name is nowhere in it: every run would be the same."""
        for name in names:
            if not any(f"{{{name}}}" in word for word in self.words):
                raise TraceError(f"{{{name}}} is nowhere in the command: every value would run the same", 2)

    def with_values(self, values: Values) -> tuple[str, ...]:
        """The command line of one run."""
        words = self.words
        for name, value in values.items():
            words = tuple(word.replace(f"{{{name}}}", value) for word in words)
        return words


def combinations(sets: Mapping[str, Sequence[str]]) -> list[Values]:
    """Every value of every name with every one of the others, the last name's changing fastest."""
    return [dict(zip(sets, values, strict=True)) for values in itertools.product(*sets.values())]


def numbers(values: Sequence[str]) -> list[int]:
    """The values as whole numbers, smallest first. Raises TraceError where they are none."""
    if not all(value.isascii() and value.isdecimal() and len(value) <= _DIGITS for value in values):
        raise TraceError(
            f"--bisect looks for a number: two whole numbers or more, of {_DIGITS} digits at most",
            2,
        )
    return sorted({int(value) for value in values})


@dataclass(frozen=True)
class Ceiling:
    """Between which values a command begins to fail. None: none was seen to work, or to fail."""

    works: int | None
    fails: int | None


def bisect(values: Sequence[int], fails: Callable[[int], bool], step: int = 1) -> Ceiling:
    """Run the values upwards until one fails, then halve what lies between, to multiples of ``step``.

    A command that fails with a value is taken to fail with every larger one.
    """
    works, failing = None, None
    for value in values:
        if fails(value):
            failing = value
            break
        works = value
    if works is None or failing is None:
        return Ceiling(works, failing)
    while (middle := _between(works, failing, step)) is not None:
        if fails(middle):
            failing = middle
        else:
            works = middle
    return Ceiling(works, failing)


def _between(low: int, high: int, step: int) -> int | None:
    """A multiple of ``step`` in the middle of what lies between; None where there is none."""
    first, last = low // step + 1, (high - 1) // step
    return (first + last) // 2 * step if first <= last else None


def halvings(values: Sequence[int], step: int) -> int:
    """How many runs ``bisect`` may take after the first failure, at most."""
    gaps = [high - low for low, high in itertools.pairwise(values)]
    return max((gap // step).bit_length() for gap in gaps) if gaps else 0


def label(values: Values) -> str:
    """``ub=64 c=512``."""
    return " ".join(f"{name}={value}" for name, value in values.items())


def until_failure(runs: Sequence[Values], run: Callable[[Values], bool], *, stop: bool) -> Iterator[Values]:
    """Run one after the other; those that were left out because an earlier one failed are the answer."""
    for at, values in enumerate(runs):
        if run(values) and stop:
            yield from runs[at + 1 :]
            return
