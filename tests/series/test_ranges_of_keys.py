"""Ranges written in keys instead of cells: the same workload, and refused where there are no such keys."""

from datetime import date

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import DeclarationError

DAYS = sh.Dates("2024-01-01", "2024-12-31")
COUNTRIES = sh.Catalogue(["US", "DE", "FR"])


def _series(store, name, key, domain, values):
    log = pl.DataFrame({"user": range(900), **values})
    return sh.create(store, log, name=name, unit="user", key=key, max_keys=1, domain=domain)


@pytest.fixture
def store():
    """A store with series over days, over integers from -5, and over countries and days."""
    days = {"day": [date(2024, 1, 1 + i % 28) for i in range(900)]}
    with sh.open(":memory:", seed=4) as opened:
        _series(opened, "days", "day", DAYS, days)
        _series(opened, "degrees", "t", sh.Integers(-5, 20), {"t": [i % 26 - 5 for i in range(900)]})
        _series(opened, "words", "w", sh.Strings(max_bytes=20), {"w": ["a"] * 900})
        both = {"country": [("DE", "FR", "US")[i % 3] for i in range(900)], **days}
        _series(opened, "places", ["country", "day"], sh.Product(country=COUNTRIES, day=DAYS), both)
        yield opened


def test_keys_and_cells_are_one_workload(store):
    """Days as dates, as text and as cells ask for the same release, and nothing is spent twice."""
    days = store.series("days")
    weeks = sh.workload.Ranges(keys=[(date(2024, 1, 1), "2024-01-07"), ("2024-01-08", date(2024, 1, 14))])
    made = days.release("weeks", workload=weeks, level=1)
    assert made.frame["low", "high"].rows() == [
        (date(2024, 1, 1), date(2024, 1, 7)),
        (date(2024, 1, 8), date(2024, 1, 14)),
    ]
    assert made.metadata["workload"] == "ranges(366, [(0, 6), (7, 13)])"
    for same in (sh.workload.Ranges([(0, 6), (7, 13)]), str(weeks), None):
        assert days.release("weeks", workload=same, level=1).frame.equals(made.frame)
    assert store.ledger(full=True).filter(scope="series", series="days")["level"].to_list() == ["1"]
    assert abs(made.frame["noisy_answer"][0] - 7 * 32) < 8 + 7 * 1.5
    assert made.answer("2024-01-08", "2024-01-14") == made.answer(date(2024, 1, 8), date(2024, 1, 14))


def test_factors_and_parts_name_keys_of_their_columns(store):
    """A product takes ranges of keys for each column, in the order of the domain; so does a union."""
    places = store.series("places")
    january = sh.workload.Ranges(keys=[("2024-01-01", "2024-01-31")])
    made = places.release(
        "a", workload=sh.workload.Kronecker(sh.workload.Ranges(keys=[("DE", "FR")]), january), level=1
    )
    row = made.frame.row(0, named=True)
    assert (row["country_low"], row["country_high"]) == ("DE", "FR")
    assert (row["day_low"], row["day_high"]) == (date(2024, 1, 1), date(2024, 1, 31))
    assert abs(row["noisy_answer"] - 600) < 8
    union = store.series("days").release("b", workload=sh.workload.Union(january, sh.workload.Total()), level=1)
    assert union.frame["high"].to_list() == [date(2024, 1, 31), date(2024, 12, 31)]


@pytest.mark.parametrize(
    ("series", "workload", "said"),
    [
        ("days", "ranges(keys=[('2024-01-01', '2025-01-31')])", "'2025-01-31' is no key of day"),
        ("days", "ranges(keys=[(1, 2)])", "dates such as"),
        ("days", "ranges(keys=['2024-01-01'])", "pairs"),
        ("days", "ranges(366, keys=[('2024-01-01', '2024-01-31')])", "takes no other argument"),
        ("degrees", "ranges(keys=[('1', '2')])", "Int64"),
        ("words", "ranges(keys=[('a', 'b')])", "serves up to"),
        ("places", "kronecker(ranges(keys=[('DE', 'XX')]), total())", "'XX' is no key of country"),
    ],
)
def test_what_is_no_range_of_keys_is_refused(store, series, workload, said):
    """By the declared domain alone, with the column and the key that was asked for."""
    with pytest.raises(DeclarationError, match=said):
        store.series(series).plan_workload(workload, 1)
