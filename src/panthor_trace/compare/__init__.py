# SPDX-License-Identifier: MIT
"""Runs side by side: what one trace measures, and how two differ. Pure, as model and verdict are."""
