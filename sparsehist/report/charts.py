"""Charts of the report, drawn by Altair and embedded as pictures, without scripts or requests."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from sparsehist.release.plots import COLOURS, largest_rows, require_plots

MOST_LINES = len(COLOURS)
"""Of a chart: more cannot be told apart by colour."""
_WIDTH = 420
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Picture:
    """A chart as an image: title, description, and data URI."""

    title: str
    about: str
    address: str


def _picture(title: str, about: str, chart: Any) -> Picture:
    """Draw a chart as SVG."""
    drawn = StringIO()
    chart.properties(background="#ffffff", padding={"left": 5, "top": 5, "right": 30, "bottom": 5}).save(
        drawn, format="svg"
    )
    address = base64.b64encode(drawn.getvalue().encode()).decode()
    return Picture(title, about, f"data:image/svg+xml;base64,{address}")


def largest_keys(series: str, rows: Rows, releases: Sequence[str]) -> Picture:
    """Draw noisy counts of the largest keys with their intervals, a colour for each release."""
    about = "Noisy count and interval of each release, by key, in the order of the finest release."
    return _picture(f"The largest keys of {series}", about, largest_rows(rows, "units", releases))


def over_time(title: str, about: str, what: str, rows: Rows, order: Sequence[str]) -> Picture:
    """Draw noisy counts over steps or periods, a line for each key; unpublished keys have no point."""
    alt = require_plots()
    names = sorted({row["key"] for row in rows})
    colour = alt.Color("key:N", sort=names, scale=alt.Scale(range=list(COLOURS)), legend=alt.Legend(labelLimit=220))
    axis = alt.Axis(labelOverlap=True)
    chart = (
        alt.Chart(alt.InlineData(values=list(rows)))
        .mark_line(point=True)
        .encode(
            x=alt.X("when:O", title=what, sort=list(order), axis=axis, scale=alt.Scale(domain=list(order))),
            y=alt.Y("noisy_count:Q", title="noisy count (units)"),
            color=colour,
        )
        .properties(width=_WIDTH, height=220)
    )
    return _picture(title, about, chart)
