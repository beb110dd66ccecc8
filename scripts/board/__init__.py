# SPDX-License-Identifier: MIT
"""The board on the bench: a Mali CSF board without the board (see docs/lab.md)."""
