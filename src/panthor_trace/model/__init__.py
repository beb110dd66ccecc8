# SPDX-License-Identifier: MIT
"""From the trace to tables: pure functions, no clock, no files, no root."""

from .tables import Tables, build

__all__ = ["Tables", "build"]
