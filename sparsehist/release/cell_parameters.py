"""Choose the public parameters of a release of counts and of sums of measures, before noise is drawn."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sparsehist.declaration import Declaration
from sparsehist.declaration.checks import checked_name
from sparsehist.declaration.measures import EVENTS, MEAN_COLUMN, Measure
from sparsehist.domain import Open
from sparsehist.errors import BudgetExceededError, DeclarationError, ThresholdError, of_kind, present, shown
from sparsehist.histogram import (
    count_near,
    draws_all_empty,
    effective_threshold,
    expected_false_keys,
    largest_tail,
    numerical_slack,
    threshold_for_false_keys,
)
from sparsehist.histogram.grid import published_step
from sparsehist.histogram.open_domain import OpenBudget, Point
from sparsehist.ledger.spent import PathName, measure_path
from sparsehist.noise import Family, Gaussian
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.release.metadata import CellMetadata, Request, check_std
from sparsehist.store import Past
from sparsehist.typing import FloatArray

if TYPE_CHECKING:
    import polars as pl

_LARGEST_THRESHOLD = 2.0**48
# A release can draw noise for at most 2**31 cells with the same count. All false keys have the count 0, so their
# expected number may be at most half of this limit. The other half is left for empty cells that get noise but are
# not published.
_MOST_FALSE_KEYS = 2.0**30

LAZILY = "draws are within numerical_slack of their distribution in total variation"
DEFAULT_FALSE_KEYS = 0.01
"""Default number of expected false keys. The threshold is higher than for one expected false key: by 1.5 % in a
domain of strings of 32 bytes, and by 47 % in a domain of 294 keys."""
# If counts and standard deviations are within these limits, noisy counts on the grid fit in the 53-bit significand
# of a double. Otherwise, they would be rounded twice, and the second rounding would depend on true counts.
LARGEST_COUNT = 2**34
_LEAST_STD, _LARGEST_STD = 2.0**-8, 2.0**32
_LEAST_SUM_STD, _LARGEST_SUM_STD = 2.0**-2, 2.0**46
"""Limits on the standard deviation of a noisy sum, in steps of the measure, so that sums on the grid fit a double."""
_BITS_BELOW_STD = 4

_Past = Sequence[tuple[Point, Family, float]]


@dataclass(frozen=True)
class MeasureSums:
    """Public parameters of the noisy sums of one measure (for example, of a price) in a release."""

    measure: Measure
    family: Family  # noise family of a sum that is counted in multiples of `measure.step`
    level: Fraction  # level of the sums; each measure has its own noise path

    def __post_init__(self) -> None:
        where = f" for the measure {self.measure.name!r}"
        check_std(self.family.std(self.level), _LEAST_SUM_STD, _LARGEST_SUM_STD, "steps", where)

    @property
    def std(self) -> float:
        """Standard deviation of the noise of a sum, on the scale of the measure's column."""
        return self.family.std(self.level) * float(self.measure.step)

    @property
    def grid(self) -> float:
        """Spacing of published sums, in multiples of `measure.step`: 1 for integer noise, else about std/16."""
        if self.family.integer:
            return 1.0
        return math.ldexp(1.0, math.frexp(self.family.std(self.level))[1] - 1 - _BITS_BELOW_STD)

    def within(self, alpha: float) -> float:
        """Return a bound on a sum's error, on the scale of the column. It fails with probability at most `alpha`."""
        grid = 0.0 if self.family.integer else self.grid / 2
        distance = float(self.family.inverse_log_tail(math.log(alpha / 2), self.level)) + grid
        return distance * float(self.measure.step)

    @property
    def variance(self) -> float:
        """Variance of a published sum due to noise and rounding; sums are on the scale of the measure's column."""
        return self.std**2 + (self.grid * float(self.measure.step)) ** 2 / 12

    @property
    def statement(self) -> str:
        """The guarantee of the measure's sums, in words. It is appended to the guarantee of the counts."""
        return f"; {self.measure.sum_column}, with independent noise, adds {self.family.statement(self.level)}"


