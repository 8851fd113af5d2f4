"""Tables and plots of notebooks: public parameters and published rows, escaped."""

from __future__ import annotations

import json
import re

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.html import html_table, shown

from .test_store_report import HOME, PLANTED, TAGS, Page

SECRET = "only-one-has-this"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A series with planted keys and a key below every threshold, workloads, and a running series."""
    keys = [*PLANTED, "/plain"]
    rows = {"user": [*range(4000), 77_777_001], "url": [*(keys[i % 8] for i in range(4000)), SECRET]}
    path = tmp_path_factory.mktemp("notebooks") / "s<i>"
    series = sh.create(
        path, pl.DataFrame(rows), name="visits", unit="user", key="url", max_keys=1, domain=sh.Strings(max_bytes=60),
    )  # fmt: skip
    series.release("public", level="0.5")
    hours = pl.DataFrame({"user": range(500), "hour": [i % 24 for i in range(500)]})
    ranges = sh.create(path, hours, name="hours", unit="user", key="hour", max_keys=1, domain=sh.Integers(24))
    ranges.release("prefixes", workload=sh.workload.Prefix(), level="0.2")
    ranges.release("ranges", workload=sh.workload.Ranges(), level="0.2")
    sh.create(path, name="daily", unit="user", key="url", max_keys=2, domain=sh.Strings(max_bytes=8), steps=7)
    return sh.open(path)


def _shown(store):
    visits, hours = store.series("visits"), store.series("hours")
    workloads = [hours.release(name) for name in ("prefixes", "ranges")]
    running = store.series("daily")
    declared = {"unit": "user", "key": "url", "max_keys": 1, "domain": sh.Strings(max_bytes=60)}
    weekly = sh.create(":memory:", name="weeks", every="week", **declared)
    weekly.append(HOME, period="2026-W01")
    return [store, visits, running, weekly, visits.release("public"), *workloads, visits.plan(["0.1"])]


def test_what_notebooks_show_is_escaped_and_public(store):
    """No kind of value shows other tags, event handlers, addresses or secrets."""
    for value in _shown(store):
        html = value._repr_html_()
        page = Page(html)
        assert page.tags <= TAGS | {"pre"}, type(value)
        assert "table" in page.tags
        assert not [one for one in page.attributes if one[1].startswith("on") or one[1] in ("style", "href", "src")]
        assert not set("\u202e\u2066") & set(html)
        assert SECRET not in html
        assert "77777001" not in html
    page = Page(store.series("visits").release("public")._repr_html_())
    for planted in (*PLANTED[:4], *PLANTED[5:], r"a\u202eb\u2066c"):
        assert planted in page.text
    assert "prefix(24)" in store.series("hours").release("prefixes")._repr_html_()
    assert "rho 0.9" in store._repr_html_()  # 0.5 + 0.2 + 0.2, of everybody


def test_a_table_escapes_every_part():
    """Caption, heads and cells are escaped, and numbers are rounded."""
    planted = "\"'><script>\u202e"
    html = html_table(planted, [planted, planted], [[planted, planted]], 1)
    assert html.count("&#34;&#39;&gt;&lt;script&gt;\\u202e") == 6
    assert "<script" not in html
    cases = (None, True, 0.1234567, 12345.6, 1e-9, float("inf"), float("nan"), "x")
    assert list(map(shown, cases)) == ["—", "True", "0.1235", "12,346", "1e-09", "inf", "nan", "x"]


def test_the_largest_rows_are_drawn_with_their_intervals(store):
    """Values are those of `intervals`, and planted markup cannot end the script that holds the data."""
    pytest.importorskip("altair", reason="plots need the extra `plots`")
    release = store.series("visits").release("public")
    chart = release.plot(most=6)
    (values,) = chart.to_dict()["datasets"].values()
    known = release.intervals().head(6)
    assert [row["value"] for row in values] == known["noisy_count"].to_list()
    assert [(row["low"], row["high"]) for row in values] == known.select("low", "high").rows()
    assert [row["key"].split(".")[0] for row in values] == list("123456")
    for drawn in (chart, release.plot(most=100)):
        page = drawn.to_html()
        data = json.dumps(drawn.to_dict())
        assert "<" not in data
        assert "\u202e" not in data
        assert "alert(1)" in page
        assert not re.search(r"<script>alert|</script><script>alert|<img", page)
    with pytest.raises(sh.errors.DeclarationError, match="most must be"):
        release.plot(most=0)
