"""The ledger as a table: what was spent by path, by series, by population and by anybody, and under which limits."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import polars as pl

from sparsehist.accounting.limits import Limit, Limits
from sparsehist.noise import currency_of
from sparsehist.privacy import Cost, as_level, level_text, path_cost, total_cost
from sparsehist.privacy.composition import GAUSSIAN, POISSON, SKELLAM, ZCDP, shared_by_one_person
from sparsehist.privacy.joint import guarantee

DEFAULT_DELTA = 1e-6
SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "scope": pl.String,
    "population": pl.String,
    "series": pl.String,
    "path": pl.String,
    "noise": pl.String,
    "releases": pl.Int64,
    "currency": pl.String,
    "level": pl.String,
    "cost": pl.Float64,
    "delta_infinity": pl.Float64,
    "numerical_slack": pl.Float64,
    "epsilon": pl.Float64,
    "delta": pl.Float64,
    "cap": pl.String,
    "budget": pl.String,
    "limit_at_first_release": pl.String,
    "standing": pl.String,
    "warning": pl.String,
    "first_release": pl.Datetime("us"),
    "last_release": pl.Datetime("us"),
    "dropped": pl.Datetime("us"),
    "unverified": pl.Boolean,
}
_LAWS = {"gaussian": GAUSSIAN, "poisson": POISSON, "skellam": SKELLAM}

Path = dict[str, Any]


def ledger_frame(spent: pl.DataFrame, events: pl.DataFrame, delta: float = DEFAULT_DELTA) -> pl.DataFrame:
    """Add up what was spent.

    Args:
        spent: One row a noise path, as `State.ledger` gives them.
        events: As `State.events` gives them; the limits are read from them.
        delta: At which epsilon is shown.

    Returns:
        Rows of scope "path" (its finest level), "series" (the sum over its paths), "population" (the sum over its
        series) and "everybody" (the most that one person may bear: the sum over populations, but for those
        declared disjoint). `level` is exact text in `currency` ("rho" of zCDP, "epsilon" of pure DP), null where
        nothing was spent or currencies are mixed; `cost` is rho, which pure DP implies too, null where a
        guarantee has none (Poisson, Skellam). `epsilon` holds at `delta`, delta_infinity and numerical slack
        included, whatever the noise; null where no epsilon does. `cap` and `budget` are the limits in force,
        `limit_at_first_release` the one that stood then, and `standing` says whether it was kept ("ex ante") or
        came later or was raised ("ex post").
    """
    limits = Limits(events)
    rows: list[Path] = []
    of_series: dict[str, list[Path]] = defaultdict(list)
    of_population: dict[str, list[Path]] = defaultdict(list)
    for path in spent.iter_rows(named=True):  # a row is a path, not a row of anybody's log
        of_series[path["series_id"]].append(path)
        of_population[path["population"]].append(path)
    for series_id, paths in of_series.items():
        limit = limits.cap(series_id, paths[0]["cap"], _first_generation(paths))
        shown = {field: paths[0][field] for field in ("population", "series", "dropped", "unverified")}
        shown |= _limit_columns("cap", limit)
        for path in paths:
            finest = {"level": path["level"]}  # a path has a finest level even where its cost adds to nothing
            rows.append(shown | _columns("path", [path], delta) | finest | _path_columns(path))
        rows.append(shown | _columns("series", paths, delta))
    for population, paths in of_population.items():
        limit = limits.budget(population, _first_generation(paths))
        columns = _columns("population", paths, delta) | _limit_columns("budget", limit)
        warnings = [warning for warning in (columns["warning"], unit_warning(paths)) if warning]
        rows.append(columns | {"population": population, "warning": "; ".join(warnings) or None})
    if of_population:
        rows.append(_everybody(of_population, limits, delta))
    return pl.DataFrame([{column: row.get(column) for column in SCHEMA} for row in rows], schema=SCHEMA)


def cost_of_path(path: Path) -> Cost:
    """The cost of a row of `State.ledger`."""
    return path_cost(
        currency_of(path["family"]),
        as_level(path["level"]) if path["level"] else None,
        law=_LAWS.get(path["family"]),
        keys=path["max_keys"] or 1,
        delta_infinity=path["delta_infinity"],
        numerical_slack=path["numerical_slack"],
    )


def cost_of_paths(paths: Sequence[Path]) -> Cost:
    """The cost of rows of `State.ledger` together."""
    return total_cost(map(cost_of_path, paths))


def unit_warning(paths: Sequence[Path]) -> str | None:
    """What to say of a population whose series protect different units, as far as their columns tell."""
    units = sorted({path["unit"] for path in paths if path["unit"] is not None})
    if len(units) < 2:
        return None
    return (
        f"units are {', '.join(map(repr, units))}: costs are added as if each were the same people, which holds for "
        "whoever has one of each only"
    )


def costs_in_words(ledger: pl.DataFrame) -> pl.Series:
    """The costs of a ledger for people: the amount with its currency; column "spent".

    Several currencies add up as rho only, and a guarantee without one as (epsilon, delta) only.
    """
    exact = pl.format("{} {}", "currency", "level")
    added = pl.coalesce(exact, pl.format("rho ≈ {}", pl.col("cost").round(6)), pl.lit("see epsilon"))
    own = pl.when(pl.col("currency") == "none").then(pl.coalesce("level", pl.lit("see epsilon"))).otherwise(added)
    words = pl.when(pl.col("releases") == 0).then(pl.lit("nothing")).otherwise(own)
    return ledger.select(words.alias("spent")).to_series()


def _everybody(of_population: dict[str, list[Path]], limits: Limits, delta: float) -> Path:
    """The worst, number by number, over the sets of populations that one person may be in."""
    sets = shared_by_one_person(sorted(of_population), limits.disjoint)
    each = [
        _columns("everybody", [path for population in chosen for path in of_population[population]], delta)
        for chosen in sets
    ]
    everything = _columns("everybody", [path for paths in of_population.values() for path in paths], delta)
    spending = [row for row in each if row["cost"] != 0]
    currencies = {row["currency"] for row in spending}
    unbounded = any(row["cost"] is None for row in each)
    levels = [row["level"] for row in spending]
    summed = not unbounded and len(currencies) == 1 and None not in levels
    worst: Path = {
        "currency": "none" if unbounded else currencies.pop() if len(currencies) == 1 else ZCDP,
        "level": level_text(max(map(as_level, levels))) if summed else None,
        "cost": None if unbounded else max(row["cost"] for row in each),
        "epsilon": None if any(row["epsilon"] is None for row in each) else max(row["epsilon"] for row in each),
    }
    worst |= {field: max(row[field] for row in each) for field in ("delta_infinity", "numerical_slack")}
    warnings = [warning for row in each if (warning := row.get("warning"))]
    return everything | worst | {"warning": warnings[0] if warnings else None}


def _columns(scope: str, paths: list[Path], delta: float) -> Path:
    """What these paths cost together."""
    cost = cost_of_paths(paths)
    epsilon = guarantee(cost, delta)
    first = [path["first_release"] for path in paths if path["first_release"] is not None]
    last = [path["last_release"] for path in paths if path["last_release"] is not None]
    return {
        "scope": scope,
        "currency": cost.currency,
        "level": level_text(cost.amount) if cost.amount else None,
        "cost": cost.rho,
        "delta_infinity": cost.delta_infinity,
        "numerical_slack": cost.numerical_slack,
        "epsilon": None if math.isinf(epsilon) else epsilon,
        "delta": delta,
        "warning": _why_none(cost, delta) if math.isinf(epsilon) else None,
        "releases": sum(path["n_releases"] for path in paths),
        "first_release": min(first, default=None),
        "last_release": max(last, default=None),
    }


def _why_none(cost: Cost, delta: float) -> str:
    if any(part.law == "none" for part in cost.parts):
        return "no epsilon: the noise has no guarantee that is known here"
    if delta == 0:
        return "no epsilon at delta 0: ask at one above it, such as 1e-6"
    if cost.delta_infinity >= delta:
        return f"no epsilon at delta {delta:.3g}: open domains have spent {cost.delta_infinity:.3g} of it"
    if any(part.law == POISSON for part in cost.parts):
        return f"no epsilon at delta {delta:.3g}: ask at a larger delta"
    enough = next(
        (more for power in range(1, 16) if (more := delta * 10**power) < 1 and math.isfinite(guarantee(cost, more))),
        1.0,
    )
    return (
        f"no epsilon at delta {delta:.3g}, for the levels are high and draws miss their law by a numerical slack of "
        f"up to {cost.numerical_slack:.3g}: ask at delta {enough:.3g}"
    )


def _path_columns(path: Path) -> Path:
    named = [part for part in (path["kind"], path["workload"], path["strategy"]) if part]
    return {"path": " ".join(named), "noise": path["family"]}


def _limit_columns(what: str, limit: Limit) -> Path:
    def shown(value: Any) -> str | None:
        return None if value is None else str(value) if what == "budget" else level_text(value)

    return {
        what: shown(limit.now),
        "limit_at_first_release": shown(limit.at_first_release),
        "standing": limit.standing,
    }


def _first_generation(paths: Sequence[Path]) -> int | None:
    return min((path["first_generation"] for path in paths if path["first_generation"] is not None), default=None)
