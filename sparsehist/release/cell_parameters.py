"""The public parameters of a release of cells, fixed before anything is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Self

from sparsehist.declaration import Declaration
from sparsehist.declaration.checks import checked_name
from sparsehist.domain import Domain, Open
from sparsehist.errors import BudgetExceededError, DeclarationError, LevelError, ThresholdError, present, shown
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
from sparsehist.noise.family import Family
from sparsehist.privacy import as_level, level_text
from sparsehist.release.measure_parameters import SumsAsked, measure_metadata, measure_slack
from sparsehist.release.metadata import CellMetadata, Request
from sparsehist.store import Past

_LARGEST_THRESHOLD = 2.0**48
_LARGEST_FLOAT = 10**300  # domains go beyond
# Half of what a round can draw at all, so that no refusal ever depends on the counts.
_MOST_FALSE_KEYS = 2.0**30

LAZILY = "draws are within numerical_slack of their law in total variation"
DEFAULT_FALSE_KEYS = 0.01
"""Raises the threshold by 1.5 % for all strings of 32 bytes, by 47 % for a catalogue of 294, and leaves no junk."""
# Within these a count and its noise on the grid fit into the 53 bits of a double. Beyond them, rounding their sum
# would tell counts apart.
LARGEST_COUNT = 2**34
_LEAST_STD, _LARGEST_STD = 2.0**-8, 2.0**32


@dataclass(frozen=True)
class CellRequest(Request):
    """What a caller asked of a release of cells.

    `open_room` is what limits, beside the series' own, leave of delta for open domains; None where there are none.
    """

    kind: ClassVar[str] = "cells"
    needs: ClassVar[str] = "level="

    threshold: float | None = None
    false_keys: float | None = None
    open_delta: float | None = None
    max_false_keys: float = 1e7
    open_room: float | None = None
    measures: tuple[SumsAsked, ...] = ()

    @property
    def beside(self) -> tuple[tuple[PathName, Fraction], ...]:
        return tuple((measure_path(sums.measure.name), sums.level) for sums in self.measures)

    def at(self, level: Fraction | None, open_room: float | None) -> Self:
        return replace(self, level=level, open_room=open_room)

    def as_json(self) -> dict[str, Any]:
        asked = {"threshold": self.threshold, "false_keys": self.false_keys, "open_delta": self.open_delta}
        levels = {sums.measure.name: level_text(sums.level) for sums in self.measures} or None
        return super().as_json() | asked | {"measures": levels}

    def chosen(self, metadata: CellMetadata) -> dict[str, Any]:
        """The request as it is stored, with the values chosen in the metadata."""
        chosen = replace(
            self, threshold=metadata.threshold, false_keys=metadata.false_keys, open_delta=metadata.delta_share
        )
        return chosen.as_json()


def requested(
    name: str,
    levels: Mapping[str, Any] | None = None,
    *,
    threshold: float | None = None,
    false_keys: float | None = None,
    open_delta: float | None = None,
    max_false_keys: float = 1e7,
) -> CellRequest:
    """Check what can be checked without a store; `levels` is what `level_asked` gives."""
    if threshold is not None and false_keys is not None:
        raise DeclarationError("give threshold= or false_keys=, not both", parameter="threshold")
    if open_delta is not None and not (threshold is None and false_keys is None):
        raise DeclarationError(
            "give open_delta= or threshold=, not both; false keys are for declared domains", parameter="open_delta"
        )
    return CellRequest(
        checked_name("release", name),
        **levels or {},
        threshold=_within("threshold", threshold, -_LARGEST_THRESHOLD, _LARGEST_THRESHOLD),
        false_keys=_within("false_keys", false_keys, 0, math.inf),
        open_delta=_within("open_delta", open_delta, 0, math.nextafter(1, 0)),
        max_false_keys=present(_within("max_false_keys", max_false_keys, 0, _MOST_FALSE_KEYS)),
    )


def _within(what: str, value: float | None, low: float, high: float) -> float | None:
    """Return a number above `low` and at most `high`, or None for None."""
    if value is None:
        return None
    try:
        number = math.nan if isinstance(value, bool | str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise DeclarationError(f"{what} must be a finite number, got {shown(value)}", parameter=what)
    if not low < number <= high:
        bounds = f"lie between {low:.3g} and {high:.3g}" if high < math.inf else f"be above {low:g}"
        kind = DeclarationError if what == "open_delta" else ThresholdError
        raise kind(f"{what} must {bounds}, got {shown(value)}", parameter=what)
    return number


def cell_metadata(declaration: Declaration, request: CellRequest, past: Past) -> CellMetadata:
    """Choose the threshold, and return the metadata of a release.

    `past` has the lowest effective threshold of each level spent.
    """
    family, level = declaration.family_in_units, present(request.level)

    def still_lazy(effective: float) -> float | None:
        return largest_tail(family, past) if draws_all_empty(family, [*past, (level, effective)]) else None

    spent = [((0, as_level(known)), family, bound) for known, bound in past]
    about = parameters_at((0, level), family, declaration, request, spent, still_lazy)
    slack = about["numerical_slack"] + measure_slack(declaration.most_touched, request.measures)
    return CellMetadata(
        **about | measure_metadata(request.measures) | {"numerical_slack": slack},
        counts=None if declaration.shares is None else f"weighted counts: {declaration.shares.describe()}",
    )


def parameters_at(
    point: Point,
    family: Family,
    declaration: Declaration,
    request: CellRequest,
    past: Sequence[tuple[Point, Family, float]],
    still_lazy: Callable[[float], float | None],
) -> dict[str, Any]:
    """What the metadata of a release of cells (step 0) or of a step says, given its point and noise.

    `past` has point, noise and lowest effective threshold of each release before, `family` is in parts of a count.
    """
    (_, level), domain, unit, std = point, declaration.domain, declaration.unit_of_counts, family.std(point[1])
    check_std(declaration, std)
    if isinstance(domain, Open):
        budget = OpenBudget(domain.delta, declaration.touched)
        for before in past:
            budget = budget.after(*before)
        chosen = open_parameters(domain, request, budget, point, family, unit)
    else:
        chosen = closed_parameters(family, domain, request, still_lazy, unit)
    grid = published_step(family, level)
    near = count_near((known for (_, known), *_ in past), level)
    return chosen | {
        "name": request.name,
        "declaration": declaration,
        "level": level_text(level),
        "std": std / unit,
        "noise_mean": family.mean(level) / unit,
        "grid": grid / unit,
        "numerical_slack": numerical_slack(declaration.most_touched, std, grid, near=near),
    }


def cell_statement(declaration: Declaration, level: Fraction, metadata: CellMetadata, past: Past) -> str:
    """The guarantee of a release in words."""
    family, opens = declaration.family_in_units, declaration.domain.is_open
    # In an open domain one delta is that of all releases together, and so is the rest of the guarantee.
    stated = max([level, *(known for known, _ in past)]) if opens else level
    words = family.statement(stated)
    if opens:
        words = open_guarantee(declaration, level_text(stated), words, metadata.delta_spent)
    return f"{words}; {LAZILY}"


def check_std(declaration: Declaration, std: float) -> None:
    """Refuse a level whose noise does not share a grid with counts."""
    if not _LEAST_STD <= std <= _LARGEST_STD:
        raise LevelError(
            f"the level is too {'fine' if std < _LEAST_STD else 'coarse'} at "
            f"max_keys={declaration.max_keys}: the standard deviation of its noise is {std:.3g} counts, and counts "
            f"and noise share one grid only where that is from {_LEAST_STD:.3g} to {_LARGEST_STD:.3g}: "
            f"ask for a {'smaller' if std < _LEAST_STD else 'larger'} level"
        )


def closed_parameters(
    family: Family, domain: Domain, request: CellRequest, still_lazy: Callable[[float], float | None], unit: int = 1
) -> dict[str, Any]:
    """The threshold by the expected number of false keys; `unit` multiplies counts for the noise.

    `still_lazy` gives, for an effective threshold at which all empty cells had to be drawn, the largest share of them
    that a release could let through instead; else None.
    """
    if request.open_delta is not None:
        raise DeclarationError(
            f"open_delta={request.open_delta!r} is for open domains; {domain.describe()} is declared as a whole: "
            "give false_keys= or threshold="
        )
    size, level = domain.size, present(request.level)
    max_false_keys = request.max_false_keys
    false_keys, threshold = request.false_keys, request.threshold
    if threshold is None:
        false_keys = DEFAULT_FALSE_KEYS if false_keys is None else false_keys
        threshold = threshold_for_false_keys(family, level, size, false_keys) / unit
    effective = effective_threshold(threshold * unit, published_step(family, level))
    expected = expected_false_keys(family, level, effective, size)
    if expected > max_false_keys:
        enough = threshold_for_false_keys(family, level, size, max_false_keys) / unit
        raise ThresholdError(
            f"threshold {threshold!r} would publish about {expected:.3g} empty cells of the domain's "
            f"{Decimal(size):.3g}; the limit is max_false_keys={max_false_keys:.3g}, which a threshold of "
            f"{enough!r} keeps"
        )
    share = still_lazy(effective) if size > max_false_keys else None
    if share is not None:
        hidden = float(min(Fraction(share) * size, Fraction(_LARGEST_FLOAT)))
        enough = threshold_for_false_keys(family, level, size, hidden) / unit
        raise ThresholdError(
            f"threshold {threshold!r} would, after the releases before it, leave so few of the domain's "
            f"{Decimal(size):.3g} cells hidden that every one of them had to be drawn; the limit is "
            f"max_false_keys={max_false_keys:.3g}; a threshold of {enough!r} would do"
        )
    return {
        "threshold": threshold,
        "effective_threshold": effective / unit,
        "false_keys": false_keys,
        "expected_false_keys": expected,
    }


def open_parameters(
    domain: Open, request: CellRequest, before: OpenBudget, point: Point, family: Family, unit: int = 1
) -> dict[str, Any]:
    """The threshold by what is left of the series' delta, and what is left of that then."""
    if request.false_keys is not None:
        raise DeclarationError(
            f"false_keys={request.false_keys!r} has no meaning for {domain.describe()}: keys that nobody touched are "
            "never published, so there are no false keys. Give open_delta=, threshold= or neither"
        )
    step = published_step(family, point[1])
    share, threshold = request.open_delta, request.threshold
    if threshold is None:
        if share is None:
            left = before.remaining if request.open_room is None else min(before.remaining, request.open_room)
            if not left > 0:
                raise BudgetExceededError(
                    "the budget of the population has no delta left for open domains: raise it, with a delta for "
                    "them. Nothing was spent"
                )
            share = left / 2
        if share > before.remaining:
            raise _refusal(share, before, "what remains may be asked for")
        threshold = before.lowest_threshold(point, family, share) / unit
    effective = effective_threshold(threshold * unit, step)
    after = before.after(point, family, effective)
    if after.delta_infinity > before.delta:
        advice = "no threshold would do"
        if before.remaining > 0:
            enough = before.lowest_threshold(point, family, before.remaining) / unit
            advice = f"threshold={enough!r} would take all that remains"
        raise _refusal(float(before.added(point, family, effective)), before, advice)
    return {
        "threshold": threshold,
        "effective_threshold": effective / unit,
        "false_keys": None,
        "expected_false_keys": 0.0,
        "delta_share": share,
        "delta_infinity": float(after.delta_infinity),
        "delta_remaining": after.remaining,
    }


def _refusal(requested: float, budget: OpenBudget, advice: str) -> BudgetExceededError:
    remaining = budget.remaining
    return BudgetExceededError(
        f"requested delta {requested:.6g}, remaining delta {remaining:.6g} of the series' {float(budget.delta):.6g}, "
        f"difference {requested - remaining:.3g}; {advice}. Nothing was spent"
    )


def open_guarantee(declaration: Declaration, finest: str, statement: str, spent: float) -> str:
    """The joint guarantee of all releases of an open domain, in words."""
    delta = f"{spent:.6g}"
    is_zcdp = declaration.family.currency == "rho"
    together = f"{delta}-approximate {finest}-zCDP" if is_zcdp else f"{statement}, with {delta} added to its delta"
    return (
        f"this release and all earlier ones of the series together: {together} (delta_infinity: the probability that "
        "a key which only one unit has is ever published)"
    )
