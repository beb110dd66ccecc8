# SPDX-License-Identifier: MIT
"""``python3 -m panthor_trace``, and what the installed ``panthor-trace`` starts."""

from __future__ import annotations

import sys
from typing import NoReturn


def start() -> NoReturn:
    """The command line; one line also where it cannot even be loaded."""
    try:
        from .cli import main
    except KeyboardInterrupt:
        sys.stderr.write("panthor-trace: interrupted\n")
        sys.exit(130)
    except ModuleNotFoundError as error:
        if error.name != "click":  # the others are imported where they are used
            raise
        sys.stderr.write("panthor-trace: the Python module click is missing: install python3-click\n")
        sys.exit(125)
    main()


if __name__ == "__main__":
    start()
