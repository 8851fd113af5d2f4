"""The documentation site is built without a warning, and its links lead somewhere."""

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
SOURCES = [
    *CHECKOUT.glob("*.md"), CHECKOUT / "data" / "README.md", CHECKOUT / "benchmarks" / "RESULTS.md",
    *(page for page in (CHECKOUT / "docs").rglob("*") if page.suffix in (".md", ".rst", ".ipynb")),
]  # fmt: skip


@pytest.fixture(scope="session", params=["off", pytest.param("auto", marks=pytest.mark.slow)])
def site(tmp_path_factory, worker_id, request):
    """Build the site once for all workers; notebooks run with the slow tests only."""
    pytest.importorskip("sphinx", reason="the site is built by the extra `docs`")
    base = tmp_path_factory.getbasetemp()
    place = (base if worker_id == "master" else base.parent) / f"site-{request.param}"
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            options = [] if request.param == "auto" else ["-D", "nb_execution_mode=off"]
            command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs", *options, "."]
            made = subprocess.run(
                [*command, str(place)], cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=600
            )
            assert made.returncode == 0, made.stderr
    return place


class _Links(HTMLParser):
    """The anchors and links of a page."""

    def __init__(self, page):
        super().__init__()
        self.anchors, self.links = set(), set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.anchors |= {value for name, value in attrs if name == "id" or (tag == "a" and name == "name")}
        self.links |= {value for name, value in attrs if name in ("href", "src")}


def test_every_page_is_in_the_site_and_its_links_lead_somewhere(site):
    """Linked files and anchors exist."""
    pages = {page: _Links(page) for page in site.rglob("*.html")}
    expected = {str(source.relative_to(CHECKOUT).with_suffix(".html")) for source in SOURCES}
    assert {str(page.relative_to(site)) for page in pages} >= {*expected, "index.html", "search.html"}
    wrong = []
    for page, found in pages.items():
        for link in (link for link in found.links if not re.match(r"https?:|mailto:", link)):
            path, _, anchor = unquote(link).partition("#")
            target = (page.parent / path.partition("?")[0]).resolve() if path else page
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].anchors):
                wrong.append(f"{page.relative_to(site)}: {link}")
    assert wrong == []
