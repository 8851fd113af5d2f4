"""Days, ISO weeks and months by name, and which rows of a log are in one."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import polars as pl

from sparsehist.errors import DataError, DeclarationError, shown

_WEEK = re.compile(r"(\d{4})-?[Ww](\d{2})")
_MONTH = re.compile(r"(\d{4})-(\d{2})")
_LARGEST = 10**6
EXAMPLES = {"day": "2026-03-17", "week": "2026-W12", "month": "2026-03"}
"""How a period is named; one of so many steps by a number."""


@dataclass(frozen=True)
class Period:
    """One period, by its first and last day or step."""

    label: str  # "2026-03-17", "2026-W12", "2026-03", or a number from 1
    first: date | int
    last: date | int

    @property
    def name(self) -> str:
        """The suffix of the name of its series: "2026w12"."""
        return self.label.replace("-", "").lower()

    def holds(self, column: str, dtype: pl.DataType) -> pl.Expr:
        """Whether a row is in it, by a column of days, moments or steps; false where that is missing.

        Moments with a time zone are taken by the clock of that zone, text by the date it begins with.
        """
        value = pl.col(column)
        if isinstance(self.first, int):
            if not dtype.is_integer():
                raise DataError(f"the column {column!r} is {dtype}: where periods are steps, it holds whole numbers")
        elif dtype == pl.String:
            value = _day_of_text(value)
        elif isinstance(dtype, pl.Datetime):
            value = value.dt.date()
        elif dtype != pl.Date:
            raise DataError(f"the column {column!r} is {dtype}: it has to hold dates, timestamps, or text like that")
        return value.is_between(pl.lit(self.first), pl.lit(self.last)).fill_null(value=False)


def is_no_date(column: str, dtype: pl.DataType) -> pl.Expr:
    """Whether a row of a column of text says something that does not begin with a date; empty text says nothing."""
    if dtype != pl.String:
        return pl.lit(value=False)
    return (pl.col(column).str.len_bytes() > 0) & _day_of_text(pl.col(column)).is_null()


def _day_of_text(text: pl.Expr) -> pl.Expr:
    return text.str.head(10).str.to_date("%Y-%m-%d", strict=False)


def span_of(period: str | int, named: str | date | int) -> Period:
    """The period of a name, or the one that a day is in, as `PeriodicSeries.add` takes them."""
    period = str(period)
    try:
        found = _steps(int(period), named) if period.isdecimal() else _days(period, named)
    except ValueError:
        found = None
    if found is None:
        raise DeclarationError(f"period must name one, such as {EXAMPLES.get(period, '1')}; got {shown(named)}")
    return found


def _steps(steps: int, named: object) -> Period | None:
    number = int(named) if isinstance(named, str) and named.isdecimal() else named
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= _LARGEST:
        return None
    return Period(str(number), (number - 1) * steps + 1, number * steps)


def _days(period: str, named: object) -> Period | None:
    day = _day(period, named)
    if day is None:
        return None
    if period == "day":
        return Period(day.isoformat(), day, day)
    if period == "week":
        year, week, weekday = day.isocalendar()
        monday = day - timedelta(weekday - 1)
        return Period(f"{year}-W{week:02}", monday, monday + timedelta(6))
    last = monthrange(day.year, day.month)[1]
    return Period(f"{day:%Y-%m}", day.replace(day=1), day.replace(day=last))


def _day(period: str, named: object) -> date | None:
    """A day in it."""
    if isinstance(named, date):
        return None if isinstance(named, datetime) else named
    text = named if isinstance(named, str) else ""
    if period == "week" and (week := _WEEK.fullmatch(text)):
        return date.fromisocalendar(int(week[1]), int(week[2]), 1)
    if period == "month" and (month := _MONTH.fullmatch(text)):
        return date(int(month[1]), int(month[2]), 1)
    return None if _WEEK.fullmatch(text) else date.fromisoformat(text)  # which reads a week as its Monday
