"""The site of documentation: it is built without a warning, its links lead somewhere, a browser shows it whole."""

from __future__ import annotations

import fcntl
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.browser import SCHEMES, WIDTHS, visit

CHECKOUT = Path(__file__).parent.parent
PAGES = sorted(
    str(page.relative_to(CHECKOUT).with_suffix(".html"))
    for page in [
        *CHECKOUT.glob("*.md"), CHECKOUT / "data" / "README.md", CHECKOUT / "benchmarks" / "RESULTS.md",
        *(page for page in (CHECKOUT / "docs").rglob("*") if page.suffix in (".md", ".rst", ".ipynb")),
    ]
)  # fmt: skip
# One of each kind. Their colours are tested too: those of the theme and of the lexers.
ONE_OF_A_KIND = ("README.html", "docs/sql.html", "docs/api/audiences.html")


def _built(factory, worker_id, name, *options):
    """Build the site once, whatever the number of workers; warnings are errors."""
    pytest.importorskip("sphinx", reason="the site is built by the extra `docs`")
    base = factory.getbasetemp()
    place = (base if worker_id == "master" else base.parent) / name
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs", *options, "."]
            made = subprocess.run(
                [*command, str(place)], cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=600
            )
            assert made.returncode == 0, made.stderr
    return place


@pytest.fixture(scope="session")
def site(tmp_path_factory, worker_id):
    """The site without the outputs of notebooks, which take a third of the time."""
    return _built(tmp_path_factory, worker_id, "site", "-D", "nb_execution_mode=off")


@pytest.fixture(scope="session")
def whole_site(tmp_path_factory, worker_id):
    """The site as `make docs` builds it: notebooks are run."""
    return _built(tmp_path_factory, worker_id, "whole_site")


class _Links(HTMLParser):
    """The anchors of a page, what it refers to, and what it loads."""

    def __init__(self, page):
        super().__init__()
        self.anchors, self.links = set(), set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src"):
                self.links.add(value)


def test_every_page_is_in_the_site_and_its_links_lead_somewhere(site):
    """Files exist, anchors stand in them, and nothing is loaded from a network."""
    pages = {page: _Links(page) for page in site.rglob("*.html")}
    assert {str(page.relative_to(site)) for page in pages} >= {*PAGES, "index.html", "search.html"}
    wrong = []
    for page, found in pages.items():
        for link in found.links:
            if re.match(r"https?:|mailto:", link):
                continue
            path, _, anchor = unquote(link).partition("#")
            target = (page.parent / path.partition("?")[0]).resolve() if path else page
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].anchors):
                wrong.append(f"{page.relative_to(site)}: {link}")
    assert wrong == []
    assert len(pages) > 40


def _check_page(browser, site, page):
    """No console message, no request but for files, nothing clipped or beside the page, no fault by axe-core."""
    with visit(browser, (site / page).as_uri()) as seen:
        for width, scheme in product(WIDTHS, SCHEMES):
            assert seen.show(width=width, scheme=scheme) == []
            if width == 360 and scheme == "light":
                assert seen.accessibility_faults(contrast=False) == []
            if width == 1280 and page in (*ONE_OF_A_KIND, "docs/notebooks/audiences.html"):
                assert seen.accessibility_faults() == []
        assert seen.told == []
        assert [address for address in seen.asked if not address.startswith("file:")] == []


@pytest.mark.parametrize("page", ONE_OF_A_KIND)
def test_a_browser_shows_a_page_whole(browser, site, page):
    """One page of each kind, in all widths and colour schemes."""
    _check_page(browser, site, page)


@pytest.mark.slow
@pytest.mark.parametrize("page", [*PAGES, "search.html", "genindex.html"])
def test_a_browser_shows_every_page_whole(browser, whole_site, page):
    """Every page, notebooks with their outputs."""
    _check_page(browser, whole_site, page)


@pytest.mark.slow
def test_notebooks_run(whole_site):
    """The site is built with all notebooks run without an error."""
    assert (whole_site / "docs" / "notebooks" / "audiences.html").exists()


def test_search_finds_a_word_without_a_network(browser, site):
    """From the field of any page: words of pages, names of the API."""
    with visit(browser, (site / "index.html").as_uri()) as seen:
        seen.tab.wait_for_url("**/README.html")
        seen.tab.set_viewport_size({"width": 1280, "height": 800})
        for word, page in (("spurious", "docs/concepts.html"), ("choose_max_keys", "docs/api/sparsehist.html")):
            seen.tab.locator("input[name=q]").first.fill(word)
            seen.tab.keyboard.press("Enter")
            seen.tab.wait_for_selector(f'#search-results a[href*="{page}"]')
        seen.tab.locator(f'#search-results a[href*="{page}"]').first.click()
        seen.tab.wait_for_url(f"**/{page}*")
        assert seen.told == []
        assert all(address.startswith("file:") for address in seen.asked)


def test_a_page_that_is_cut_is_noticed(browser, tmp_path):
    """The checks fail on clipped text, a page that is too wide, a message, a request and a serious fault."""
    page = tmp_path / "wrong.html"
    page.write_text(
        '<!doctype html><html lang="en"><title>wrong</title><div style="width: 50px; overflow: hidden">unbreakable'
        '</div><div style="width: 2000px">wide</div><img src="data:,"><script>console.log("told")</script>'
        '<img src="http://127.0.0.1:1/x.png" alt="">' + "<p>text</p>" * 3
    )
    with visit(browser, page.as_uri()) as seen:
        cut = seen.show(width=768, scheme="light")
        assert [what.split(":")[1][:14] for what in cut] == [" the page is 2", ' <div style="w']
        assert "told" in seen.told
        assert any(address.startswith("http:") for address in seen.asked)
        assert any(fault.startswith("image-alt") for fault in seen.accessibility_faults())