def levels_by_name(measures: Sequence[Measure], level: Level | Mapping[str, Level]) -> dict[str, Level]:
    """Return a dict from the name of each requested measure to its level.

    `level` is one level for all measures, a mapping from name to level, or text such as `price=0.5, events=1/3`.
    """
    names = [measure.name for measure in measures]
    pairs: list[tuple[str, Level]] = []
    if isinstance(level, Mapping):
        pairs = list(level.items())
    elif isinstance(level, str) and "=" in level:
        parts = [part.partition("=") for part in level.split(",")]
        pairs = [(name.strip(), text.strip()) for name, _, text in parts]
    else:
        pairs = [(name, level) for name in names]
    levels = dict(pairs)
    if not levels or len(levels) < len(pairs) or not levels.keys() <= set(names):
        raise DeclarationError(
            f"measures= must be one level for all, or a mapping from measure to level; measures of the series: "
            f"{', '.join(names) or 'none'}; got {shown(level)}",
            parameter="measures",
        )
    return levels


def measure_sums(declaration: Declaration, level: Level | Mapping[str, Level] | None) -> tuple[MeasureSums, ...]:
    """Return the `MeasureSums` of all requested measures. `level` is their level, or maps each of them to a level."""
    levels = {} if level is None else levels_by_name(declaration.measures, level)
    return tuple(
        MeasureSums(each, each.noise(declaration.family), as_level(levels[each.name], f"the level of {each.name}"))
        for each in declaration.measures
        if each.name in levels
    )


@dataclass(frozen=True)
class CellRequest(Request):
    """The parameters of a release of cells, as the caller gave them."""

    kind: ClassVar[str] = "cells"

    threshold: float | None = None
    false_keys: float | None = None
    open_delta: float | None = None
    max_false_keys: float = 1e7
    measures: tuple[MeasureSums, ...] = ()

    @property
    def beside(self) -> tuple[tuple[PathName, Fraction], ...]:
        return tuple((measure_path(sums.measure.name), sums.level) for sums in self.measures)

    @property
    def measure_levels(self) -> dict[str, str] | None:
        """Level of each requested measure, as text; None if no measures are requested."""
        return {sums.measure.name: level_text(sums.level) for sums in self.measures} or None

    def as_json(self) -> dict[str, Any]:
        choices = {name: getattr(self, name) for name in ("threshold", "false_keys", "open_delta")}
        return super().as_json() | choices | {"measures": self.measure_levels}


def requested(
    name: str,
    levels: Mapping[str, Any] | None = None,
    *,
    threshold: float | None = None,
    false_keys: float | None = None,
    open_delta: float | None = None,
    max_false_keys: float = 1e7,
) -> CellRequest:
    """Return a checked request for a release of cells. `levels` is the result of `level_fields`."""
    if sum(value is not None for value in (threshold, false_keys, open_delta)) > 1:
        raise DeclarationError(
            "give only one of threshold=, false_keys= (for closed domains) and open_delta= (for open domains)",
            parameter="threshold" if open_delta is None else "open_delta",
        )
    return CellRequest(
        checked_name("release", name),
        **levels or {},
        threshold=_within("threshold", threshold, -_LARGEST_THRESHOLD, _LARGEST_THRESHOLD),
        false_keys=_within("false_keys", false_keys, 0, sys.float_info.max),
        open_delta=_within("open_delta", open_delta, 0, math.nextafter(1, 0), DeclarationError),
        max_false_keys=present(_within("max_false_keys", max_false_keys, 0, _MOST_FALSE_KEYS)),
    )


