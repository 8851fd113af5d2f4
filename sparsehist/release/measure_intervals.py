"""Intervals of published sums and means: from the rows and public parameters of a release alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from sparsehist.declaration.measures import EVENTS, MEAN_COLUMN
from sparsehist.noise import Gaussian
from sparsehist.release.measure_parameters import SumsAsked, sums_published
from sparsehist.release.metadata import CellMetadata
from sparsehist.typing import FloatArray


class _Sum(NamedTuple):
    """A published sum and its law; all in units of its column."""

    values: FloatArray
    law: SumsAsked

    @property
    def least(self) -> float:
        return -math.inf if self.law.measure.signed else 0.0

    def within(self, alpha: float) -> float:
        """A distance that noise and rounding exceed with probability at most alpha."""
        grid = 0.0 if self.law.family.integer else self.law.grid / 2
        distance = float(self.law.family.inverse_log_tail(math.log(alpha / 2), self.law.level)) + grid
        return distance * float(self.law.measure.step)

    @property
    def variance(self) -> float:
        """Variance of noise and rounding together."""
        return self.law.std**2 + (self.law.grid * float(self.law.measure.step)) ** 2 / 12


def measure_limits(frame: pl.DataFrame, about: CellMetadata, alpha: float) -> dict[str, FloatArray]:
    """Limits of the sums and means of a release, each of which misses the truth with probability alpha at most.

    Columns price_sum_low, price_sum_high, price_mean_low, price_mean_high and so on; shape (rows,) each. A mean whose
    denominator may be 0 has no limits but those of its measure's sign.
    """
    found: dict[str, FloatArray] = {}

    def keep(name: str, one: _Sum, low: FloatArray, high: FloatArray) -> None:
        found[f"{name}_low"], found[f"{name}_high"] = np.maximum(low, one.least), np.maximum(high, one.least)

    sums = {law.measure.name: _Sum(frame[law.measure.sum_column].to_numpy(), law) for law in sums_published(about)}
    for name, one in sums.items():
        distance = one.within(alpha)
        keep(f"{name}_sum", one, one.values - distance, one.values + distance)
    events = sums.pop(EVENTS, None)
    if events is not None and about.declaration.shares is None:
        for name, one in sums.items():
            keep(name + MEAN_COLUMN, one, *_ratio_limits(one, events, alpha))
    return found


def _ratio_limits(above: _Sum, below: _Sum, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Limits of a ratio of two true sums with independent noise.

    For Gaussian noise those of Fieller: all ratios r with (above - r below)² at most z² times its variance. Else
    the ratios of a box that holds both sums.
    """
    unbounded = np.full(above.values.size, np.inf)
    if isinstance(above.law.family, Gaussian):
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
