# SPDX-License-Identifier: MIT
"""Signals as a shell at a terminal has them.

Under nohup, or in the background of a script, some are ignored, and would be in everything the tests start.
"""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Before any process is started."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
