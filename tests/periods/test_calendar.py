"""The days of a period, and its name."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest

from sparsehist.errors import DataError
from sparsehist.release.calendar import span_of

DAYS = [date(2019, 12, 1) + timedelta(day) for day in range(3000)]


@pytest.mark.parametrize("period", ["day", "week", "month"])
def test_periods_share_out_all_days(period: str) -> None:
    """Each day is in exactly one period, which its name and each of its days identify."""
    spans = [span_of(period, day) for day in DAYS]
    assert all(span.first <= day <= span.last for span, day in zip(spans, DAYS, strict=True))
    assert all(span_of(period, span.label) == span for span in spans)
    assert all(span_of(period, day.isoformat()) == span for span, day in zip(spans, DAYS, strict=True))
    by_name = {span.name: span for span in spans}
    assert len(by_name) == len(set(spans))
    whole = sorted(by_name.values(), key=lambda span: span.first)
    assert all(after.first - before.last == timedelta(1) for before, after in itertools.pairwise(whole))


def test_rows_are_selected_by_dates_moments_and_text() -> None:
    """Rows are sorted by the clock of their zone; rows without a date are in no period."""
    week = span_of("week", "2026-W12")  # 16 to 22 March
    day = pl.Series("t", [date(2026, 3, 15), date(2026, 3, 16), date(2026, 3, 22), date(2026, 3, 23), None])
    inside = [False, True, True, False, False]
    text = pl.Series("t", ["2026-03-15 23:59:59", "2026-03-16", "2026-03-22T23:59:59Z", "2026-03-23", "later"])
    late = datetime(2026, 3, 22, 23, 30, tzinfo=UTC)
    there = pl.Series("t", [late]).dt.convert_time_zone("Asia/Tokyo")
    for column, wanted in ((day, inside), (text, inside), (there, [False]), (pl.Series("t", [late]), [True])):
        assert column.to_frame().select(week.holds("t", column.dtype)).to_series().to_list() == wanted
    with pytest.raises(DataError, match="'t'"):
        week.holds("t", pl.Int64())
