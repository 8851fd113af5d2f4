"""Small charts as numbers for a template: where lines, dots and ticks go; the template writes and escapes text."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple
from unicodedata import east_asian_width

from sparsehist.errors import printable

WIDTH = 340.0
"""Of a chart, in units of its text: as wide as a small screen, so that text is legible there and larger elsewhere."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 10.0, 10.0, 40.0
_LEFT_OF_LABELS = 118.0
# Widths of letters at the size of a chart's text, rounded up: wide scripts, wide Latin letters, capitals, the rest.
_WIDE, _BROAD, _CAPITAL, _PLAIN = 10.5, 9.0, 7.6, 6.2
MOST_LINES = 6
"""Of a chart: so many can be told apart by colour and dash."""


class Tick(NamedTuple):
    """A mark on an axis: where, and what it says."""

    at: float
    text: str


class Line(NamedTuple):
    """One line of a chart: its number (for colour and dash) and its corners."""

    number: int
    points: tuple[tuple[float, float], ...]

    @property
    def path(self) -> str:
        """As SVG has it."""
        return "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in self.points)


class Span(NamedTuple):
    """A value with its interval, or a bar that begins at its low end."""

    number: int
    low: float
    at: float
    high: float
    y: float


class Row(NamedTuple):
    """A key or path of a chart: its label and its spans."""

    label: str
    y: float
    spans: list[Span]


@dataclass(frozen=True)
class Chart:
    """All that a template needs: a title, what those hear who cannot see it, and where everything stands."""

    title: str
    about: str
    x_title: str
    height: float
    x_ticks: list[Tick]
    names: Sequence[str]
    y_title: str = ""
    left: float = _LEFT
    y_ticks: Sequence[Tick] = ()
    lines: Sequence[Line] = ()
    rows: Sequence[Row] = ()

    width: float = WIDTH
    right: float = WIDTH - _RIGHT
    top: float = _TOP

    @property
    def bottom(self) -> float:
        """Where the horizontal axis is."""
        return self.height - _BOTTOM


def line_chart(
    title: str,
    about: str,
    x_title: str,
    y_title: str,
    lines: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    *,
    log_y: bool,
) -> Chart | None:
    """Lines, each a name and its (x, y), over a logarithmic axis; None where there is nothing to draw.

    The vertical axis is logarithmic too, or goes from 0 to 1.
    """
    shown = [
        (name, [(x, y) for x, y in points if x > 0 and math.isfinite(y) and (y > 0 or not log_y)])
        for name, points in lines[:MOST_LINES]
    ]
    shown = [(name, points) for name, points in shown if len(points) > 1]
    if not shown:
        return None
    height = 220.0
    xs, ys = zip(*(corner for _, points in shown for corner in points), strict=True)
    across = _Axis.logarithmic(min(xs), max(xs), _LEFT, WIDTH - _RIGHT)
    low, high = height - _BOTTOM, _TOP
    upwards = _Axis.logarithmic(min(ys), max(ys), low, high) if log_y else _Axis(0.0, 1.0, low, high)
    drawn = [
        Line(number, tuple((across.at(x), upwards.at(y)) for x, y in points))
        for number, (_, points) in enumerate(shown)
    ]
    names, y_ticks = [name for name, _ in shown], upwards.ticks()
    return Chart(title, about, x_title, height, across.ticks(), names, y_title, y_ticks=y_ticks, lines=drawn)


def interval_chart(
    title: str,
    about: str,
    x_title: str,
    names: Sequence[str],
    rows: Sequence[tuple[str, Sequence[tuple[float, float, float] | None]]],
) -> Chart | None:
    """A row for each label, with (low, value, high) or None for each name; None where there is nothing to draw."""
    spans = [span for _, each in rows for span in each if span is not None]
    if not spans:
        return None
    step = 8.0 + 7.0 * min(len(names), MOST_LINES) if names else 20.0
    ends = [end for span in spans for end in span]
    across = _Axis.plain(min(0.0, *ends), max(ends), _LEFT_OF_LABELS, WIDTH - _RIGHT)
    drawn = []
    for i, (label, each) in enumerate(rows):
        middle = _TOP + step * (i + 0.5)
        first = middle - 7.0 * (min(len(each), MOST_LINES) - 1) / 2
        found = [
            Span(number, across.at(span[0]), across.at(span[1]), across.at(span[2]), first + 7.0 * number)
            for number, span in enumerate(each[:MOST_LINES])
            if span is not None
        ]
        drawn.append(Row(shortened(printable(label)), middle, found))
    height = _TOP + step * len(rows) + _BOTTOM
    return Chart(
        title, about, x_title, height, across.ticks(), names[:MOST_LINES], left=_LEFT_OF_LABELS, rows=drawn
    )  # fmt: skip


def bar_chart(title: str, about: str, x_title: str, bars: Sequence[tuple[str, float]]) -> Chart | None:
    """A bar for each name; None where all are 0."""
    rows = [(name, [(0.0, value, value)]) for name, value in bars]
    return interval_chart(title, about, x_title, (), rows) if any(value > 0 for _, value in bars) else None


def shortened(text: str) -> str:
    """A label that fits beside a chart; the table has all of it.

    Example:
        >>> shortened("a" * 40), shortened("W" * 40)
        ('aaaaaaaaaaaaaaaa…', 'WWWWWWWWWWW…')
    """
    ends = list(accumulate(map(_width, text)))
    room = _LEFT_OF_LABELS - 8.0
    if not ends or ends[-1] <= room:
        return text
    return text[: bisect_right(ends, room - _WIDE)] + "…"


def _width(letter: str) -> float:
    if east_asian_width(letter) in "WF":
        return _WIDE
    if letter in "mwMW@%&—…_":
        return _BROAD
    return _CAPITAL if letter.isupper() or not letter.isascii() else _PLAIN


@dataclass(frozen=True)
class _Axis:
    """From values to places."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @classmethod
    def logarithmic(cls, low: float, high: float, start: float, end: float) -> _Axis:
        low, high = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
        return cls(low, max(high, low + 1), start, end, log=True)

    @classmethod
    def plain(cls, low: float, high: float, start: float, end: float) -> _Axis:
        return cls(low, high if high > low else low + 1.0, start, end)

    def at(self, value: float) -> float:
        place = math.log10(value) if self.log else value
        return self.start + (self.end - self.start) * (place - self.low) / (self.high - self.low)

    def ticks(self) -> list[Tick]:
        if self.log:
            whole = range(int(self.low), int(self.high) + 1, 1 + int(self.high - self.low) // 5)
            return [Tick(self.at(10.0**power), _short(10.0**power)) for power in whole]
        span = self.high - self.low
        step = 10.0 ** math.floor(math.log10(span / 2))
        step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 4)
        whole = range(math.ceil(self.low / step), math.floor(self.high / step + 1e-9) + 1)
        return [Tick(self.at(i * step), _short(i * step)) for i in whole]


def _short(value: float) -> str:
    for power, letter in ((9, "G"), (6, "M"), (3, "k")):
        if abs(value) >= 10**power:
            return f"{value / 10**power:.4g}{letter}"
    return f"{value:.4g}"
