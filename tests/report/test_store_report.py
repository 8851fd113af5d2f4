"""The report of a store: its content, that it runs nothing, and its look in a browser."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from html.parser import HTMLParser
from itertools import product

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.cli.entry import run
from sparsehist.html import shown
from sparsehist.ledger.table import cost_in_words
from sparsehist.report.store_report import COUNTS
from tests.browser import SCHEMES, WIDTHS, visit
from tests.cases import slow

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
BOUNDED = 5728
HOME = pl.DataFrame({"user": range(500), "url": ["/home"] * 500})
REASON = "<b>for</b> </style><script>alert(3)</script> the study"
TAGS = set(
    "a bdi body caption em figcaption figure h1 h2 h3 head header html img li link main meta nav ol p section span "
    "strong style table tbody td th thead title tr ul".split()
)


class Page(HTMLParser):
    """Tags, attributes and text of a page as a browser reads them."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.attributes, self.pieces = set(), [], []
        self.feed(source)
        self.text = "".join(self.pieces)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [(tag, *attribute) for attribute in attrs]

    def handle_data(self, data):
        self.pieces.append(data)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Two series with keys that strangers chose, three releases, a workload, a session, a raised cap."""
    path = tmp_path_factory.mktemp("report") / "s"
    keys = [*PLANTED * 3, *(f"/page{i}" for i in range(12))]
    urls = [keys[(user * step) % len(keys)] for user in range(3000) for step in (1, 7)]
    users = [*(user for user in range(3000) for _ in range(2)), 77_777_001]
    log = pl.DataFrame({"user": users, "url": [*urls, "only-one-has-this"]})
    assert log.unique().height == BOUNDED
    series = sh.create(
        path, log, name="visits", unit="user", key="url", max_keys=2, domain=sh.Strings(max_bytes=60), cap=2,
    )  # fmt: skip
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
    daily = sh.create(
        path, name="daily", unit="user", key="url", max_keys=2, domain=sh.Strings(max_bytes=8), steps=7,
        population="staff",
    )  # fmt: skip
    daily.append(HOME, step=1)
    daily.release("day_one", step=1, level="0.5")
    daily.release("fresh", step=1, what="new", level="0.3")
    opened = sh.open(path, who="<i>office</i>")
    opened.set_budget(epsilon=8, delta="1e-6", open_share="0.2", reason="set in advance", population="office")
    declared = {"unit": "user", "key": "url", "max_keys": 1, "population": "office"}
    weighted = sh.create(
        path, log, name="weighted", domain=sh.Strings(max_bytes=20), bounding="share", on_outside="drop", **declared
    )
    weighted.release("shares", level=sh.EpsilonDelta(1, 1e-6))
    sh.create(path, log, name="found", domain=sh.Open(delta="1e-7"), **declared).release("keys", level="0.1")
    sh.create(path, log, name="gone", domain=sh.Strings(max_bytes=60), **declared).release("was", level="0.1")
    opened.drop("gone", reason="the study is over")
    weekly = sh.create(
        path, name="weeks", unit="user", key="url", max_keys=1, domain=sh.Strings(max_bytes=60),
        every=sh.Every("week", protects="user-week", budget=sh.EpsilonDelta(2, 1e-6)),
    )  # fmt: skip
    for week in ("2026-W01", "2026-W02"):
        weekly.append(log.head(3000), period=week).release("public", level="0.02")
    opened.declare_disjoint(["default", "staff"], reason="visitors are no staff")
    opened.declare_disjoint(["default", "staff", "office", "weeks"], reason="the office is elsewhere")
    with pytest.raises(sh.errors.CapExceededError):
        series.release("finer", level=5)
    return opened


@pytest.fixture(scope="module")
def page(store):
    """Return the public page."""
    return store.report()


def test_it_shows_costs_releases_limits_and_refusals(store, page):
    """Costs are the ledger's, releases have their errors, and limits have their reasons."""
    told = " ".join(Page(page).text.split())
    everybody = store.ledger(full=True).filter(scope="everybody").row(0, named=True)
    assert f"({everybody['epsilon']:.4g}, 1e-06)-differentially private" in told
    for name in ("public", "partner", "internal", "ranges", "ad_hoc", "daily", "day_one", "/home"):
        assert name in told
    for words in ("ex post", "default and staff", "visitors are no staff", "refuse", "raise cap", "user"):
        assert words in told
    assert store.series("hours").release("ranges").metadata["counts"] in told
    release = store.series("visits").release("public")
    assert f"{release.metadata['std']:.4g}" in told
    low, value, high = release.intervals().select("low", "noisy_count", "high").row(0)
    assert f"{shown(value, 6)} ({shown(low, 6)} to {shown(high, 6)})" in told
    for words in ("probability of being published", f"{max(COUNTS):,}"):
        assert words in told


