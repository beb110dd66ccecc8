# SPDX-License-Identifier: MIT
"""panthor-trace: says why a GPU allocation failed on an Arm Mali CSF GPU."""

__version__ = "0.1.0"
