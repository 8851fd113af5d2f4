"""The site of documentation: it is built without a warning, and its links lead somewhere."""

from __future__ import annotations

import fcntl
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

CHECKOUT = Path(__file__).parent.parent
PAGES = sorted(
    str(page.relative_to(CHECKOUT).with_suffix(".html"))
    for page in [
        *CHECKOUT.glob("*.md"), CHECKOUT / "data" / "README.md", CHECKOUT / "benchmarks" / "RESULTS.md",
        *(page for page in (CHECKOUT / "docs").rglob("*") if page.suffix in (".md", ".rst", ".ipynb")),
    ]
)  # fmt: skip


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


@pytest.mark.slow
def test_notebooks_run(whole_site):
    """The site is built with all notebooks run without an error."""
    assert (whole_site / "docs" / "notebooks" / "audiences.html").exists()
