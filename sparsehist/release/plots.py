"""Colours and labels of charts by Altair; needs the extra `plots` (altair and vl-convert)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparsehist.errors import needing, printable

COLOURS = ("#b2182b", "#ef8a62", "#2166ac", "#1a9850", "#762a83", "#404040")


def require_plots() -> Any:
    """Import altair, and check that vl-convert, which renders its charts, is installed."""
    with needing("a plot", "'sparsehist[plots]'"):
        import altair as alt
        import vl_convert  # noqa: F401 - altair needs it to draw pictures
    return alt


def key_label(key: Sequence[Any]) -> str:
    """Return a key as text for a chart, escaped: Altair may write it into a script, which it must not end."""
    text = printable(" · ".join("all" if part is None else str(part) for part in key))
    return text.replace("<", "\N{FULLWIDTH LESS-THAN SIGN}")
