# SPDX-License-Identifier: MIT
"""How much the property tests try: the same few examples each time, or many new ones on request."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

#: ``pytest --hypothesis-profile=thorough``: what to run after the rules of the verdict have changed.
settings.register_profile(
    "thorough", max_examples=400, deadline=None, suppress_health_check=list(HealthCheck)
)
settings.register_profile(
    "few", max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("few")
