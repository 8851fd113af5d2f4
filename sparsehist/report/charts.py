"""Charts for the report. Altair plots them as SVG images, which need no scripts and no network requests."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from sparsehist.errors import needing, printable

COLOURS = ("#b2182b", "#ef8a62", "#2166ac", "#1a9850", "#762a83", "#404040")
MOST_LINES = len(COLOURS)
"""Largest number of lines in a chart, because more colours are hard to distinguish."""
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Picture:
    """A chart as an image: title, description, and data URI."""

    title: str
    description: str
    address: str


def require_plots() -> Any:
    """Return the module altair. Check that vl-convert is installed too, because altair needs it to write images."""
    with needing("a chart", "'sparsehist[plots]'"):
        import altair as alt
        import vl_convert  # noqa: F401 - altair needs it to write images
    return alt


def key_label(key: Sequence[Any]) -> str:
    """Return a key as text with control characters escaped."""
    return printable(" · ".join(map(str, key)))


def over_time(title: str, description: str, what: str, rows: Rows, order: Sequence[str]) -> Picture:
    """Plot noisy counts over steps or periods, one line per key, with a point wherever the key is published."""
    alt = require_plots()
    names = sorted({row["key"] for row in rows})
    colour = alt.Color("key:N", sort=names, scale=alt.Scale(range=list(COLOURS)), legend=alt.Legend(labelLimit=220))
    scale = alt.Scale(domain=list(order))
    chart = (
        alt.Chart(alt.InlineData(values=list(rows)))
        .mark_line(point=True)
        .encode(
            x=alt.X("when:O", title=what, sort=list(order), axis=alt.Axis(labelOverlap=True), scale=scale),
            y=alt.Y("noisy_count:Q", title="noisy count (units)"),
            color=colour,
        )
        .properties(
            width=420, height=220, background="#ffffff", padding={"left": 5, "top": 5, "right": 30, "bottom": 5}
        )
    )
    svg = StringIO()
    chart.save(svg, format="svg")
    address = base64.b64encode(svg.getvalue().encode()).decode()
    return Picture(title, description, f"data:image/svg+xml;base64,{address}")
