"""Ranges written in keys instead of cells: the same workload, refused where there are no such keys."""

from datetime import date

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import DeclarationError
from tests.series.in_memory import over_log

DAYS = sh.Dates("2024-01-01", "2024-12-31")
COUNTRIES = sh.Catalogue(["US", "DE", "FR"])
LOG = pl.DataFrame(
    {
        "unit": range(900),
        "day": [date(2024, 1, 1 + i % 28) for i in range(900)],
        "country": [("DE", "FR", "US")[i % 3] for i in range(900)],
        "t": [i % 26 - 5 for i in range(900)],
        "w": "a",
    }
)
SERIES = {
    "days": ("day", DAYS), "degrees": ("t", sh.Integers(-5, 20)), "words": ("w", sh.Strings(max_bytes=20)),
    "places": (["country", "day"], sh.Product(country=COUNTRIES, day=DAYS)),
}  # fmt: skip


def series(name):
    """A series over one of these domains."""
    key, domain = SERIES[name]
    return over_log(LOG, key=key, domain=domain)


def test_keys_and_cells_are_one_workload():
    """Days as dates, as text and as cells name one release, whose ranges are shown as dates."""
    days = series("days")
    weeks = sh.workload.Ranges(keys=[(date(2024, 1, 1), "2024-01-07"), ("2024-01-08", date(2024, 1, 14))])
    made = days.release("weeks", workload=weeks, level=1)
    assert made.frame["high"].to_list() == [date(2024, 1, 7), date(2024, 1, 14)]
    assert made.metadata["workload"] == "ranges(366, [(0, 6), (7, 13)])"
    for same in (sh.workload.Ranges([(0, 6), (7, 13)]), str(weeks), None):
        assert days.release("weeks", workload=same, level=1).frame.equals(made.frame)
    assert abs(made.frame["noisy_answer"][0] - 7 * 32) < 8 + 7 * 1.5
    assert made.answer("2024-01-08", "2024-01-14") == made.answer(date(2024, 1, 8), date(2024, 1, 14))


def test_factors_and_parts_name_keys_of_their_columns():
    """Products take ranges of keys for each column, in the order of the domain; unions take them too."""
    january = sh.workload.Ranges(keys=[("2024-01-01", "2024-01-31")])
    both = sh.workload.Kronecker(sh.workload.Ranges(keys=[("DE", "FR")]), january)
    row = series("places").release("a", workload=both, level=1).frame.row(0, named=True)
    assert (row["country_low"], row["country_high"], row["day_low"]) == ("DE", "FR", date(2024, 1, 1))
    assert abs(row["noisy_answer"] - 600) < 8
    union = series("days").release("b", workload=sh.workload.Union(january, sh.workload.Total()), level=1)
    assert union.frame["high"].to_list() == [date(2024, 1, 31), date(2024, 12, 31)]


@pytest.mark.parametrize(
    ("name", "workload", "said"),
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
def test_what_is_no_range_of_keys_is_refused(name, workload, said):
    """The refusal names the column and the key."""
    with pytest.raises(DeclarationError, match=said):
        series(name).plan_workload(workload, 1)
