# SPDX-License-Identifier: MIT
"""The page: whole, offline, and whatever names a trace holds only ever text. Seen by a real browser."""

from __future__ import annotations

import base64
import builtins
import hashlib
import html
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from panthor_trace.analysis import Analysis
from panthor_trace.compare.difference import difference
from panthor_trace.errors import TraceError
from panthor_trace.model import build
from panthor_trace.report.comparison_html import comparison_page
from panthor_trace.report.html import page
from panthor_trace.report.sweep_html import sweep_page
from panthor_trace.sweep.outcome import outcome_of
from panthor_trace.sweep.plan import Ceiling
from panthor_trace.trace.reader import Trace
from panthor_trace.verdict import judge

from .stories import STORIES, Story
from .synthetic import SyntheticTrace
from .test_difference import run_of
from .test_report import refused

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
#: Breaks out of text, attributes, scripts and plotly.js's labels, wherever it is not escaped.
HOSTILE = (
    "</script></style></title><script>hacked=1</script><img src=http://127.0.0.1:9/x onerror=hacked=1>"
    "\"'><b>bold</b><a href='javascript:hacked=1'>x</a>{{ 7*7 }}%{x}\u202e\x1b[2J\udcff\u2028"
)


def page_of(trace: Trace, **columns: Any) -> str:
    tables = build(trace)
    verdict = judge(tables, trace.meta, trace.end)
    for column, value in columns.items():
        tables.bos[column] = value
    return page(Analysis(trace, tables, verdict))


def hostile_page() -> str:
    trace = refused()
    tables = build(trace)
    verdict = judge(tables, trace.meta, trace.end)
    tables.bos["label"] = HOSTILE
    tables.failures["what"] = HOSTILE
    tables.failures["origin_chain"] = f"{HOSTILE} < {HOSTILE}"
    meta = {
        **trace.meta,
        "command": [HOSTILE, "x"],
        "started": HOSTILE,
        "machine": {"kernel": HOSTILE, "architecture": HOSTILE},
        "layers": {HOSTILE: {"live": False, "why": HOSTILE}},
    }
    caps = tuple(replace(cap, scope=HOSTILE) for cap in verdict.caps)
    told = replace(
        verdict, headline=HOSTILE, evidence=(HOSTILE,), missing=(HOSTILE,), remedy=HOSTILE, caps=caps
    )
    return page(Analysis(replace(trace, meta=meta, path=Path(HOSTILE)), tables, told))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_every_story_has_a_page(story: Story) -> None:
    run = SyntheticTrace()
    story.tell(run)
    text = page_of(run.finish(story.exit_code))
    assert f"cause: {story.truth.value}" in text


def test_a_run_of_nothing_has_a_page_without_pictures() -> None:
    text = page_of(replace(SyntheticTrace().finish(None), meta={}))
    assert '<div class="figure"' not in text
    assert "cause: inconclusive" in text


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("plotly"):
            raise ModuleNotFoundError("No module named 'plotly'", name="plotly")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(TraceError, match="HTML files need plotly, which is not installed"):
        page_of(refused())


def test_any_release_of_plotly_keeps_to_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's has line ends that a browser reads as others: hashes are of what it reads."""
    monkeypatch.setattr("plotly.offline.get_plotlyjs", lambda: "1;\r\n2;\r'</script>'")
    text = page_of(refused())
    assert "<script>1;\n2;\n'<\\/script>'</script>" in text
    digest = hashlib.sha256(b"1;\n2;\n'<\\/script>'").digest()
    assert f"'sha256-{base64.b64encode(digest).decode()}'" in html.unescape(text)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium here: scripts/setup installs it")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM)
        yield chromium
        chromium.close()


def opened(browser: Browser, path: Path, pictures: int = 4) -> tuple[Page, list[str]]:
    """The page, and a list that whatever it asks for, complains of or is forbidden is added to."""
    shown = browser.new_page(viewport={"width": 1280, "height": 844}, color_scheme="light")
    events: list[str] = []
    asked = events.append
    shown.on("request", lambda request: None if request.url == path.as_uri() else asked(request.url))
    shown.on("console", lambda message: events.append(message.text))
    shown.on("pageerror", lambda error: events.append(str(error)))
    shown.on("dialog", lambda dialog: events.append(dialog.message))
    shown.goto(path.as_uri())
    shown.wait_for_function(f"document.querySelectorAll('.legend').length === {pictures}")
    return shown, events


