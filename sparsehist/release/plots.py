"""Plot releases with Altair; needs the extra `plots` (altair and vl-convert)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparsehist.errors import needing, printable

COLOURS = ("#b2182b", "#ef8a62", "#2166ac", "#1a9850", "#762a83", "#404040")


def require_plots() -> Any:
    """Import altair, and check that vl-convert, which renders its charts, is installed."""
    with needing("a plot", "'sparsehist[plots]'"):
        import altair as alt
        import vl_convert  # noqa: F401 - altair needs it to draw pictures
    return alt


def largest_rows(rows: Sequence[Mapping[str, Any]], about: str) -> Any:
    """Draw key, low, value and high of each row below each other."""
    alt = require_plots()
    key = alt.Y("key:N", title=None, sort=None, axis=alt.Axis(labelLimit=260))
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(y=key, color=alt.value(COLOURS[2]))
    spans = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=about), x2="high:Q")
    dots = base.mark_point(filled=True, size=45, opacity=1).encode(x="value:Q")
    return (spans + dots).properties(width=460, height=alt.Step(18))


def key_label(key: Sequence[Any]) -> str:
    """Return a key as text for a chart, escaped: Altair may write it into a script, which it must not end."""
    text = printable(" · ".join("all" if part is None else str(part) for part in key))
    return text.replace("<", "\N{FULLWIDTH LESS-THAN SIGN}")
