# SPDX-License-Identifier: MIT
"""From tables to the answer: who refused, and is a cap of the kernel driver the culprit?"""

from .judge import judge
from .verdict import EXIT_STATUS, CapUse, Cause, Confidence, KernelCap, Memory, Verdict

__all__ = ["EXIT_STATUS", "CapUse", "Cause", "Confidence", "KernelCap", "Memory", "Verdict", "judge"]
