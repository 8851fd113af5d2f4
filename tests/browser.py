"""Pages in a real browser: Debian's chromium by its path, driven by playwright; axe-core, pinned, from npm.

`make browser` installs what is missing. With CI=true a missing tool fails the test; elsewhere it is skipped.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

WIDTHS = (360, 768, 1280)
SCHEMES = ("light", "dark")
AXE = Path(__file__).with_name("node_modules") / "axe-core" / "axe.min.js"
# Without the last ones chromium asks for updates of its own, which is no request of a page.
_OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")

# Elements that show less than they hold. What stands in a box with a bar to scroll, as wide tables do, can be seen.
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
    """A headless chromium."""
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
    """A tab; what its page said in the console, by errors and by dialogs; what it asked for."""

    tab: Any
    told: list[str]
    asked: list[str]

    def show(self, *, width: int, scheme: str) -> list[str]:
        """Look at it in this width and colour scheme; what is not seen whole."""
        self.tab.set_viewport_size({"width": width, "height": 800})
        self.tab.emulate_media(color_scheme=scheme)
        wide = self.tab.evaluate("document.documentElement.scrollWidth")
        beside = [f"the page is {wide} pixels wide"] if wide > width else []
        return [
            f"{width} {scheme}: {what}" for what in beside + self.tab.evaluate(_CLIPPED) + self.tab.evaluate(_OUTSIDE)
        ]

    def accessibility_faults(self, *, contrast: bool = True) -> list[str]:
        """What axe-core finds serious or critical, as rule and element; contrast takes longer than all the rest."""
        self.tab.evaluate(AXE.read_text(encoding="utf-8"))  # as a debugger does it, whatever the page's policy
        # Colours that fade from one scheme to the other would be judged half-way.
        self.tab.evaluate("document.getAnimations().forEach(animation => animation.finish())")
        rules = {"color-contrast": {"enabled": contrast}}
        found = self.tab.evaluate("rules => axe.run({preload: false, rules})", rules)
        assert found["passes"]
        return [
            f"{fault['id']}: {node['html'][:120]}"
            for fault in found["violations"]
            if fault["impact"] in ("serious", "critical")
            for node in fault["nodes"]
        ]


@contextmanager
def visit(browser: Any, address: str) -> Iterator[Visit]:
    """Open a page until it is loaded."""
    context = browser.new_context()
    context.set_default_timeout(30_000)
    found = Visit(context.new_page(), [], [])
    found.tab.on("console", lambda message: found.told.append(message.text))
    found.tab.on("pageerror", lambda error: found.told.append(str(error)))
    found.tab.on("dialog", lambda dialog: found.told.append(dialog.message))
    found.tab.on("request", lambda request: found.asked.append(request.url))
    found.tab.goto(address)
    yield found
    context.close()
