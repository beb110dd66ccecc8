# SPDX-License-Identifier: MIT
"""``python3 -m panthor_trace``."""

from .cli import main

if __name__ == "__main__":
    main()
