"""Compute the cost of a release, and the level for an (epsilon, delta), from public parameters only.

Releases, plans and dry runs use the same functions, so they refuse the same requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeVar

from sparsehist.declaration import Declaration
from sparsehist.declaration.recurring import USER
from sparsehist.errors import BudgetExceededError, present
from sparsehist.ledger.budgets import OPEN_SHARE, Budget, Limits, Split
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.spent import Account, PathName, Spending, law_of
from sparsehist.privacy import level_text
from sparsehist.privacy.filters import POISSON_ROUTE, PURE_ROUTE, RHO_ROUTE, filter_on, level_within
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.release.metadata import Metadata, Request
from sparsehist.store import SeriesRecord, State

_Request = TypeVar("_Request", bound=Request)
_Metadata = TypeVar("_Metadata", bound=Metadata)


def ledger_for(state: State, record: SeriesRecord, declaration: Declaration, *, whole: bool = False) -> Ledger:
    """Return the ledger that a release is checked against; only the series' own account if it has no limits."""
    limits = Limits(state.events(limits=True))
    limited = (limits.cap(record.series_id, declaration.cap).now, limits.budget(record.population).now)
    if not whole and declaration.period is None and limited == (None, None):
        return Ledger({record.series_id: Account(record.series_id, declaration)}, limits)
    return Ledger.of(state)


def of_all_periods(
    ledger: Ledger, declaration: Declaration, spends: Sequence[Spending]
) -> tuple[str, dict[str, Any]]:
    """Return the cost of all periods of a series after a release, in words and as metadata; else empty."""
    population = declaration.population
    after, rule = ledger.with_release(*spends), ledger.limits.periods.get(population)
    if rule is None:
        return "", {}
    costs = (after.cost_per_period(population, rule), after.cost_of(after.of_population(population)))
    each = [level_text(cost.amount) if cost.amount else "0" for cost in costs]
    opens = [f"{cost.delta_infinity:.3g}-approximate " if cost.delta_infinity else "" for cost in costs]
    words = (
        f"all {rule.period}s of {population} released so far, this one included: {opens[0]}{each[0]}-zCDP per "
        f"{rule.unit_period}, {opens[1]}{each[1]}-zCDP per {USER}"
    )
    periods = {"protects": rule.protects, "most_periods": rule.most_periods}
    return words, {**periods, "per_period": each[0], "per_user": each[1]}


def prepared(
    ledger: Ledger,
    series_id: str,
    declaration: Declaration,
    path: PathName,
    request: _Request,
    metadata: Callable[[_Request], _Metadata],
) -> tuple[_Request, _Metadata, tuple[Spending, ...]]:
    """Fix the level and the metadata of a release, and its charges to the ledger; nothing is drawn.

    The first charge is for the release's own noise path, with the numerical slack of all paths. The charges of its
    measures follow.
    """
    goal, budget, opens = request.goal, ledger.budget_of(declaration.population), declaration.domain.is_open
    room, split = ledger.open_room(declaration), None
    level = request.level if goal is None else level_for(goal, ledger, declaration)
    if goal is not None and opens:
        split = _split(goal, budget, opens=True)
        share = 2 * float(split.open)  # doubled, because a release takes half of the remaining delta
        room = share if room is None else min(room, share)
    request = replace(request, level=level, open_room=room)
    about = metadata(request)
    release = Spending(series_id, present(level), path, about.delta_spent, about.numerical_slack)
    if split is not None:
        added = release.delta_infinity - max(
            known.delta_infinity for known in ledger.accounts[series_id].paths.values()
        )
        if added > float(split.open) * (1 + 1e-9):
            raise BudgetExceededError(
                f"this threshold would add {added:.6g} to the delta of open domains, but {float(split.open):.6g} of "
                f"{goal} is set aside for that; give no threshold, or a smaller delta. Nothing was spent"
            )
    return request, about, (release, *(Spending(series_id, at, name) for name, at in request.beside))


def level_for(goal: EpsilonDelta, ledger: Ledger, declaration: Declaration) -> Fraction:
    """Return the largest level that satisfies an (epsilon, delta) with its share of delta, rounded down to 12 digits.

    With a budget it is computed by the budget's route and split, so that an unused budget of the same (epsilon,
    delta) allows it.
    """
    law, budget = law_of(declaration.noise), ledger.budget_of(declaration.population)
    share = _split(goal, budget, opens=declaration.domain.is_open).noise
    charges = None if budget is None else budget.filter_for(law)
    if charges is not None and charges.route != RHO_ROUTE:
        alike = filter_on(charges.route, goal.epsilon, share, charges.order)
        return alike.largest(alike.limit, law, declaration.max_keys)
    return level_within(EpsilonDelta(goal.epsilon, share), law, declaration.max_keys)


def _split(goal: EpsilonDelta, budget: Budget | None, *, opens: bool) -> Split:
    """Split the delta of a goal as the population's budget does; by default in halves for an open domain."""
    if budget is not None and budget.epsilon is not None and budget.delta and budget.noise.route != PURE_ROUTE:
        of_delta = goal.delta / budget.delta
        noise = budget.noise.delta if budget.noise.route == POISSON_ROUTE else budget.split.noise
        return Split(noise * of_delta, budget.split.open * of_delta)
    apart = goal.delta * OPEN_SHARE if opens else Fraction(0)
    return Split(goal.delta - apart, apart)
