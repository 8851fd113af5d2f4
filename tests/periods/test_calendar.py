"""The days of a period, and its name."""

from __future__ import annotations

import itertools
from datetime import date, timedelta

import pytest

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