_PLACE_OF_THE_FIRST_FAILURE = """() => {
    const figure = document.querySelector("#memory .figure");
    figure.scrollIntoView();
    const { x, y } = figure.getBoundingClientRect(), { _size, xaxis, yaxis } = figure._fullLayout;
    const failures = figure.data.find(trace => trace.name === "failures");
    return [x + _size.l + xaxis.l2p(failures.x[0]), y + _size.t + yaxis.l2p(failures.y[0])];
}"""


def test_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    """Pictures, links and sorting; no request, no complaint; on a phone; in the dark."""
    path = tmp_path / "report.html"
    path.write_text(page_of(refused()))
    desk, events = opened(browser, path)
    assert events == []
    assert desk.locator(".figure .main-svg").count() >= 4
    light = desk.evaluate("getComputedStyle(document.body).backgroundColor")

    desk.click("#why a")
    assert desk.evaluate("location.hash") == "#bo-4"
    desk.click("#failures a:has-text('152 MiB')")
    assert desk.evaluate("document.querySelector(':target').cells[1].textContent") == "152 MiB"
    sizes = "[...document.querySelectorAll('#buffers tbody tr')].map(row => row.cells[1].textContent)"
    desk.click("#buffers th:has-text('size')")
    assert desk.evaluate(sizes) == ["1 MiB", "2 MiB", "3 MiB", "42 MiB", "152 MiB"]
    desk.click("#buffers th:has-text('size')")
    assert desk.evaluate(sizes) == ["152 MiB", "42 MiB", "3 MiB", "2 MiB", "1 MiB"]
    desk.fill("#buffers input", "42 mib")
    assert desk.locator("#buffers tbody tr:visible").count() == 1

    at = desk.evaluate(_PLACE_OF_THE_FIRST_FAILURE)
    desk.mouse.move(*at)
    desk.wait_for_selector(".hovertext:has-text('152 MiB asked for')")
    desk.mouse.click(*at)
    desk.wait_for_function("location.hash === '#failure-0'")

    # Not only was nothing asked for: nothing can be, nor can another script run.
    assert desk.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')") == "refused"
    desk.evaluate(
        "const s = document.createElement('script'); s.text = 'hacked = 1'; document.body.append(s)"
    )
    assert desk.evaluate("typeof hacked") == "undefined"

    # The page follows the reader's wish while it is open.
    desk.emulate_media(color_scheme="dark")
    desk.set_viewport_size({"width": 390, "height": 844})
    dark = desk.evaluate("getComputedStyle(document.body).color")
    desk.wait_for_function(f"document.querySelector('.xtitle').style.fill === '{dark}'")
    assert desk.evaluate("getComputedStyle(document.body).backgroundColor") != light
    assert desk.evaluate("document.documentElement.scrollWidth") == 390


def test_two_runs_on_one_page(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "diff.html"
    runs = run_of(64), run_of(128, refused=True)
    path.write_text(comparison_page(*runs, difference(*runs)))
    shown, events = opened(browser, path, pictures=3)
    assert events == []
    assert shown.locator(".figure .main-svg").count() >= 3
    assert shown.inner_text("h1").startswith("clean in A, kernel-memory in B")
    legends = shown.locator(".legend button").all_inner_texts()
    assert {"A, process 164", "B, process 228", "A: descriptors", "B: descriptors", "failures"} <= set(
        legends
    )


def test_a_sweep_on_a_page(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "sweep.html"
    rows = [({"ub": str(batch)}, outcome_of(run_of(batch, refused=batch > 64))) for batch in (32, 64, 128)]
    path.write_text(sweep_page(rows, ["bench", "{ub}"], "ub", Ceiling(64, 128), []))
    shown, events = opened(browser, path, pictures=1)
    assert events == []
    assert "ceiling: ub=64 works, ub=128 fails (kernel-memory" in shown.inner_text("li")
    crosses = "document.querySelector('.figure').data.map(line => line.marker.symbol.indexOf('x'))"
    assert shown.evaluate(crosses) == [2, 2]
    assert shown.locator(".xtick").all_text_contents() == ["32", "64", "128"]


def test_names_are_only_ever_text(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(hostile_page())
    shown, events = opened(browser, path)
    for figure in ("memory", "workgroups", "pools", "addresses"):
        shown.hover(f"#{figure} .figure")
    assert events == []
    assert shown.evaluate("typeof hacked") == "undefined"
    assert (
        shown.evaluate("document.querySelectorAll('body img, body b b, a[href^=javascript], svg a').length")
        == 0
    )
    text = shown.evaluate("document.body.innerText")
    assert "<b>bold</b>" in text
    assert "{{ 7*7 }}" in text
    assert "\\u202e\\x1b[2J\\xff\\u2028" in text
    assert not set(text) & set("\u202e\x1b\udcff\u2028")
