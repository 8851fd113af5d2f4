"""Tests that the calendar maps every day to a period with a name."""

from __future__ import annotations

import itertools
from datetime import date, timedelta

import pytest

import sparsehist as sh
from sparsehist.declaration import Declaration
from sparsehist.release.periods import names_of_period

DAYS = [date(2019, 12, 1) + timedelta(day) for day in range(3000)]
FIRST = {"day": lambda _: True, "week": lambda day: day.isoweekday() == 1, "month": lambda day: day.day == 1}


@pytest.mark.parametrize("period", ["day", "week", "month"])
def test_periods_share_out_all_days(period: str) -> None:
    """Each day belongs to exactly one period, which can be named by its label or by any of its days."""
    every = sh.Every(period)
    log = Declaration(name="log", unit="user", key="key", max_keys=1, domain=sh.Integers(5), every=every)
    names = [names_of_period(log, day) for day in DAYS]
    assert names == [names_of_period(log, label) for label, _ in names]
    assert names == [names_of_period(log, day.isoformat()) for day in DAYS]
    assert all(every.names("log", name) for _, name in names)
    for day, (before, after) in zip(DAYS[1:], itertools.pairwise(names), strict=True):
        assert (after != before) == (after > before) == FIRST[period](day)
