# SPDX-License-Identifier: MIT
"""From tables to the answer: who refused, and is a cap of the kernel driver the culprit?"""

from .judge import judge
from .verdict import Cause, Confidence, KernelCap, Verdict

__all__ = ["Cause", "Confidence", "KernelCap", "Verdict", "judge"]