def _within(
    what: str, value: float | None, low: float, high: float, kind: type[DeclarationError] = ThresholdError
) -> float | None:
    """Return `value` as a float, or None if `value` is None. Raise an error unless `low` < `value` <= `high`."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real) or not low < value <= high:
        raise kind(f"{what} must be a number above {low:.3g}, at most {high:.3g}; got {shown(value)}", parameter=what)
    return float(value)


def cell_metadata(declaration: Declaration, request: CellRequest, past: Past) -> CellMetadata:
    """Choose the threshold of a release of cells, and return its metadata.

    For each level released before, `past` contains the level and the lowest threshold of the releases at this level.
    All thresholds are compared with noisy counts that are not rounded yet.
    """
    family, level = declaration.family_in_units, present(request.level)

    def still_lazy(effective: float) -> float | None:
        return largest_tail(family, past) if draws_all_empty(family, [*past, (level, effective)]) else None

    spent = [((0, as_level(past_level)), family, bound) for past_level, bound in past]
    metadata = parameters_at((0, level), family, declaration, request, spent, still_lazy)
    for sums in request.measures:
        std = sums.family.std(sums.level)
        metadata["numerical_slack"] += numerical_slack(declaration.most_touched, std, sums.grid)
    shares, stds = declaration.shares, {sums.measure.name: sums.std for sums in request.measures}
    counts = None if shares is None else f"weighted counts: {shares.describe()}"
    return CellMetadata(**metadata, measure_levels=request.measure_levels, measure_stds=stds or None, counts=counts)


def parameters_at(
    point: Point,
    family: Family,
    declaration: Declaration,
    request: CellRequest,
    past: _Past,
    still_lazy: Callable[[float], float | None],
) -> dict[str, Any]:
    """Choose the threshold, and return the metadata fields that releases of cells and of running counts share.

    `point` is the step (0 for cells) and the level of the release. For each earlier release point, `past` contains
    the point, its noise family, and the lowest threshold of its releases. Noise families are in parts of a count.

    `still_lazy(threshold)` returns None if the noise of empty cells can be drawn lazily at this threshold. Otherwise,
    it returns the largest P[noise > threshold] at which lazy drawing is possible.
    """
    (_, level), unit, std = point, declaration.unit_of_counts, family.std(point[1])
    check_std(std, _LEAST_STD, _LARGEST_STD, "counts")
    if declaration.domain.is_open:
        chosen = _open_threshold(point, family, declaration, request, past)
    else:
        chosen = _closed_threshold(family, declaration, request, still_lazy)
    grid = published_step(family, level)
    near = count_near((past_level for (_, past_level), *_ in past), level)
    return chosen | {
        "name": request.name,
        "declaration": declaration,
        "effective_threshold": chosen["effective_threshold"] / unit,
        "level": level_text(level),
        "std": std / unit,
        "noise_mean": family.mean(level) / unit,
        "grid": grid / unit,
        "numerical_slack": numerical_slack(declaration.most_touched, std, grid, near=near),
    }


def _closed_threshold(
    family: Family, declaration: Declaration, request: CellRequest, still_lazy: Callable[[float], float | None]
) -> dict[str, Any]:
    size, unit, level = declaration.domain.size, declaration.unit_of_counts, present(request.level)
    if request.open_delta is not None:
        raise DeclarationError(
            "open_delta= is for open domains only: give false_keys= or threshold= instead; got "
            f"open_delta={request.open_delta!r} for {declaration.domain.describe()}"
        )

    def enough(false_keys: float) -> float:
        return threshold_for_false_keys(family, level, size, false_keys) / unit

    false_keys, threshold = request.false_keys, request.threshold
    if threshold is None:
        false_keys = DEFAULT_FALSE_KEYS if false_keys is None else false_keys
        threshold = enough(false_keys)
    effective = effective_threshold(threshold * unit, published_step(family, level))
    expected = expected_false_keys(family, level, effective, size)
    limit, problem = request.max_false_keys, ""
    if expected > request.max_false_keys:
        problem = f"publish about {expected:.3g}"
    elif size > limit and (share := still_lazy(effective)) is not None:
        # Compute with exact fractions, because the size of a domain may exceed the largest float.
        problem, limit = "have to draw all", float(min(Fraction(share) * size, Fraction(sys.float_info.max)))
    if problem:
        raise ThresholdError(
            f"threshold {threshold!r} would {problem} of the domain's {Decimal(size):.3g} empty cells, above "
            f"max_false_keys={request.max_false_keys:.3g}; a threshold of {enough(limit)!r} would do"
        )
    return {
        "threshold": threshold,
        "effective_threshold": effective,
        "false_keys": false_keys,
        "expected_false_keys": expected,
    }


def _open_threshold(
    point: Point, family: Family, declaration: Declaration, request: CellRequest, past: _Past
) -> dict[str, Any]:
    if request.false_keys is not None:
        raise DeclarationError(
            "an open domain has no false keys, because keys without units are never published: give open_delta=, "
            f"threshold= or neither; got false_keys={request.false_keys!r} for {declaration.domain.describe()}"
        )
    before = OpenBudget(of_kind(declaration.domain, Open).delta, declaration.touched)
    for release in past:
        before = before.after(*release)
    unit, left, share, threshold = declaration.unit_of_counts, before.remaining, request.open_delta, request.threshold
    if threshold is None:
        if share is None:
            share = min(left, left if request.open_room is None else request.open_room) / 2
            if not share > 0:
                raise BudgetExceededError(
                    "the population's budget has no delta left for open domains: set a budget that reserves more "
                    "delta for them. Nothing was spent"
                )
        if share > left:
            raise _refusal(share, before, "open_delta= must not exceed the remaining delta")
        threshold = before.lowest_threshold(point, family, share) / unit
    effective = effective_threshold(threshold * unit, published_step(family, point[1]))
    after = before.after(point, family, effective)
    if after.delta_infinity > before.delta:
        enough = f"threshold={before.lowest_threshold(point, family, left) / unit!r}" if left > 0 else "no threshold"
        raise _refusal(float(before.added(point, family, effective)), before, f"{enough} would do")
    return {
        "threshold": threshold,
        "effective_threshold": effective,
        "false_keys": None,
        "expected_false_keys": 0.0,
        "delta_share": share,
        "delta_infinity": float(after.delta_infinity),
        "delta_remaining": after.remaining,
    }


def _refusal(requested: float, budget: OpenBudget, advice: str) -> BudgetExceededError:
    return BudgetExceededError(
        f"requested delta {requested:.6g}, remaining delta {budget.remaining:.6g} of the series' "
        f"{float(budget.delta):.6g}, difference {requested - budget.remaining:.3g}; {advice}. Nothing was spent"
    )


def joint_statement(declaration: Declaration, words: str, finest: Fraction, delta: float) -> str:
    """Return the joint guarantee of all releases of a series with an open domain, in words.

    `words` is the guarantee of the noise of all releases together, as text, and `finest` is their largest level.
    `delta` bounds the probability that any of these releases publishes a key that only one unit has.
    """
    zcdp = f"{delta:.6g}-approximate {level_text(finest)}-zCDP"
    joint = zcdp if declaration.family.currency == "rho" else f"{words}, with {delta:.6g} added to its delta"
    return (
        f"this release and all earlier ones of the series together: {joint} (delta_infinity bounds the probability "
        "that a key of only one unit is ever published)"
    )


def sums_published(metadata: CellMetadata) -> tuple[MeasureSums, ...]:
    """Return the parameters of all sums of measures in a release, given the metadata of the release."""
    return measure_sums(metadata.declaration, metadata.measure_levels)


def measure_limits(frame: pl.DataFrame, metadata: CellMetadata, alpha: float) -> dict[str, FloatArray]:
    """Return confidence limits of a release's sums and means; each interval has a confidence of at least 1 - `alpha`.

    Columns have names such as price_sum_low, price_sum_high, price_mean_low and price_mean_high; shape (rows,) each.
    Limits of means are computed only for Gaussian noise, and are infinite if the noisy number of rows with the key is
    so small that the true number may be 0. If a measure cannot be negative, the limits of its sums and means are at
    least 0.
    """
    limits: dict[str, FloatArray] = {}
    laws = {sums.measure.name: sums for sums in sums_published(metadata)}
    values = {name: frame[sums.measure.sum_column].to_numpy() for name, sums in laws.items()}
    events = laws.get(EVENTS)
    for name, sums in laws.items():
        distance = sums.within(alpha)
        ends = {sums.measure.sum_column: (values[name] - distance, values[name] + distance)}
        has_mean = name != EVENTS and metadata.declaration.shares is None and isinstance(sums.family, Gaussian)
        if has_mean and events is not None:
            ends[name + MEAN_COLUMN] = _ratio_limits(values[name], sums, values[EVENTS], events, alpha)
        least = -math.inf if sums.measure.signed else 0.0
        for column, (low, high) in ends.items():
            limits |= {f"{column}_low": np.maximum(low, least), f"{column}_high": np.maximum(high, least)}
    return limits


def _ratio_limits(
    above: FloatArray, law_above: MeasureSums, below: FloatArray, law_below: MeasureSums, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Return Fieller's confidence limits for the ratios of two columns of true sums.

    `above` contains the noisy numerators, and `below` the noisy denominators; their noise is Gaussian and
    independent. The limits enclose each ratio r for which above - r * below is at most z standard deviations from 0.
    Here, z is the two-sided normal quantile for a confidence of 1 - `alpha`.
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
    """Return the means of measures: noisy sum / noisy number of rows, or NaN where that number is at most 0."""
    events = columns.get(f"{EVENTS}_sum")
    if events is None:
        return {}
    counted = np.where(events > 0, events, np.nan)
    return {
        name.removesuffix("_sum") + MEAN_COLUMN: values / counted
        for name, values in columns.items()
        if values is not events
    }
