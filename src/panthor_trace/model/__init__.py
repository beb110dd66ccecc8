# SPDX-License-Identifier: MIT
"""From the trace to tables: pure functions, no clock, no files, no root."""

import pandas as pd

from .tables import TABLE_NAMES, Tables, build

# Where pyarrow happens to be installed, pandas would keep strings in it: those cannot hold the bytes of a
# name that is no UTF-8, and a report must not depend on what else is installed.
pd.set_option("mode.string_storage", "python")

__all__ = ["TABLE_NAMES", "Tables", "build"]
