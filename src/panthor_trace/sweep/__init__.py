# SPDX-License-Identifier: MIT
"""One command with many values, each traced: which values, in which order, and what came of each."""
