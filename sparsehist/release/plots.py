"""Plots of releases and plans; needs the extra `plots` (altair and vl-convert)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sparsehist.errors import StoreError, needing, printable

COLOURS = ("#b2182b", "#ef8a62", "#2166ac", "#1a9850", "#762a83", "#404040")


def require_plots() -> Any:
    """Import altair, and check that vl-convert, which writes its pictures, is there."""
    with needing("a plot", "'sparsehist[plots]'"):
        import altair as alt
        import vl_convert  # noqa: F401 - altair needs it to write pictures
    return alt


def plot_plan(counts: pl.DataFrame, levels: Sequence[str]) -> Any:
    """Draw the probability of publication and the relative error at the true counts of a plan; see `Plan.plot`.

    Counts are few and far apart, so that a line between them would say what is not true.
    """
    alt = require_plots()
    rows = counts.filter(pl.col("count") > 0)
    data = alt.InlineData(values=rows.to_dicts())
    count = alt.X("count:Q", title="true count (units)", scale=alt.Scale(type="log", nice=False))
    colour = alt.Color("level:N", title="level", sort=list(levels))
    base = alt.Chart(data).mark_point(filled=True, size=45).properties(width=360, height=260)
    published = base.encode(
        x=count,
        y=alt.Y("probability:Q", title="probability of being published", scale=alt.Scale(domain=[0, 1])),
        color=colour,
    ).properties(title="Is a key of this count published?")
    error = base.encode(
        x=count,
        y=alt.Y("relative_error:Q", title="mean error / count", scale=alt.Scale(type="log", nice=False)),
        color=colour,
    ).properties(title="How far off is it, if it is published?")
    return (published | error).properties(background="#ffffff")


def plot_largest(rows: pl.DataFrame, about: str, title: str) -> Any:
    """Draw rows of keys, low, value and high, one below the other; `about` says what the numbers are."""
    alt = require_plots()
    keys = rows.drop("low", "value", "high").iter_rows()  # a screenful, published
    labels = [f"{place}. {_label(key)}" for place, key in enumerate(keys, start=1)]
    drawn = rows.select("low", "value", "high").with_columns(key=pl.Series(labels, dtype=pl.String))
    key = alt.Y("key:N", title=None, sort=None, axis=alt.Axis(labelLimit=260))
    base = alt.Chart(alt.InlineData(values=drawn.to_dicts())).properties(width=460, height=18 * max(len(labels), 1))
    spans = base.mark_rule(strokeWidth=2, color=COLOURS[2]).encode(y=key, x=alt.X("low:Q", title=about), x2="high:Q")
    dots = base.mark_point(filled=True, size=45, color=COLOURS[2], opacity=1).encode(y=key, x="value:Q")
    return (spans + dots).properties(background="#ffffff", title=title)


def _label(key: Sequence[Any]) -> str:
    """A key for a chart. Altair writes data into a script as it is, so that no text may end that."""
    text = printable(" · ".join("all" if part is None else str(part) for part in key))
    return text.replace("<", "\N{FULLWIDTH LESS-THAN SIGN}")


def save_plot(chart: Any, path: Path) -> None:
    """Write a chart as .svg or .png."""
    try:
        chart.save(str(path), **({"ppi": 144} if path.suffix == ".png" else {}))
    except OSError as problem:
        raise StoreError(f"cannot write {path}: {problem.strerror}") from None
