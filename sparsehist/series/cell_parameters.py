"""Everything about a release that is known before anything is drawn: functions of public parameters only."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sparsehist.domain import Open
from sparsehist.errors import DeclarationError, LevelError, ThresholdError
from sparsehist.histogram import (
    draws_all_empty,
    effective_threshold,
    expected_false_keys,
    grid_step,
    largest_tail,
    round_slack,
    threshold_for_false_keys,
)
from sparsehist.noise.family import noise_mean
from sparsehist.privacy import level_text
from sparsehist.series.declaration import Declaration
from sparsehist.series.open_domain import open_parameters
from sparsehist.series.request import Request, finite
from sparsehist.store import ReleaseRecord

NEIGHBOURS = "logs that differ by all rows of one unit"
_LAZILY = "draws are within numerical_slack of their law in total variation"
# The grid is 2**-10 of the standard deviation. Beyond these a count and its noise on the grid do not fit into the 53
# bits of a double, and rounding would tell counts apart.
LARGEST_COUNT = 2**34
_LEAST_STD, _LARGEST_STD = 2.0**-8, 2.0**32
# Half of what a round can draw at all, so that no refusal ever depends on the counts.
_MOST_FALSE_KEYS = 2.0**30


def public_parameters(
    declaration: Declaration, request: Request, made: Sequence[ReleaseRecord], max_false_keys: float
) -> dict[str, Any]:
    """Choose the threshold and say what a release will be.

    Args:
        declaration: Of the series.
        request: With a level.
        made: The releases of the path so far, in order.
        max_false_keys: Refuse a threshold that would publish more empty cells than this.

    Raises:
        LevelError: If noise at the level does not share a grid with counts.
        ThresholdError: If the threshold would let too many empty cells through; says which would do.
        BudgetExceededError: If the delta of an open domain has no room for it.
    """
    assert request.level is not None
    family, level = declaration.family, request.level
    std = family.std(level)
    _check_std(declaration, level, std)
    step = 1.0 if family.integer else grid_step(std)
    if not 0 < finite("max_false_keys", max_false_keys) <= _MOST_FALSE_KEYS:
        raise DeclarationError(
            f"max_false_keys must be above 0 and at most {_MOST_FALSE_KEYS:.3g}, got {max_false_keys!r}"
        )
    if isinstance(declaration.domain, Open):
        chosen = open_parameters(declaration, declaration.domain, request, made)
    else:
        chosen = _closed_parameters(declaration, request, made, max_false_keys, step)
    statement = chosen.pop("guarantee", family.statement(level))
    effective = effective_threshold(chosen["threshold"], step)
    past = [(known.level, known.threshold) for known in made]
    size = 1 if declaration.domain.is_open else declaration.domain.size  # an open domain draws no empty cells
    return {
        "series": declaration.name,
        "name": request.name,
        "population": declaration.population,
        "level": level_text(level),
        "noise": declaration.noise,
        "std": std,
        "noise_mean": noise_mean(family, level),
        "grid": step,
        "effective_threshold": effective,
        "numerical_slack": round_slack(family, past, level, declaration.max_keys),
        "guarantee": f"{statement}; {_LAZILY}",
        "neighbours": NEIGHBOURS,
        "max_keys": declaration.max_keys,
        "key": list(declaration.key),
        "domain": declaration.domain.describe(),
        "domain_size": None if declaration.domain.is_open else str(size),
        "cap": None if declaration.cap is None else level_text(declaration.cap),
        **chosen,
        **declaration.remarks,
    }


def _check_std(declaration: Declaration, level: Fraction, std: float) -> None:
    if not _LEAST_STD <= std <= _LARGEST_STD:
        raise LevelError(
            f"level {level_text(level)} is too {'fine' if std < _LEAST_STD else 'coarse'} at "
            f"max_keys={declaration.max_keys}: the standard deviation of its noise is {std:.3g} counts, and counts "
            f"and noise share one grid only where that is from {_LEAST_STD:.3g} to {_LARGEST_STD:.3g}"
        )


def _closed_parameters(
    declaration: Declaration, request: Request, made: Sequence[ReleaseRecord], max_false_keys: float, step: float
) -> dict[str, Any]:
    """The threshold by the expected number of false keys."""
    assert request.level is not None
    if request.delta is not None:
        raise DeclarationError(
            f"delta={request.delta!r} is for open domains; {declaration.domain.describe()} is declared as a whole: "
            "give false_keys= or threshold="
        )
    family, size, level = declaration.family, declaration.domain.size, request.level
    false_keys, threshold = request.false_keys, request.threshold
    if threshold is None:
        false_keys = 1.0 if false_keys is None else false_keys
        threshold = threshold_for_false_keys(family, level, size, false_keys)
    effective = effective_threshold(threshold, step)
    expected = expected_false_keys(family, level, effective, size)
    if expected > max_false_keys:
        enough = threshold_for_false_keys(family, level, size, max_false_keys)
        raise ThresholdError(
            f"threshold {threshold!r} would publish about {expected:.3g} empty cells of the domain's {size}; "
            f"the limit is max_false_keys={max_false_keys:.3g}, which a threshold of {enough!r} keeps"
        )
    past = [(known.level, known.threshold) for known in made]
    if size > max_false_keys and draws_all_empty(family, [*past, (level, effective)]):
        enough = threshold_for_false_keys(family, level, size, size * largest_tail(family, past))
        raise ThresholdError(
            f"threshold {threshold!r} would, after the releases before it, leave so few of the domain's {size} cells "
            f"hidden that every one of them had to be drawn; the limit is max_false_keys={max_false_keys:.3g}; "
            f"a threshold of {enough!r} would do"
        )
    return {"threshold": threshold, "false_keys": false_keys, "expected_false_keys": expected}
