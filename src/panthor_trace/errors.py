# SPDX-License-Identifier: MIT
"""The one error type a person sees, and the exit codes of panthor-trace itself."""

from __future__ import annotations

#: The tracer could not do its work; the command was not started (as ``env`` and ``timeout`` have it).
EXIT_FAILED = 125
#: The command exists but cannot be executed.
EXIT_NOT_EXECUTABLE = 126
#: The command was not found.
EXIT_NOT_FOUND = 127


class TraceError(Exception):
    """Something a user can cause or meet. ``str()`` is one line: what happened, and what to do.

    ``detail`` is what a developer wants as well (a compiler's output); shown with ``--debug`` only.
    """

    def __init__(self, message: str, exit_code: int = EXIT_FAILED, detail: str = "") -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.detail = detail
