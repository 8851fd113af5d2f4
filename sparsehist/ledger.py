"""The ledger as a table: what was spent by path, by series and by population."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import polars as pl

from sparsehist.noise import currency_of
from sparsehist.privacy import Cost, as_level, level_text, path_cost, total_cost

_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "scope": pl.String,
    "population": pl.String,
    "series": pl.String,
    "path": pl.String,
    "noise": pl.String,
    "releases": pl.Int64,
    "currency": pl.String,
    "level": pl.String,
    "cost": pl.Float64,
    "numerical_slack": pl.Float64,
    "cap": pl.String,
    "first_release": pl.Datetime("us"),
    "last_release": pl.Datetime("us"),
    "dropped": pl.Datetime("us"),
    "unverified": pl.Boolean,
}


def ledger_frame(spent: pl.DataFrame) -> pl.DataFrame:
    """Add up what was spent.

    Args:
        spent: One row a noise path, as the state keeps it: series, series_id, population, kind, workload,
            strategy, family, level (the finest, exact text), n_releases, cap, first_release, last_release,
            numerical_slack, dropped, unverified.

    Returns:
        Rows of scope "path" (its finest level), "series" (the sum over its paths) and "population" (the sum
        over its series). `level` is exact text in `currency` ("rho" of zCDP, "epsilon" of pure DP), null where
        nothing was spent or currencies are mixed; `cost` is rho, which pure DP implies too. Where one of
        several guarantees has no rho (Poisson, Skellam), `currency` is "none" and `cost` null: this version
        does not add them up. `numerical_slack` is the total variation by which rounds may miss their law.
    """
    rows: list[dict[str, Any]] = []
    of_series: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in spent.iter_rows(named=True):  # a row is a path, not a row of anybody's log
        of_series[path["series_id"]].append(path)
    of_population: dict[str, list[Cost]] = defaultdict(list)
    for paths in of_series.values():
        costs = [_path_cost(path) for path in paths]
        shown = {field: paths[0][field] for field in ("population", "series", "cap", "dropped", "unverified")}
        for path, cost in zip(paths, costs, strict=True):
            finest = {"level": path["level"]}  # a path has a finest level even where its cost adds to nothing
            rows.append(shown | _times([path]) | _cost("path", cost, [path]) | finest | _path_columns(path))
        rows.append(shown | _times(paths) | _cost("series", total_cost(costs), paths))
        of_population[paths[0]["population"]] += costs
    for population, costs in of_population.items():
        inside = [path for paths in of_series.values() for path in paths if path["population"] == population]
        rows.append({"population": population} | _times(inside) | _cost("population", total_cost(costs), inside))
    return pl.DataFrame([{column: row.get(column) for column in _SCHEMA} for row in rows], schema=_SCHEMA)


def costs_in_words(ledger: pl.DataFrame) -> pl.Series:
    """The costs of a ledger for people: the amount with its currency; column "spent".

    Several currencies add up as rho only, and a guarantee without one has no sum.
    """
    exact = pl.format("{} {}", "currency", "level")
    added = pl.coalesce(exact, pl.format("rho ≈ {}", pl.col("cost").round(6)), pl.lit("no sum"))
    own = pl.when(pl.col("currency") == "none").then(pl.coalesce("level", pl.lit("no sum"))).otherwise(added)
    words = pl.when(pl.col("releases") == 0).then(pl.lit("nothing")).otherwise(own)
    return ledger.select(words.alias("spent")).to_series()


def _path_cost(path: dict[str, Any]) -> Cost:
    return path_cost(currency_of(path["family"]), as_level(path["level"]) if path["level"] else None)


def _path_columns(path: dict[str, Any]) -> dict[str, Any]:
    named = [part for part in (path["kind"], path["workload"], path["strategy"]) if part]
    return {"path": " ".join(named), "noise": path["family"]}


def _cost(scope: str, cost: Cost, paths: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "scope": scope,
        "currency": cost.currency,
        "level": level_text(cost.amount) if cost.amount else None,
        "cost": cost.rho,
        "numerical_slack": sum(path["numerical_slack"] for path in paths),
        "releases": sum(path["n_releases"] for path in paths),
    }


def _times(paths: list[dict[str, Any]]) -> dict[str, Any]:
    first = [path["first_release"] for path in paths if path["first_release"] is not None]
    last = [path["last_release"] for path in paths if path["last_release"] is not None]
    return {"first_release": min(first, default=None), "last_release": max(last, default=None)}
