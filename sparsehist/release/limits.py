"""Set limits of populations: budgets, caps, and populations declared disjoint."""

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
from sparsehist.release.stored_declaration import declaration_of


def set_budget(home: Home, *, population: str = "default", reason: str | None = None, **asked: Any) -> str:
    """Set the budget of a population and return it in words; see `Store.set_budget`."""
    checked_name("population", population)
    checked_text("reason", reason)
    with home.hold() as state:
        domains = (declaration_of(known).domain for known in state.all_series() if known.population == population)
        limits = budget(**asked, opens=any(domain.is_open for domain in domains))
        ledger = Ledger.of(state)
        before = ledger.budget_of(population)
        if before is not None and not limits.is_within(before) and reason is None:
            raise DeclarationError(
                f"the budget of population {population!r} is {before.describe()}: to raise or change it to "
                f"{limits.describe()}, give reason="
            )
        ledger.check_budget(population, limits)
        state.declare("set budget", who=home.who, population=population, reason=reason, details=limits.as_json())
    return limits.describe()


def raise_cap(home: Home, series: str, level: Level, *, reason: str, series_id: str | None = None) -> None:
    """Raise the cap of a series; see `Series.raise_cap`."""
    wanted = as_level(level)
    checked_text("reason", reason, needed=True)
    with home.hold() as state:
        record, ledger = home.find(state, series, series_id), Ledger.of(state)
        cap = ledger.cap(record.series_id).now
        if cap is None:
            raise DeclarationError(f"the series {series!r} has no cap: there is nothing to raise")
        if wanted <= cap:
            raise DeclarationError(f"the cap is {level_text(cap)} and can only be raised, got {shown(level)}")
        ledger.check_raised_cap(record.series_id)
        text = level_text(wanted)
        state.declare("raise cap", series_id=record.series_id, level=text, reason=reason, who=home.who)


def declare_disjoint(home: Home, populations: Sequence[str], *, reason: str) -> None:
    """Declare that nobody is in two of these populations; see `Store.declare_disjoint`."""
    named: list[str] = []
    if not isinstance(populations, str):
        named = read_each("populations", populations, partial(checked_name, "population"), "the name of one")
    if len(named) < 2 or len(set(named)) < len(named):
        raise DeclarationError(f"give two or more populations, each named once; got {shown(populations)}")
    checked_text("reason", reason, needed=True)
    with home.hold() as state:
        state.declare("declare disjoint", who=home.who, reason=reason, details={"populations": sorted(named)})
