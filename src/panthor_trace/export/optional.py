# SPDX-License-Identifier: MIT
"""Packages that only some formats need: their absence is a line that says what to install."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import MappingProxyType

from ..errors import TraceError

#: What each is needed for, which is also the name of its extra in pyproject.toml.
PACKAGES = MappingProxyType(
    {"pyarrow": "parquet", "perfetto": "perfetto", "jinja2": "html", "plotly": "html"}
)
_SPELLED = MappingProxyType({"html": "HTML"})


@contextlib.contextmanager
def optional() -> Iterator[None]:
    """Import what needs them inside. Raises TraceError where one is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in PACKAGES:
            raise
        extra = PACKAGES[name]
        raise TraceError(
            f"{_SPELLED.get(extra, extra.capitalize())} files need {name}, which is not installed: "
            f"pip install {name} (or panthor-trace[{extra}])"
        ) from None
