# SPDX-License-Identifier: MIT
"""The forms a report can have, by the name that ``report --format`` knows them by."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType

from ..analysis import Analysis


def _text(analysis: Analysis) -> str:
    from .terminal import text

    return text(analysis.verdict, analysis.tables, analysis.trace.meta)


def _json(analysis: Analysis) -> str:
    return json.dumps(analysis.verdict.as_json(), indent=1) + "\n"


def _html(analysis: Analysis) -> str:
    from .html import page

    return page(analysis)


def _markdown(analysis: Analysis) -> str:
    from .markdown import markdown

    return markdown(analysis)


#: Each makes the whole report as text. What a form needs is imported only where it is asked for.
FORMATS: Mapping[str, Callable[[Analysis], str]] = MappingProxyType(
    {"text": _text, "json": _json, "html": _html, "markdown": _markdown}
)
