"""Tables and figures in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Result = Mapping[str, Any]


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the first column to the left, the others to the right."""
    lines = [heading, ["---", *["---:"] * (len(heading) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def milliseconds(found: Result) -> str:
    """Median and quartiles, from seconds."""
    return f"{1e3 * found['median']:.1f} ({1e3 * found['lower']:.1f}–{1e3 * found['upper']:.1f})"


def figure(found: Result) -> str:
    """Median and quartiles of a ratio."""
    if found["median"] >= 100:
        return f"{found['median']:,.0f} ({found['lower']:,.0f}–{found['upper']:,.0f})"
    return f"{found['median']:.3f} ({found['lower']:.3f}–{found['upper']:.3f})"


def short(value: float) -> str:
    """A number to three figures, thousands set apart."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
