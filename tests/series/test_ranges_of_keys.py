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
        "w": "a",
    }
)
SERIES = {
    "days": ("day", DAYS), "words": ("w", sh.Strings(max_bytes=20)),
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


@pytest.mark.parametrize(
    ("name", "workload", "said"),
    [
        ("days", "ranges(keys=[('2024-01-01', '2025-01-31')])", "'2025-01-31' is no key of day"),
        ("words", "ranges(keys=[('a', 'b')])", "serves up to"),
        ("places", "kronecker(ranges(keys=[('DE', 'XX')]), total())", "'XX' is no key of country"),
    ],
)
def test_what_is_no_range_of_keys_is_refused(name, workload, said):
    """The refusal names the column and the key."""
    with pytest.raises(DeclarationError, match=said):
        series(name).plan_workload(workload, 1)
