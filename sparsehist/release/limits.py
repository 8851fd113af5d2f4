"""Set budgets of populations, raise caps of series, and declare populations disjoint.

Each of these changes is stored as an event. `budget_event` needs only a ledger to check a budget, and no store.
Therefore dry runs can call it, too, and refuse the same budgets as real calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from sparsehist.declaration.checks import checked_name, checked_text
from sparsehist.errors import DeclarationError, read_each, shown
from sparsehist.ledger.budgets import budget
from sparsehist.ledger.ledger import Ledger
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.release.home import Home


def set_budget(home: Home, **parameters: Any) -> str:
    """Set the budget of a population and return it in words; see `Store.set_budget`."""
    with home.hold() as state:
        event, words = budget_event(Ledger.of(state), **parameters)
        state.declare(**event)
    return words


def budget_event(
    ledger: Ledger, *, population: str = "default", reason: str | None = None, **amounts: Any
) -> tuple[dict[str, Any], str]:
    """Check a new budget against the ledger. Return the event that sets this budget, and the budget in words."""
    checked_name("population", population)
    checked_text("reason", reason)
    present = [account.declared for account in ledger.of_population(population) if account.dropped is None]
    limits = budget(**amounts, opens=any(declared.domain.is_open for declared in present))
    before = ledger.budget_of(population)
    if before is not None and not limits.is_within(before) and reason is None:
        raise DeclarationError(
            f"give reason= to change the budget of population {population!r} from {before.describe()} to "
            f"{limits.describe()}"
        )
    ledger.check_budget(population, limits)
    event = {"what": "set budget", "population": population, "reason": reason, "details": limits.as_json()}
    return event, limits.describe()


def raise_cap(home: Home, series: str, level: Level, *, reason: str, series_id: str | None = None) -> None:
    """Raise the cap of a series; see `Series.raise_cap`."""
    wanted = as_level(level)
    checked_text("reason", reason, needed=True)
    with home.hold() as state:
        ledger, series_id = Ledger.of(state), home.find(state, series, series_id).series_id
        cap = ledger.cap(series_id).now
        if cap is None:
            raise DeclarationError(f"the series {series!r} has no cap: there is nothing to raise")
        if wanted <= cap:
            raise DeclarationError(f"a cap can only be raised: it is {level_text(cap)} now, got {shown(level)}")
        ledger.check_raised_cap(series_id)
        state.declare("raise cap", series_id=series_id, level=level_text(wanted), reason=reason)


def declare_disjoint(home: Home, populations: Sequence[str], *, reason: str) -> None:
    """Declare that no person belongs to two of these populations; see `Store.declare_disjoint`."""
    names: list[str] = []
    if not isinstance(populations, str):
        names = read_each("populations", populations, partial(checked_name, "population"), "the name of one")
    if len(names) < 2 or len(set(names)) < len(names):
        raise DeclarationError(f"give two or more populations, each named once; got {shown(populations)}")
    checked_text("reason", reason, needed=True)
    with home.hold() as state:
        state.declare("declare disjoint", reason=reason, details={"populations": sorted(names)})
