"""Tables of the ledger: costs and remaining budgets by path, by series, by population and for everybody."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sparsehist.declaration import Every
from sparsehist.ledger.budgets import budget_from
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.spent import Account, PathName, amount_text
from sparsehist.privacy import Cost, as_level, level_text
from sparsehist.privacy.composition import ZCDP, shared_by_one_person
from sparsehist.privacy.epsilon_delta import guarantee
from sparsehist.privacy.levels import in_prose

DEFAULT_DELTA = 1e-6
SCHEMA: dict[str, type] = {
    **dict.fromkeys(("scope", "population", "series", "path", "noise"), str),
    "releases": int,
    **dict.fromkeys(("currency", "level"), str),
    **dict.fromkeys(("cost", "delta_infinity", "numerical_slack", "epsilon", "delta"), float),
    **dict.fromkeys(("cap", "budget", "remaining", "standing", "warning"), str),
    **dict.fromkeys(("first_release", "last_release", "dropped"), datetime),
    "unverified": bool,
    "source": str,
    **dict.fromkeys(("periods", "per_period"), str),
    "per_period_epsilon": float,
}
EVENTS: dict[str, type] = {
    **dict.fromkeys(("number", "generation"), int),
    "happened": datetime,
    **dict.fromkeys(("who", "what", "series", "series_id"), str),
    "path_id": int,
    **dict.fromkeys(("level", "population", "release", "reason", "details"), str),
}

Row = dict[str, Any]
_FOR_PEOPLE = (
    "scope", "population", "series", "path", "releases", "epsilon", "spent", "limit", "remaining", "standing",
    "periods", "per_period", "dropped",
)  # fmt: skip


def ledger_rows(
    ledger: Ledger, delta: float = DEFAULT_DELTA, *, series: str | None = None, short: bool = False
) -> list[Row]:
    periods = ledger.limits.periods
    rows: list[Row] = []
    shown = set(periods if series is None else ())
    for account in ledger.accounts.values():
        if series in (None, account.name) or (account.population == series and series in periods):
            shown.add(account.population)
            if not short and (series is not None or account.population not in periods):
                rows += _rows_of_series(ledger, account, delta)
    order = dict.fromkeys([*(account.population for account in ledger.accounts.values()), *periods])
    rows += [_row_of_population(ledger, population, delta) for population in order if population in shown]
    if order and series is None:
        rows.append(_everybody(ledger, sorted(order), delta))
    return [{column: row.get(column) for column in SCHEMA} for row in rows]


def cost_in_words(row: Row) -> str:
    """Return the cost of a row in words: "rho 0.5", or "see epsilon" if only the column epsilon can show it."""
    if not row["releases"]:
        return "nothing"
    if row["currency"] == "none":
        return row["level"] or "see epsilon"
    if row["level"] is not None:
        return f"{row['currency']} {level_text(in_prose(as_level(row['level'])))}"
    return "see epsilon" if row["cost"] is None else f"rho ≈ {round(row['cost'], 6)}"


def for_people(rows: Sequence[Row]) -> list[Row]:
    empty = {column for column in ("periods", "per_period", "dropped") if all(row[column] is None for row in rows)}
    if all(row["path"] in (None, "cells") for row in rows):
        empty.add("path")
    shown = [
        row
        | {
            "spent": cost_in_words(row),
            "epsilon": None if row["epsilon"] is None else round(row["epsilon"], 4),
            # Show the cap of a series only in the row of the series, not in the rows of its paths.
            "limit": None if row["scope"] == "path" else row["budget"] or row["cap"],
            "dropped": None if row["dropped"] is None else f"{row['dropped']:%Y-%m-%d}",
        }
        for row in rows
    ]
    return [{column: row[column] for column in _FOR_PEOPLE if column not in empty} for row in shown]


def event_for_people(event: Row) -> Row:
    """Return an event as a human-readable row. The column "why" shows the details and reason of the event."""
    details = json.loads(event["details"] or "{}")
    words = str(budget_from(details)) if "split" in details else details.get("every") or details.get("because")
    if words is None:
        texts = {name: value for name, value in details.items() if value and not isinstance(value, dict)}
        lists = {name: value if isinstance(value, list) else [value] for name, value in texts.items()}
        words = ", ".join(f"{name.replace('_', ' ')} {', '.join(map(str, lists[name]))}" for name in lists)
    return {
        "happened": f"{event['happened']:%Y-%m-%d %H:%M:%S}",
        "who": event["who"],
        "what": event["what"],
        "series or population": event["series"] or event["population"],
        "release": event["release"],
        "level": event["level"],
        "why": "; ".join(part for part in (words, event["reason"]) if part) or None,
    }


def _rows_of_series(ledger: Ledger, account: Account, delta: float) -> list[Row]:
    declared, cap = account.declared, ledger.cap(account.series_id)
    shown: Row = {
        "population": account.population,
        "series": account.name,
        "dropped": account.dropped,
        "unverified": declared.unverified,
        "source": declared.source or None,
        "cap": None if cap.now is None else level_text(cap.now),
        "standing": cap.standing,
    }

    def left(path: PathName) -> str | None:
        largest = None if account.dropped else ledger.largest_level(account.series_id, path)
        return None if largest is None else amount_text(largest)

    rows = []
    for path, spent in account.paths.items():
        of_path = {
            # Always show the finest level: a path has no total cost if the guarantees of its releases do not compose.
            "level": level_text(spent.finest) if spent.finest else None,
            "remaining": left(path),
            "path": " ".join(part for part in path if part),
            "noise": account.noise_on(path),
        }
        rows.append(shown | _columns("path", ledger, [replace(account, paths={path: spent})], delta) | of_path)
    of_series = {"remaining": left(("another", None, None))}
    return [*rows, shown | _columns("series", ledger, [account], delta) | of_series]


def _row_of_population(ledger: Ledger, population: str, delta: float) -> Row:
    limit, accounts, left = ledger.budget(population), ledger.of_population(population), ledger.remaining(population)
    columns = _columns("population", ledger, accounts, delta) | {
        "population": population,
        "budget": None if limit.now is None else str(limit.now),
        "standing": limit.standing,
        "remaining": None if left is None else f"{limit.now.noise.route} {amount_text(left)}",
    }
    units = sorted({text for account in accounts if (text := account.declared.unit_text) is not None})
    if len(units) > 1:
        mixed = (
            f"units are {', '.join(map(repr, units))}: costs are added as if each unit were one person, which holds "
            "only for people who have one of each"
        )
        columns["warning"] = "; ".join(filter(None, (columns["warning"], mixed)))
    if (rule := ledger.limits.periods.get(population)) is not None:
        if columns["budget"] is not None:
            columns["budget"] += f" per {rule.protects}"
        columns |= _period_columns(ledger, population, rule, delta)
    return columns


def _period_columns(ledger: Ledger, population: str, rule: Every, delta: float) -> Row:
    """Return the columns of a periodic series: how many periods were added and released, and the cost of a period."""
    cost, accounts = ledger.cost_per_period(population, rule), ledger.of_population(population)
    added = sum(account.releases > 0 or account.dropped is None for account in accounts)
    released = sum(account.releases > 0 for account in accounts)
    most = "" if rule.most_periods is None else f" (a unit in at most {rule.most_periods})"
    return {
        "periods": f"{added} of {rule.n_periods} {rule.period}s added{most}, {released} released; "
        f"{ledger.periods_left(population)} left to release",
        "per_period": f"{level_text(cost.amount) if cost.amount else 0} per {rule.unit_period}",
        "per_period_epsilon": finite_or_none(guarantee(cost, delta)),
    }


def _everybody(ledger: Ledger, populations: list[str], delta: float) -> Row:
    """Return the row for everybody: the largest possible costs to one person.

    A person may belong to several populations, but not to populations that were declared disjoint.
    """
    accounts = list(ledger.accounts.values())
    rows = [
        _columns("everybody", ledger, [account for account in accounts if account.population in chosen], delta)
        for chosen in shared_by_one_person(populations, ledger.limits.disjoint)
    ]
    worst: Row = {"warning": next((row["warning"] for row in rows if row["warning"]), None)}
    for column in ("cost", "epsilon", "delta_infinity", "numerical_slack"):
        values = [row[column] for row in rows]
        worst[column] = None if None in values else max(values)
    levels, currencies = ({row[column] for row in rows if row["cost"] != 0} for column in ("level", "currency"))
    currency = currencies.pop() if len(currencies) == 1 else ZCDP
    summed = worst["cost"] is not None and not currencies and levels and None not in levels
    worst["currency"] = "none" if worst["cost"] is None else currency
    worst["level"] = level_text(max(map(as_level, levels))) if summed else None
    return _columns("everybody", ledger, accounts, delta) | worst


def _columns(scope: str, ledger: Ledger, accounts: Sequence[Account], delta: float) -> Row:
    """Return the columns that show the cost of these series to one person."""
    cost = ledger.cost_of(accounts)
    epsilon = guarantee(cost, delta)
    spent = [each for account in accounts for each in account.paths.values()]
    return {
        "scope": scope,
        "currency": cost.currency,
        "level": level_text(cost.amount) if cost.amount else None,
        "cost": cost.rho,
        "delta_infinity": cost.delta_infinity,
        "numerical_slack": math.fsum(each.numerical_slack for each in spent),
        "epsilon": finite_or_none(epsilon),
        "delta": delta,
        "warning": _why_none(cost, delta) if math.isinf(epsilon) else None,
        "releases": sum(each.releases for each in spent),
        "first_release": min((each.first_release for each in spent if each.first_release), default=None),
        "last_release": max((each.last_release for each in spent if each.last_release), default=None),
    }


def finite_or_none(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None


def _why_none(cost: Cost, delta: float) -> str:
    if any(part.law == "none" for part in cost.parts):
        return "no epsilon: this noise has no known guarantee"
    if delta == 0:
        return "no epsilon at delta 0: choose a larger delta, such as 1e-6"
    if cost.delta_infinity >= delta:
        return f"no epsilon at delta {delta:.3g}: open domains have spent {cost.delta_infinity:.3g} of it"
    return f"no epsilon at delta {delta:.3g}: choose a larger delta"