def test_every_clause_of_a_declaration_is_on_it(store, page):
    """Tables have bounding, dropped rows, sources, limits before and after the first release, and erasures."""
    rows = [" | ".join(cells) for cells in _rows(page)]
    ledger = {
        (row["scope"], row["series"] or row["population"], row["path"]): row
        for row in store.ledger(full=True).to_dicts()
    }
    office = ledger["population", "office", None]
    budget = "epsilon 8 at delta 0.000001, route gaussian"
    for wanted in (
        f"population office | 3 | {shown(office['epsilon'])} | {cost_in_words(office)} | {budget} | gaussian ",
        f"visits | default | 3 | {shown(ledger['series', 'visits', None]['epsilon'])} | rho 1 | ",
        "| 3 (2 at the first release) | ",  # the cap that was raised
        f"gone (erased) | office | 1 | {shown(ledger['series', 'gone', None]['epsilon'])} | rho 0.1 | ",
        f"found: cells | gaussian | 1 | {shown(ledger['path', 'found', 'cells']['epsilon'])} | rho 0.1 | ",
        "weighted | user | 1 | office | url | strings(max_bytes=20) | nobody: a trusted source",
        "weighted | a unit with more than 1 keys counts at each of its keys (at most 64) with the weight sqrt",
        "| refused | left out",  # rows without unit or key; keys outside
        "daily | a unit with more than 2 keys counts towards 2 of them over all 7 steps | refused | refused",
        "ranges | workload | 0.2 | gaussian | ",
        "<i>office</i> | set budget | office | — | — | epsilon 8 at delta 0.000001, route gaussian; set in advance",
        "declare periods | weeks | — | — | every('week'",
        "weeks (each period) | user | 1 | weeks | url | ",
        "2026-W01 | 1 | 0.02 | ",
        "shares | cells | epsilon 1 at delta 1e-06 (level 0.0",
    ):
        assert any(wanted in row for row in rows), wanted
    assert any("| ex ante" in row and row.startswith("population office") for row in rows)
    assert any("| ex post" in row and row.startswith("visits | default") for row in rows)
    assert "numerical_slack" not in page
    weeks = ledger["population", "weeks", None]
    assert f"bears rho 0.02 per user-week (ε {shown(weeks['per_period_epsilon'])})" in page


def _rows(page):
    """Return the text of every cell by row."""
    rows = [row.split("</tr>")[0] for row in page.split('<tr role="row">')[1:]]
    return [[html.unescape(cell) for cell in re.findall(r"<bdi>(.*?)</bdi>", row, re.DOTALL)] for row in rows]


def test_nothing_on_it_runs_or_asks(page):
    """Planted markup is text, the policy allows one style sheet by hash, and nothing is fetched."""
    read = Page(page)
    assert read.tags <= TAGS
    assert not [
        attribute for attribute in read.attributes if attribute[1].startswith("on") or attribute[1] == "style"
    ]
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


def test_secrets_are_on_the_curators_page_only(store, page):
    """Keys below every threshold are on no page; exact sums are on the curator's, which is marked SECRET."""
    secret = store.report(curator=True)
    for text in (page, secret):
        assert "only-one-has-this" not in text
        assert "77777001" not in text
    assert "SECRET" not in page
    assert "<title>SECRET. Curator&#39;s privacy report of s</title>" in secret
    assert "Do not publish it" in secret
    assert f"<bdi>{BOUNDED:,}</bdi>" in secret
    assert f"{BOUNDED:,}" not in page


