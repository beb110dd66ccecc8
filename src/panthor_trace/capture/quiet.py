# SPDX-License-Identifier: MIT
"""Keeps what libraries write by themselves off the user's terminal."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def captured_stderr() -> Iterator[Callable[[], str]]:
    """libbcc and clang write to descriptor 2 themselves: keep that out of the user's terminal."""
    sys.stderr.flush()
    saved = os.dup(2)
    sink = os.memfd_create("bcc-stderr")
    os.dup2(sink, 2)
    try:
        yield lambda: os.pread(sink, 1 << 16, 0).decode(errors="replace")
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(sink)
