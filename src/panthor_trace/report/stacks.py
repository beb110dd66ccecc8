# SPDX-License-Identifier: MIT
"""Every failure with its user stack, as text."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pandas as pd

from ..model import Tables
from ..model.stacks import describe
from ..speech import printable


def show_stacks(tables: Tables, *, err: bool = False) -> None:
    """Print the user stack of every failure that has one, to standard output or error."""
    for line in stack_lines(tables):
        click.echo(printable(line), err=err)


def stack_lines(tables: Tables, most: int | None = None) -> Iterator[str]:
    """Every failure (or the first ``most``) by time, with its user stack, innermost frame first."""
    frames = dict(list(tables.stacks.groupby("stack_id")))
    for _, failure in tables.failures.head(len(tables.failures) if most is None else most).iterrows():
        yield f"{failure['what']} → {failure['error']}, process {failure['pid']}, thread {failure['tid']}"
        stack = frames.get(failure["stack_id"]) if pd.notna(failure["stack_id"]) else None
        if stack is None:
            yield "    no user stack was recorded"
            continue
        for _, frame in stack.iterrows():
            yield f"    #{frame['depth']:<2} {describe(frame)}"
