# SPDX-License-Identifier: MIT
"""The one error type the lab shows to a person: what happened, why, what to do."""

from __future__ import annotations


class LabError(Exception):
    """A failure a user can cause or meet; ``str()`` is one clear line. ``exit_code`` is the command's."""

    def __init__(self, message: str, *, exit_code: int = 125) -> None:
        super().__init__(message)
        self.exit_code = exit_code
