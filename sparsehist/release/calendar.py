"""Read names of days, ISO weeks and months."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from sparsehist.errors import DeclarationError, shown

_EXAMPLES = {"day": "2026-03-17", "week": "2026-W12", "month": "2026-03"}


@dataclass(frozen=True)
class Period:
    """A period, given by its first and last day."""

    label: str  # "2026-03-17", "2026-W12" or "2026-03"
    first: date
    last: date

    @property
    def name(self) -> str:
        """The suffix of the name of the period's series, such as "2026w12"."""
        return self.label.replace("-", "").lower()


def span_of(period: str, named: str | date) -> Period:
    """Return the period with this name, or the period that contains this day; see `PeriodicSeries.append`."""
    try:
        return _of_days(period, named)
    except (TypeError, ValueError, OverflowError):
        raise DeclarationError(f"period must name one, such as {_EXAMPLES[period]}; got {shown(named)}") from None


def _of_days(kind: str, named: object) -> Period:
    if isinstance(named, str):
        text = f"{named}-01" if kind == "month" and re.fullmatch(r"\d{4}-\d\d", named) else named.upper()
        if "W" in text and kind != "week":
            raise ValueError
        named = date.fromisoformat(text)  # which reads a week as its Monday
    if not isinstance(named, date) or isinstance(named, datetime):
        raise TypeError
    if kind == "day":
        return Period(named.isoformat(), named, named)
    if kind == "week":
        year, week, weekday = named.isocalendar()
        monday = named - timedelta(weekday - 1)
        return Period(f"{year}-W{week:02}", monday, monday + timedelta(6))
    first = named.replace(day=1)
    return Period(f"{named:%Y-%m}", first, (first + timedelta(31)).replace(day=1) - timedelta(1))
