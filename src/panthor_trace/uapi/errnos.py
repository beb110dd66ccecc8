# SPDX-License-Identifier: MIT
"""errno by name, as Linux numbers them (asm-generic/errno.h; the same on x86_64 and arm64)."""

from __future__ import annotations

import errno

#: Kernel-internal codes that should not reach user space, and do from some drivers (linux/errno.h).
_INTERNAL = {512: "ERESTARTSYS", 513: "ERESTARTNOINTR", 514: "ERESTARTNOHAND", 524: "ENOTSUPP"}


def errno_name(code: int) -> str:
    """``ENOMEM`` for 12; empty for 0; the number for one without a name."""
    if code == 0:
        return ""
    return errno.errorcode.get(code) or _INTERNAL.get(code) or str(code)
