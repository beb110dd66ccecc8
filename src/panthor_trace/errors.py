# SPDX-License-Identifier: MIT
"""The one error type a person sees, and the exit codes of panthor-trace itself."""

from __future__ import annotations

#: With ``--exit-verdict``: the command ran, but its trace could not be judged. As "inconclusive".
EXIT_NO_VERDICT = 13
#: The trace directory exists, or cannot be made or written. In all that follow the command was not started.
EXIT_OUTPUT = 120
#: Recording needs root.
EXIT_NOT_ROOT = 121
#: The distribution's bcc is not installed.
EXIT_NO_BCC = 122
#: The kernel, or a container's rules, does not allow tracing.
EXIT_KERNEL = 123
#: The tracer could not do its work for another reason (as ``env`` and ``timeout`` have it).
EXIT_FAILED = 125
#: The command exists but cannot be executed.
EXIT_NOT_EXECUTABLE = 126
#: The command was not found.
EXIT_NOT_FOUND = 127
#: Ctrl-C before the command was started (128 + SIGINT, as a shell has it).
EXIT_INTERRUPTED = 130

#: Set to anything: unexpected errors show where they come from.
DEBUG_VARIABLE = "PANTHOR_TRACE_DEBUG"


def unexpected(error: Exception) -> str:
    """One line for a fault of our own."""
    return f"unexpected {type(error).__name__}: {error} (run again with {DEBUG_VARIABLE}=1 and report it)"


class TraceError(Exception):
    """Something a user can cause or meet. ``str()`` is one line: what happened, and what to do.

    ``detail`` is what a developer wants as well (a compiler's output); shown with ``--debug`` only.
    """

    def __init__(self, message: str, exit_code: int = EXIT_FAILED, detail: str = "") -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.detail = detail
