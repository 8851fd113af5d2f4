"""Tests that reports and notebook tables contain only public data, escape markup, and run no scripts."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from itertools import product

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.cli.entry import run
from sparsehist.html import shown
from tests.browser import SCHEMES, WIDTHS, visit

pytest.importorskip("vl_convert", reason="reports need the extra `plots`")

PLANTED = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "=cmd|' /C calc'!A0",
    "a\u202eb\u2066c",
    "{{ 7 * 7 }}",
    "]]></svg><script>alert(2)</script>",
)
SECRET_KEY, SECRET_UNIT = "only-one-has-this", 77_777_001
BOUNDED = 5728
REASON = "<b>for</b> </style><script>alert(3)</script> the study"
TAGS = set(
    "a bdi body caption em figcaption figure h1 h2 h3 head header html img li link main meta nav ol p section span "
    "strong style table tbody td th thead title tr ul".split()
)
HOME = pl.DataFrame({"user": range(500), "url": ["/home"] * 500})
URLS = {"unit": "user", "key": "url", "domain": sh.Strings(max_bytes=60)}


class Page(HTMLParser):
    """The tags, attributes and text of an HTML page, as a parser reads them."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.attributes, self.pieces = set(), [], []
        self.feed(source)
        self.text = " ".join("".join(self.pieces).split())

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [(tag, *attribute) for attribute in attrs]

    def handle_data(self, data):
        self.pieces.append(data)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with every kind of series, noise path, limit and event, and with HTML markup in some keys."""
    path = tmp_path_factory.mktemp("report") / "s"
    keys = [*PLANTED * 3, *(f"/page{i}" for i in range(12))]
    urls = [keys[(user * step) % len(keys)] for user in range(3000) for step in (1, 7)]
    users = [*(user for user in range(3000) for _ in range(2)), SECRET_UNIT]
    log = pl.DataFrame({"user": users, "url": [*urls, SECRET_KEY]})
    assert log.unique().height == BOUNDED
    series = sh.create(path, log, name="visits", max_keys=2, cap=2, **URLS)
    for name, level in (("public", "0.1"), ("partner", 1), ("internal", "0.5")):
        series.release(name, level=level, false_keys=0.001 if name == "public" else None)
    series.raise_cap(3, reason=REASON)
    hours = sh.create(
        path, pl.DataFrame({"user": range(500), "hour": [i % 24 for i in range(500)]}), name="hours", unit="user",
        key="hour", max_keys=2, domain=sh.Integers(24), population="staff",
    )  # fmt: skip
    with pytest.warns(sh.errors.CountsWarning):
        hours.release("ranges", workload=sh.workload.Prefix(), level="0.2")
    hours.interactive("ad_hoc", level="0.1", accuracy="0.3")
    daily = sh.create(path, name="daily", max_keys=2, steps=7, population="staff", **URLS)
    daily.append(HOME, step=1)
    daily.release("day_one", step=1, level="0.5")
    opened = sh.open(path, who="<i>office</i>")
    opened.set_budget(epsilon=8, delta="1e-6", open_share="0.2", reason="set in advance", population="office")
    office = URLS | {"max_keys": 1, "population": "office"}
    weighted = sh.create(path, log, name="weighted", **office, bounding="share")
    weighted.release("shares", level=sh.EpsilonDelta(1, 1e-6))
    sh.create(path, log, name="found", **office | {"domain": sh.Open(delta="1e-7")}).release("keys", level="0.1")
    sh.create(path, log, name="gone", **office).release("was", level="0.1")
    opened.drop("gone", reason="the study is over")
    every = sh.Every("week", protects="user-week", budget=sh.EpsilonDelta(2, 1e-6))
    weekly = sh.create(path, name="weeks", max_keys=1, every=every, **URLS)
    for week in ("2026-W01", "2026-W02"):
        weekly.append(log.head(3000), period=week).release("public", level="0.02")
    opened.declare_disjoint(["default", "staff", "office", "weeks"], reason="visitors are no staff")
    with pytest.raises(sh.errors.CapExceededError):
        series.release("finer", level=5)
    return opened


@pytest.fixture(scope="module")
def page(store):
    """The public report of the store, as HTML."""
    return store.report()


def test_it_shows_costs_releases_and_errors(store, page):
    """The report shows the privacy costs in the ledger, and the errors and intervals of each release."""
    text = Page(page).text
    everybody = store.ledger(full=True).filter(scope="everybody").row(0, named=True)
    assert f"({everybody['epsilon']:.4g}, 1e-06)-differentially private" in text
    for words in ("ranges", "ad_hoc", "day_one", "/home", "visitors are no staff", "raise cap", "numerical slack"):
        assert words in text
    assert store.series("hours").release("ranges").metadata["counts"] in text
    release = store.series("visits").release("public")
    assert f"{release.metadata['std']:.4g}" in text
    low, value, high = release.intervals().select("low", "noisy_count", "high").row(0)
    assert f"{shown(value, 6)} ({shown(low, 6)} to {shown(high, 6)})" in text


def test_nothing_on_it_runs_or_asks(page):
    """HTML markup in keys appears as text, and the report runs no scripts and requests no URLs."""
    read = Page(page)
    assert read.tags <= TAGS
    assert not [name for _, name, _ in read.attributes if name.startswith("on") or name == "style"]
    links = [value for _, name, value in read.attributes if name in ("href", "src", "xlink:href", "action")]
    pictures = [link for link in links if link.startswith("data:image/svg+xml;base64,")]
    assert all(link in ("data:,", *pictures) or link.startswith("#") for link in links)
    assert not re.search(r"url\(|@import|https?:", page)
    for link in pictures:
        drawn = base64.b64decode(link.partition(",")[2]).decode()
        assert not re.search(r"<script|<image|href=|@import", drawn)
    (policy,) = [value for _, name, value in read.attributes if name == "content" and "src" in value]
    style = page.split("<style>")[1].split("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    for planted in (PLANTED[0], PLANTED[1], PLANTED[5], REASON, "<i>office</i>", r"a\u202eb\u2066c"):
        assert planted in read.text
    assert not set("\u202e\u2066") & set(page)


def test_no_secret_is_on_the_page(page):
    """The report shows no unit, no exact sum, and no key that was not published."""
    for secret in (SECRET_KEY, str(SECRET_UNIT), f"{BOUNDED:,}"):
        assert secret not in page


def test_a_periodic_series_is_one_section(page):
    """In the report, all periods of a periodic series share one heading and one chart."""
    assert page.count("Periodic series weeks") == 1
    assert "weeks_2026w01" not in page
    assert page.count("Noisy counts of weeks by period.</strong>") == 1


def test_no_epsilon_at_this_delta_is_a_sentence_of_its_own():
    """If open domains have spent more than the requested δ, the report says that no ε holds at this δ."""
    made = sh.create(":memory:", HOME, name="found", max_keys=1, **URLS | {"domain": sh.Open(delta="1e-4")})
    made.release("keys", level="0.6")
    text = Page(made.store.report()).text
    assert "the noise of all releases is 0.6-zCDP, and open domains add" in text
    assert "no ε holds at this δ" in text


def test_the_command_writes_it(store, tmp_path):
    """The report command writes only files that end in .html, and never a file inside the store."""
    out = tmp_path / "report.html"
    assert run(["report", str(store.path), "--out", str(out)]) == 0
    assert out.stat().st_mode & 0o777 == 0o644
    for wrong in (store.path / "report.html", tmp_path / "report.txt"):
        assert run(["report", str(store.path), "--out", str(wrong)]) == 2
        assert not wrong.exists()


def test_a_browser_shows_it_whole(browser, page, tmp_path):
    """In a browser, the report is not clipped, shows its charts, requests nothing and has no accessibility fault."""
    file = tmp_path / "report.html"
    file.write_text(page)
    with visit(browser, file.as_uri()) as seen:
        for width, scheme in product(WIDTHS, SCHEMES):
            assert seen.show(width=width, scheme=scheme) == []
            if width == 1280 or scheme == "light":
                assert seen.accessibility_faults(contrast=width == 1280) == []
        charts = seen.tab.locator("figure img")
        assert charts.count() >= 1
        assert all(charts.nth(i).bounding_box()["height"] > 60 for i in range(charts.count()))
        assert seen.tab.locator("script").count() == 0
        assert seen.messages == []
        assert seen.requests == [file.as_uri()]


def test_a_wrong_page_is_noticed(browser, tmp_path):
    """Negative control: the browser checks detect clipped text, a web request and other faults of a page.

    The faults also include a page that is too wide, a console message and an image without a description.
    """
    page = tmp_path / "wrong.html"
    page.write_text(
        '<!doctype html><html lang="en"><title>wrong</title><div style="width: 50px; overflow: hidden">unbreakable'
        '</div><div style="width: 2000px">wide</div><img src="data:,"><script>console.log("told")</script>'
        '<img src="http://127.0.0.1:1/x.png" alt="">' + "<p>text</p>" * 3
    )
    with visit(browser, page.as_uri()) as seen:
        cut = seen.show(width=768, scheme="light")
        assert [what.split(":")[1][:14] for what in cut] == [" the page is 2", ' <div style="w']
        assert "told" in seen.messages
        assert any(address.startswith("http:") for address in seen.requests)
        assert any(fault.startswith("image-alt") for fault in seen.accessibility_faults())


def test_what_notebooks_show_is_escaped_and_public(store):
    """Tables in notebooks contain only harmless HTML tags, and no event handlers, web addresses or secrets."""
    visits, hours, weeks = (store.series(name) for name in ("visits", "hours", "weeks"))
    cells, workload = visits.release("public"), hours.release("ranges")
    for value in (store, visits, store.series("daily"), weeks, cells, workload, visits.plan(["0.1"])):
        read = Page(value._repr_html_())
        assert "table" in read.tags <= TAGS | {"pre"}, type(value)
        assert not [one for one in read.attributes if one[1].startswith("on") or one[1] in ("style", "href", "src")]
        assert not [text for text in ("\u202e", "\u2066", SECRET_KEY, str(SECRET_UNIT)) if text in read.text]
    read = Page(cells._repr_html_())
    for planted in (*PLANTED[:4], *PLANTED[5:], r"a\u202eb\u2066c"):
        assert planted in read.text
    assert "prefix(24)" in workload._repr_html_()


def test_the_largest_rows_are_drawn_with_their_intervals(store):
    """A plot shows the largest counts with intervals, and markup in keys cannot end the page's script element."""
    release = store.series("visits").release("public")
    chart = release.plot(most=6)
    (values,) = chart.to_dict()["datasets"].values()
    known = release.intervals().head(6)
    assert [(row["noisy_count"], row["low"], row["high"]) for row in values] == known.select(
        "noisy_count", "low", "high"
    ).rows()
    for drawn in (chart, release.plot(most=100)):
        data, page = drawn.to_json(), drawn.to_html()
        assert "<" not in data and "\u202e" not in data
        assert "alert(1)" in page
        assert not re.search(r"<script>alert|</script><script>alert|<img", page)
