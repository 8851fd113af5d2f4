"""The examples in docs/examples run as they stand."""

from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.sqlfront.running import run_script
from sparsehist.sqlfront.session import Session

CHECKOUT = Path(__file__).parents[2]
EXAMPLES = sorted((CHECKOUT / "docs" / "examples").glob("*.sql"))


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """Run an example in a directory of its own, where data/ is as in the checkout; a store on disk."""
    monkeypatch.chdir(tmp_path)
    Path("data").symlink_to(CHECKOUT / "data")

    def run(name):
        text = (CHECKOUT / "docs" / "examples" / f"{name}.sql").read_text(encoding="utf-8")
        with Session(sh.open("example", create=True).home, parameters={"level": "1/2"}) as session:
            outcomes = run_script(session, text)
        assert [str(outcome.error) for outcome in outcomes if outcome.error] == []
        return [outcome for outcome in outcomes if outcome.frame is not None]

    return run


def test_all_examples_are_tested():
    """Each file has its test below, and says how it is run."""
    assert [path.stem for path in EXAMPLES] == ["funnel", "packages", "query_log", "two_series", "web_areas"]
    for path in EXAMPLES:
        assert f"sparsehist run docs/examples/{path.name} --store" in path.read_text(encoding="utf-8")


def test_a_query_log_for_three_audiences(ran):
    """Three tables of falling noise, for the cost of the finest."""
    *_, compared, ledger = ran("query_log")
    best = compared.frame.row(0, named=True)
    assert best["query"] == "weather"
    assert all(abs(best[audience] - 4000) < 400 for audience in ("public", "partner", "internal"))
    assert ledger.frame.filter(scope="population")["level"].to_list() == ["0.5"]
    stds = sh.open("example").series("queries").releases()["std"].to_list()
    assert stds == sorted(stds, reverse=True)


def test_a_funnel_with_joins_and_filters(ran):
    """1,000 people bought by the day asked for, each in one country; the names come from public tables."""
    sums = ran("funnel")[-1].frame
    assert sorted(sums["country"]) == ["France", "Germany", "United States"]
    assert abs(sums["bought"].sum() - 1008) < 200


def test_packages_by_country_and_day(ran):
    """The two packages everybody has come first, with their number of addresses."""
    best = ran("packages")[-1].frame
    assert set(best["package"].head(2)) == {"ggplot2", "Rcpp"}
    assert all(abs(count - 5000) < 500 for count in best["downloads"].head(2))


def test_two_series_on_the_same_people_add_up(ran):
    """0.4 and 0.25 make 0.65, whatever else was released in between."""
    ledger = ran("two_series")[-1].frame
    assert ledger.filter(scope="series")["level"].to_list() == ["0.4", "0.25"]
    assert ledger.filter(scope="population").select("population", "level").rows() == [("people", "0.65")]


def test_areas_of_a_web_site(ran):
    """The log that ships with the package: the counts are near those without noise."""
    plan, _, best = ran("web_areas")
    assert plan.frame["level"].to_list() == ["0.01", "0.1", "1"]
    log = pl.read_csv("data/msweb_1998.csv").unique(["user_id", "url"])
    titles = pl.read_csv("data/msweb_catalogue.csv")
    true = dict(log.join(titles, on="url").group_by("title").len().rows())
    for title, noisy in best.frame.rows():
        assert abs(noisy - true[title]) < 400