def test_a_periodic_series_is_one_section(page):
    """All periods have one heading and one chart over time."""
    assert page.count("Periodic series weeks") == 1
    assert "weeks_2026w01" not in page
    assert page.count("Noisy counts of weeks by period.</strong>") == 1


def test_releases_with_sums_are_compared_by_key():
    """Each key has one row in the table of counts and one in the table of measures."""
    log = pl.DataFrame({"user": range(900), "url": ["/a", "/b", "/c"] * 300, "price": [1, 2, 3] * 300})
    measures = [sh.Measure("price", clip=9)]
    series = sh.create(
        sh.open(":memory:", seed=1), log, name="shop", unit="user", key="url", max_keys=1,
        domain=sh.Catalogue(["/a", "/b", "/c"]), measures=measures,
    )  # fmt: skip
    for name, level in (("coarse", "0.5"), ("fine", "1")):
        series.release(name, level=level, measures=level)
    page = series.store.report()
    largest = page.split("The largest keys of shop")[1].split("</table>")[0]
    assert sorted(row[0] for row in _rows(largest) if row and row[0].startswith("/")) == ["/a", "/b", "/c"]
    assert "not published" not in largest
    sums = page.split("Measures of the largest keys of shop in fine")[1].split("</table>")[0]
    shown_sums = {row[0]: row[1] for row in _rows(sums) if row and row[0].startswith("/")}
    assert shown_sums.keys() == {"/a", "/b", "/c"}
    for key, near in (("/a", 300), ("/b", 600), ("/c", 900)):
        assert float(shown_sums[key].split(" (")[0]) == pytest.approx(near, abs=60)


def test_no_epsilon_at_this_delta_is_a_sentence_of_its_own(tmp_path):
    """If open domains have spent more than the δ asked for, the page says so."""
    domain = sh.Open(delta="1e-4")
    made = sh.create(tmp_path / "s", HOME, name="found", unit="user", key="url", max_keys=1, domain=domain)
    made.release("keys", level="0.6")
    told = " ".join(Page(made.store.report()).text.split())
    assert "the noise of all releases is 0.6-zCDP, and open domains add" in told
    assert "no ε holds at this δ" in told


def test_the_command_writes_it(store, tmp_path):
    """The page is written outside the store; only its owner may read the curator's."""
    for words, mode in (((), 0o644), (("--curator",), 0o600)):
        out = tmp_path / f"report{mode:o}.html"
        assert run(["report", str(store.path), "--out", str(out), *words]) == 0
        assert out.stat().st_mode & 0o777 == mode
        assert ("SECRET" in out.read_text()) == bool(words)
    for wrong in (store.path / "report.html", tmp_path / "report.txt"):
        assert run(["report", str(store.path), "--out", str(wrong)]) == 2
        assert not wrong.exists()


@pytest.mark.parametrize("secret", [False, slow(True)], ids=["public", "curator"])
def test_a_browser_shows_it_whole(browser, store, tmp_path, secret):
    """The page logs and requests nothing, nothing is clipped, charts are drawn, and axe-core finds no fault."""
    place = tmp_path / "report.html"
    place.write_text(store.report(curator=secret))
    with visit(browser, place.as_uri()) as seen:
        for width, scheme in product(WIDTHS, SCHEMES):
            assert seen.show(width=width, scheme=scheme) == []
            assert seen.accessibility_faults(contrast=width == 1280) == []
        charts = seen.tab.locator("figure img")
        assert charts.count() >= 2
        assert all(charts.nth(i).bounding_box()["height"] > 60 for i in range(charts.count()))
        assert seen.tab.locator("script").count() == 0
        assert seen.messages == []
        assert seen.requests == [place.as_uri()]


def test_a_wrong_page_is_noticed(browser, tmp_path):
    """The checks see clipped text, a page that is too wide, a message, a request and a serious fault."""
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
