"""Whether a release may be made: the cap of its series and the budget of its population, by public parameters only.

Called while the store is held and before anything is drawn. A cap bounds the sum over the noise paths of a series,
a budget the sum over the series of a population, dropped ones included: what was published stays published.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sparsehist.accounting.ledger import Path, cost_of_paths
from sparsehist.accounting.limits import Budget, Limits
from sparsehist.errors import BudgetExceededError, CapExceededError, RefusedError
from sparsehist.noise import currency_of
from sparsehist.privacy import as_level, level_text
from sparsehist.privacy.composition import PURE, ZCDP, as_rho, exact_rho
from sparsehist.privacy.joint import guarantee
from sparsehist.series.declaration import Declaration
from sparsehist.store import SeriesRecord, State


def check_spending(
    state: State,
    record: SeriesRecord,
    declaration: Declaration,
    *,
    path_id: int | None,
    level: Fraction,
    family: str,
    delta_infinity: float = 0.0,
    numerical_slack: float = 0.0,
    name: str | None = None,
    who: str | None = None,
) -> None:
    """Refuse a release beyond the cap of its series or the budget of its population, and note that in the ledger.

    Args:
        state: Held.
        record: The series.
        declaration: Of the series.
        path_id: The noise path; None for one about to be opened.
        level: Of the release.
        family: Name of the noise of the path.
        delta_infinity: Joint for all releases of the path, this one included; 0 but for open domains.
        numerical_slack: Of this release.
        name: Of the release, for the ledger.
        who: Asked for it, for the ledger.

    Raises:
        CapExceededError: If the sum over the series' paths would exceed its cap.
        BudgetExceededError: If the population would exceed its budget.
    """
    if _limits_of(state, record, declaration) == (None, None):
        return
    before: list[Path] = state.ledger().to_dicts()
    requested = {"delta_infinity": delta_infinity, "numerical_slack": numerical_slack}
    after = with_release(before, record, path_id, level, family, requested, declaration.max_keys)
    try:
        check_limits(state, record, declaration, before, after, level)
    except RefusedError as refusal:
        said: dict[str, Any] = {"refused by": type(refusal).__name__, "because": str(refusal)}
        state.record_refusal(
            who=who,
            series_id=record.series_id,
            path_id=path_id,
            level=level_text(level),
            population=record.population,
            release=name,
            details=said,
        )
        raise


def check_limits(
    state: State,
    record: SeriesRecord,
    declaration: Declaration,
    before: Sequence[Path],
    after: Sequence[Path],
    level: Fraction,
) -> None:
    """Compare the ledger as it would stand with the cap of the series and the budget of its population.

    Raises:
        CapExceededError: If the sum over the series' paths would exceed its cap.
        BudgetExceededError: If the population would exceed its budget.
    """
    cap, budget = _limits_of(state, record, declaration)
    _check_cap(cap, after, record, level, declaration.noise)
    check_budget(budget, before, after, record.population)


def _limits_of(state: State, record: SeriesRecord, declaration: Declaration) -> tuple[Fraction | None, Budget | None]:
    """The cap and the budget in force."""
    limits = Limits(state.limit_events())
    declared = None if declaration.cap is None else level_text(declaration.cap)
    return limits.cap(record.series_id, declared, None).now, limits.budget(record.population, None).now


def with_release(
    paths: Sequence[Path],
    record: SeriesRecord,
    path_id: int | None,
    level: Fraction,
    family: str,
    requested: dict[str, float],
    max_keys: int,
) -> list[Path]:
    """The ledger as it would stand; the path of the release comes last."""
    others = [path for path in paths if path["path_id"] != path_id]
    known = [path for path in paths if path["path_id"] == path_id]
    path: Path = {
        "series_id": record.series_id,
        "population": record.population,
        "family": family,
        "level": None,
        "max_keys": max_keys,
        "delta_infinity": 0.0,
        "numerical_slack": 0.0,
    }
    if path_id is not None and known:
        path |= known[0]
    finest = level if path["level"] is None else max(level, as_level(path["level"]))
    changed = {
        "level": level_text(finest),
        "delta_infinity": max(path["delta_infinity"], requested["delta_infinity"]),
        "numerical_slack": path["numerical_slack"] + requested["numerical_slack"],
    }
    return [*others, path | changed]


def _check_cap(
    cap: Fraction | None, after: Sequence[Path], record: SeriesRecord, level: Fraction, noise: str
) -> None:
    """Compare the sum over the paths of the series with its cap, in the currency of its cells."""
    if cap is None:
        return
    currency = currency_of(noise)
    *others, path = [path for path in after if path["series_id"] == record.series_id]
    taken = sum((_in_currency(other, currency) for other in others if other["level"]), Fraction(0))
    ours, remaining = _in_currency(path, currency), max(cap - taken, Fraction(0))
    if ours <= remaining or level < as_level(path["level"]):
        return
    spent = f", of which other paths hold {_text(taken)}" if taken else ""
    raise CapExceededError(
        f"requested level {_text(ours)}, cap of the series {level_text(cap)}{spent}, remaining {_text(remaining)}, "
        f"difference {_text(ours - remaining)}; nothing was spent"
    )


def _in_currency(path: Path, currency: str) -> Fraction:
    """The level of a path in the currency of a cap."""
    level, own = as_level(path["level"]), currency_of(path["family"])
    if own == currency:
        return level
    if own == PURE and currency == ZCDP:
        return as_rho(level)
    raise CapExceededError(
        f"the cap of the series is in another currency than {path['family']} noise spends: no sum of the two exists. "
        "Use noise of the series' own kind, or a series without a cap under a budget in epsilon and delta; "
        "nothing was spent"
    )


def check_budget(budget: Budget | None, before: Sequence[Path], after: Sequence[Path], population: str) -> None:
    """Compare what a population would have spent with its budget.

    Raises:
        BudgetExceededError: If that is more, and more than before.
    """
    if budget is None:
        return
    then = [path for path in before if path["population"] == population]
    now = [path for path in after if path["population"] == population]
    if budget.epsilon is None:
        _check_rho(budget, then, now, population)
        return
    delta = float(budget.delta)
    spent, wanted = (guarantee(cost_of_paths(paths), delta) for paths in (then, now))
    if math.isfinite(wanted) and Fraction(wanted) <= budget.epsilon:
        return
    if math.isinf(wanted):
        raise BudgetExceededError(
            f"the budget of population {population!r} is {budget}, and with this release no epsilon holds at that "
            "delta: its noise has no guarantee, or delta is used up by open domains or numerical slack; nothing was "
            "spent"
        )
    limit = float(budget.epsilon)
    raise BudgetExceededError(
        f"requested epsilon {wanted - spent:.6g} more, budget of population {population!r} {budget}, remaining "
        f"{max(limit - spent, 0.0):.6g}, difference {wanted - limit:.6g}; nothing was spent"
    )


def _check_rho(budget: Budget, before: Sequence[Path], after: Sequence[Path], population: str) -> None:
    limit = budget.rho or Fraction(0)
    cost, was = cost_of_paths(after), cost_of_paths(before)
    spent, wanted = exact_rho(was), exact_rho(cost)
    if wanted is None:
        raise BudgetExceededError(
            f"the budget of population {population!r} is {budget}, and this noise has no rho: use other noise, or a "
            "budget in epsilon and delta; nothing was spent"
        )
    delta = Fraction(cost.delta_infinity)
    if delta > budget.delta and cost.delta_infinity > was.delta_infinity:
        remaining_delta = max(float(budget.delta) - was.delta_infinity, 0.0)
        raise BudgetExceededError(
            f"requested delta {cost.delta_infinity - was.delta_infinity:.6g} more, budget of population "
            f"{population!r} {budget}, remaining {remaining_delta:.6g}, difference "
            f"{float(delta - budget.delta):.6g}; nothing was spent"
        )
    already = Fraction(0) if spent is None else spent
    if wanted <= limit or wanted == already:
        return
    remaining = max(limit - already, Fraction(0))
    raise BudgetExceededError(
        f"requested rho {_text(wanted - already)} more, budget of population {population!r} {budget}, remaining "
        f"{_text(remaining)}, difference {_text(wanted - limit)}; nothing was spent"
    )


def _text(value: Fraction) -> str:
    """Exact where that is short, else the first digits."""
    exact = level_text(value) if value else "0"
    return exact if len(exact) <= 12 else f"{float(value):.6g}"
