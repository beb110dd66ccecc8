# SPDX-License-Identifier: MIT
"""The trace directory: its format, writer and reader. See docs/trace-format.md."""
