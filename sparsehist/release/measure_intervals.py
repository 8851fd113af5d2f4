"""Intervals of published sums and means: from the rows and public parameters of a release alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl

from sparsehist.declaration.measures import EVENTS, MEAN_COLUMN, Measure
from sparsehist.noise import Gaussian
from sparsehist.noise.family import Family
from sparsehist.privacy import as_level
from sparsehist.release.measure_round import sum_grid
from sparsehist.release.metadata import CellMetadata
from sparsehist.typing import FloatArray


class _Sum(NamedTuple):
    """A published sum: its values, and how far they are from the truth, all in units of its column."""

    values: FloatArray
    family: Family
    level: str
    measure: Measure

    def within(self, alpha: float) -> float:
        """A distance that its noise and rounding pass with probability alpha at most."""
        grid = 0.0 if self.family.integer else sum_grid(self.family, as_level(self.level)) / 2
        distance = float(self.family.inverse_log_tail(math.log(alpha / 2), as_level(self.level))) + grid
        return distance * float(self.measure.step)

    @property
    def variance(self) -> float:
        """Of noise and rounding together."""
        grid = sum_grid(self.family, as_level(self.level))
        return (self.family.std(self.level) ** 2 + grid**2 / 12) * float(self.measure.step) ** 2


def measure_limits(frame: pl.DataFrame, about: CellMetadata, alpha: float) -> dict[str, FloatArray]:
    """Limits of the sums and means of a release, each of which misses the truth with probability alpha at most.

    Args:
        frame: The published rows.
        about: Their metadata.
        alpha: Above 0, below 1.

    Returns:
        Columns price_sum_low, price_sum_high, price_mean_low, price_mean_high and so on; shape (rows,) each. A mean
        whose denominator may be 0 has no limits but those of its measure's sign.
    """
    found: dict[str, FloatArray] = {}
    sums = {one.measure.name: one for one in _sums(frame, about)}
    for name, one in sums.items():
        least, distance = (-math.inf if one.measure.signed else 0.0), one.within(alpha)
        found[f"{name}_sum_low"] = np.maximum(one.values - distance, least)
        found[f"{name}_sum_high"] = np.maximum(one.values + distance, least)
    events = sums.pop(EVENTS, None)
    for name, one in sums.items() if events is not None else ():
        low, high = _ratio_limits(one, events, alpha)  # type: ignore[arg-type]
        least = -math.inf if one.measure.signed else 0.0
        found[f"{name}{MEAN_COLUMN}_low"] = np.maximum(low, least)
        found[f"{name}{MEAN_COLUMN}_high"] = np.maximum(high, least)
    return found


def _sums(frame: pl.DataFrame, about: CellMetadata) -> list[_Sum]:
    found = []
    for text, level in zip(about.measures or (), about.measure_levels or (), strict=True):
        measure = Measure.parse(text)
        family = replace(about.family, sensitivity=about.family.sensitivity * measure.most_steps)  # type: ignore[type-var, attr-defined]
        found.append(_Sum(frame[measure.sum_column].to_numpy(), family, level, measure))
    return found


def _ratio_limits(above: _Sum, below: _Sum, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Limits of a ratio of two true sums with independent noise.

    For Gaussian noise those of Fieller: all ratios r with (above - r below)² at most z² times its variance. Else
    the ratios of a box that holds both sums.
    """
    unbounded = np.full(above.values.size, np.inf)
    if isinstance(above.family, Gaussian):
        z = float(Gaussian(1.0).inverse_log_tail(math.log(alpha / 2), 0.5))
        square = below.values**2 - z**2 * below.variance
        product = above.values * below.values
        rest = above.values**2 - z**2 * above.variance
        bounded = square > 0
        root = np.sqrt(np.maximum(product**2 - square * rest, 0.0))
        low, high = (
            np.divide(product + sign * root, square, out=sign * unbounded, where=bounded) for sign in (-1.0, 1.0)
        )
        return low, high
    far, near = above.within(alpha / 2), below.within(alpha / 2)
    least, most = below.values - near, below.values + near
    bounded = least > 0
    corners = [
        np.divide(above.values + sign * far, by, out=sign * unbounded, where=bounded)
        for sign in (-1.0, 1.0)
        for by in (least, most)
    ]
    return np.minimum.reduce(corners), np.maximum.reduce(corners)


def means(columns: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Columns of means over events, where sums of them are there; NaN where there are no events above 0."""
    events = columns.get(f"{EVENTS}_sum")
    if events is None:
        return {}
    return {
        name.removesuffix("_sum") + MEAN_COLUMN: np.divide(
            values, events, out=np.full(events.size, np.nan), where=events > 0
        )
        for name, values in columns.items()
        if values is not events
    }
