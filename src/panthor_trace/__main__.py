# SPDX-License-Identifier: MIT
"""``python3 -m panthor_trace``."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    try:
        from .cli import main

        main()
    except KeyboardInterrupt:
        sys.exit(130)
