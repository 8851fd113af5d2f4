"""Check pages in the Chromium browser with Playwright and axe-core, which `make browser` installs.

Tests that need a browser are skipped if Chromium, Playwright or axe-core is missing. With CI=true in the environment,
they fail instead.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

WIDTHS = (360, 1280)
SCHEMES = ("light", "dark")
AXE = Path(__file__).with_name("node_modules") / "axe-core" / "axe.min.js"
# The last two options stop Chromium from requesting its own updates.
_OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")

# JavaScript that finds elements with clipped content, except content that can be scrolled, such as a wide table.
_CLIPPED = """() => {
    const scrolls = e => e && (/auto|scroll/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement))
    return [...document.querySelectorAll('body *')].filter(e => {
        const style = getComputedStyle(e)
        return e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 1 && !(e instanceof SVGElement)
            && style.display != 'inline' && e.checkVisibility() && (style.overflowX != 'visible' || !scrolls(e))
            && !/auto|scroll/.test(style.overflowX)
    }).map(e => e.outerHTML.slice(0, 80))
}"""
_OUTSIDE = """() => [...document.querySelectorAll('svg text')].filter(e => {
    const [inner, outer] = [e.getBoundingClientRect(), e.ownerSVGElement.getBoundingClientRect()];
    return inner.left < outer.left - 1 || inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1
}).map(e => e.textContent)"""


def _need(there: object, how: str) -> None:
    if not there:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"pages are looked at in a browser: {how}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Start a headless Chromium browser that all tests share."""
    chromium = shutil.which("chromium")
    _need(chromium, "apt-get install chromium")
    _need(AXE.is_file(), "npm ci --prefix tests")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _need(there=False, how="pip install playwright")
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=chromium, args=list(_OPTIONS), timeout=60_000)
        yield started
        started.close()


class Visit(NamedTuple):
    """A browser tab with the messages, errors and dialogs of its page, and the addresses that the page requested."""

    tab: Any
    messages: list[str]
    requests: list[str]

    def show(self, *, width: int, scheme: str) -> list[str]:
        """Show the page at a given width and colour scheme; return which content is clipped or outside the page."""
        self.tab.set_viewport_size({"width": width, "height": 800})
        self.tab.emulate_media(color_scheme=scheme)
        wide = self.tab.evaluate("document.documentElement.scrollWidth")
        beside = [f"the page is {wide} pixels wide"] if wide > width else []
        return [
            f"{width} {scheme}: {what}" for what in beside + self.tab.evaluate(_CLIPPED) + self.tab.evaluate(_OUTSIDE)
        ]

    def accessibility_faults(self, *, contrast: bool = True) -> list[str]:
        """Return the serious and critical accessibility faults that axe-core finds on the page."""
        # `evaluate` runs axe-core even on a page whose security policy forbids scripts.
        self.tab.evaluate(AXE.read_text(encoding="utf-8"))
        # Finish all animations first, because contrast would be wrong while colours fade.
        self.tab.evaluate("document.getAnimations().forEach(animation => animation.finish())")
        rules = {"color-contrast": {"enabled": contrast}}
        checked = self.tab.evaluate("rules => axe.run({preload: false, rules})", rules)
        assert checked["passes"]
        return [
            f"{fault['id']}: {node['html'][:120]}"
            for fault in checked["violations"]
            if fault["impact"] in ("serious", "critical")
            for node in fault["nodes"]
        ]


@contextmanager
def visit(browser: Any, address: str) -> Iterator[Visit]:
    """Load a page in a new browser tab, and close the tab afterwards."""
    context = browser.new_context()
    context.set_default_timeout(30_000)
    opened = Visit(context.new_page(), [], [])
    opened.tab.on("console", lambda message: opened.messages.append(message.text))
    opened.tab.on("pageerror", lambda error: opened.messages.append(str(error)))
    opened.tab.on("dialog", lambda dialog: opened.messages.append(dialog.message))
    opened.tab.on("request", lambda request: opened.requests.append(request.url))
    opened.tab.goto(address)
    yield opened
    context.close()
