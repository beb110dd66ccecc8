# SPDX-License-Identifier: MIT
"""Pages that need nothing else: no network, no second file.

Whatever a trace says is text: jinja2 escapes it, the figures' labels are escaped for plotly.js, and the
page's policy runs the two scripts it has by their hashes and no other.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..export.optional import optional
from ..speech import printable

if TYPE_CHECKING:
    import jinja2

_FILES = resources.files(__package__) / "page"

#: A picture: ``name`` on the page, its ``short`` and its whole ``title``, ``caption``, ``height`` or None,
#: ``figure``.
Picture = dict[str, Any]


def rendered(template: str, title: str, source: str, pictures: Sequence[Picture], **values: object) -> str:
    """A page by its template. Raises TraceError where what it needs is not installed."""
    templates, plotly = _libraries()
    from markupsafe import Markup  # jinja2's own

    data = json.dumps({one["name"]: one["figure"] for one in pictures}, separators=(",", ":"))
    scripts = [_inline(plotly), _inline((_FILES / "report.js").read_text())]
    return templates.get_template(template).render(
        title=title,
        source=source,
        figures=pictures,
        version=__version__,
        policy=_policy(scripts),
        style=Markup((_FILES / "report.css").read_text()),
        # Inside a script element only its end would mean anything.
        data=Markup(data.replace("<", "\\u003c")),
        scripts=[Markup(script) for script in scripts],
        **values,
    )


def _libraries() -> tuple[jinja2.Environment, str]:
    with optional():
        import jinja2
        from plotly.offline import get_plotlyjs
    templates = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (_FILES / name).read_text()),
        autoescape=True,
        finalize=_printable,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    return templates, get_plotlyjs()


def _printable(value: object) -> object:
    """Text of a trace without what would steer a reader's eye, as on a terminal; our own markup as it is."""
    return printable(value) if type(value) is str else value


def _inline(script: str) -> str:
    """As a browser sees it between its tags, with its line ends, or its hash would be another one."""
    return script.replace("\r\n", "\n").replace("\r", "\n").replace("</script", "<\\/script")


def _policy(scripts: list[str]) -> str:
    """Nothing is fetched or sent, only ``scripts`` run. plotly.js sets styles and makes pictures."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
