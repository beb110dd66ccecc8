# SPDX-License-Identifier: MIT
"""The answer as a person reads it. Knows nothing of the command line."""
