"""Sums of measures in a release of cells: their levels, noise, cost and intervals, from public numbers only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sparsehist.declaration import Declaration
from sparsehist.declaration.measures import EVENTS, MEAN_COLUMN, Measure
from sparsehist.errors import DeclarationError, shown
from sparsehist.noise import Family, Gaussian
from sparsehist.privacy import Level, as_level
from sparsehist.release.metadata import CellMetadata, check_std
from sparsehist.typing import FloatArray

if TYPE_CHECKING:
    import polars as pl

_LEAST_STD, _LARGEST_STD = 2.0**-2, 2.0**46
"""In steps: between these, a sum, its noise and their grid fit a double."""
_BITS_BELOW_STD = 4


@dataclass(frozen=True)
class SumsAsked:
    """Sums of one measure, released at a level."""

    measure: Measure
    family: Family  # of the noise of a sum, in steps
    level: Fraction  # on the measure's noise path

    def __post_init__(self) -> None:
        where = f" for the measure {self.measure.name!r}"
        check_std(self.family.std(self.level), _LEAST_STD, _LARGEST_STD, "steps", where)

    @property
    def std(self) -> float:
        """Standard deviation of the noise, in units of the column."""
        return self.family.std(self.level) * float(self.measure.step)

    @property
    def grid(self) -> float:
        """The grid of published sums, in steps, near std/16. It may exceed 1: truth and noise are rounded as one."""
        if self.family.integer:
            return 1.0
        return math.ldexp(1.0, math.frexp(self.family.std(self.level))[1] - 1 - _BITS_BELOW_STD)

    def within(self, alpha: float) -> float:
        """Return a distance that noise and rounding exceed with probability at most alpha, in units of the column."""
        grid = 0.0 if self.family.integer else self.grid / 2
        distance = float(self.family.inverse_log_tail(math.log(alpha / 2), self.level)) + grid
        return distance * float(self.measure.step)

    @property
    def variance(self) -> float:
        """Variance of noise and rounding together, in squared units of the column."""
        return self.std**2 + (self.grid * float(self.measure.step)) ** 2 / 12

    @property
    def statement(self) -> str:
        """The words that the sums add to the guarantee of the counts."""
        return f"; {self.measure.sum_column}, with independent noise, adds {self.family.statement(self.level)}"


def levels_by_name(measures: Sequence[Measure], asked: Level | Mapping[str, Level]) -> dict[str, Level]:
    """Read measures=: a level for all measures, or a level by name, also as text: price=0.5, events=1/3."""
    names = [measure.name for measure in measures]
    pairs: list[tuple[str, Level]] = [(name, asked) for name in names if not isinstance(asked, Mapping)]
    if isinstance(asked, Mapping):
        pairs = list(asked.items())
    elif isinstance(asked, str) and "=" in asked:
        parts = [part.partition("=") for part in asked.split(",")]
        pairs = [(name.strip(), level.strip()) for name, _, level in parts]
    levels = dict(pairs)
    if not levels or len(levels) < len(pairs) or not levels.keys() <= set(names):
        raise DeclarationError(
            f"measures= gives one level for each measure of the series, or one for all; measures of the series: "
            f"{', '.join(names) or 'none'}; got {shown(asked)}",
            parameter="measures",
        )
    return levels


def sums_asked(declaration: Declaration, asked: Level | Mapping[str, Level] | None) -> tuple[SumsAsked, ...]:
    """Return the sums of the measures of a series at the levels that measures= names."""
    levels = {} if asked is None else levels_by_name(declaration.measures, asked)
    return tuple(
        SumsAsked(each, each.noise(declaration.family), as_level(levels[each.name], f"the level of {each.name}"))
        for each in declaration.measures
        if each.name in levels
    )


def sums_published(about: CellMetadata) -> tuple[SumsAsked, ...]:
    """Return the sums of a release, read from its metadata."""
    return sums_asked(about.declaration, about.measure_levels)


def measure_limits(frame: pl.DataFrame, about: CellMetadata, alpha: float) -> dict[str, FloatArray]:
    """Return confidence limits of the sums and means of a release, each wrong with probability at most alpha.

    Columns price_sum_low, price_sum_high, price_mean_low, price_mean_high and so on; shape (rows,) each. Means have
    limits with Gaussian noise only. If the denominator may be 0, they are infinite, or 0 where the measure cannot be
    negative.
    """
    limits: dict[str, FloatArray] = {}
    laws = {sums.measure.name: sums for sums in sums_published(about)}
    values = {name: frame[sums.measure.sum_column].to_numpy() for name, sums in laws.items()}
    events = laws.get(EVENTS)
    for name, sums in laws.items():
        distance = sums.within(alpha)
        ends = {sums.measure.sum_column: (values[name] - distance, values[name] + distance)}
        has_mean = name != EVENTS and about.declaration.shares is None and isinstance(sums.family, Gaussian)
        if has_mean and events is not None:
            ends[name + MEAN_COLUMN] = _ratio_limits(values[name], sums, values[EVENTS], events, alpha)
        least = -math.inf if sums.measure.signed else 0.0
        for column, (low, high) in ends.items():
            limits |= {f"{column}_low": np.maximum(low, least), f"{column}_high": np.maximum(high, least)}
    return limits


def _ratio_limits(
    above: FloatArray, law_above: SumsAsked, below: FloatArray, law_below: SumsAsked, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Return Fieller's limits of a ratio of two true sums with independent Gaussian noise.

    They enclose all ratios r for which (above - r below)² is at most z² times its variance.
    """
    z = float(Gaussian(1.0).inverse_log_tail(math.log(alpha / 2), 0.5))
    square = below**2 - z**2 * law_below.variance
    product, rest = above * below, above**2 - z**2 * law_above.variance
    root = np.sqrt(np.maximum(product**2 - square * rest, 0.0))
    low, high = (
        np.divide(product + sign * root, square, out=np.full(above.size, sign * np.inf), where=square > 0)
        for sign in (-1.0, 1.0)
    )
    return low, high


def means(columns: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Return means per event, if sums of events are there; NaN where the noisy events are not above 0."""
    events = columns.get(f"{EVENTS}_sum")
    if events is None:
        return {}
    counted = np.where(events > 0, events, np.nan)
    return {
        name.removesuffix("_sum") + MEAN_COLUMN: values / counted
        for name, values in columns.items()
        if values is not events
    }
