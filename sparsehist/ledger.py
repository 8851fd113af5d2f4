"""The ledger as a table: what was spent by path, by series and by population."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import Any

import polars as pl

from sparsehist.privacy import as_level, level_text, total_cost

_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "scope": pl.String,
    "population": pl.String,
    "series": pl.String,
    "path": pl.String,
    "noise": pl.String,
    "releases": pl.Int64,
    "level": pl.String,
    "cost": pl.Float64,
    "cap": pl.String,
    "first_release": pl.Datetime("us"),
    "last_release": pl.Datetime("us"),
    "dropped": pl.Datetime("us"),
}


def ledger_frame(spent: pl.DataFrame) -> pl.DataFrame:
    """Add up what was spent.

    Args:
        spent: One row a noise path, as the state keeps it: series, series_id, population, kind, workload,
            strategy, family, level (the finest, exact text), n_releases, cap, first_release, last_release,
            dropped.

    Returns:
        Rows of scope "path" (its finest level), "series" (the sum over its paths) and "population" (the sum
        over its series). `level` is exact text, null where nothing was spent; `cost` the same as a number,
        rho of zCDP.
    """
    rows: list[dict[str, Any]] = []
    of_series: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in spent.iter_rows(named=True):  # a row is a path, not a row of anybody's log
        of_series[path["series_id"]].append(path)
    of_population: dict[str, list[Fraction]] = defaultdict(list)
    for paths in of_series.values():
        costs = [as_level(path["level"]) if path["level"] else Fraction(0) for path in paths]
        shown = {field: paths[0][field] for field in ("population", "series", "cap", "dropped")}
        for path, cost in zip(paths, costs, strict=True):
            rows.append(shown | _times([path]) | _cost("path", cost, [path]) | _path_columns(path))
        rows.append(shown | _times(paths) | _cost("series", total_cost(costs), paths))
        of_population[paths[0]["population"]].append(total_cost(costs))
    for population, costs in of_population.items():
        inside = [path for paths in of_series.values() for path in paths if path["population"] == population]
        rows.append({"population": population} | _times(inside) | _cost("population", total_cost(costs), inside))
    return pl.DataFrame([{column: row.get(column) for column in _SCHEMA} for row in rows], schema=_SCHEMA)


def _path_columns(path: dict[str, Any]) -> dict[str, Any]:
    named = [part for part in (path["kind"], path["workload"], path["strategy"]) if part]
    return {"path": " ".join(named), "noise": path["family"]}


def _cost(scope: str, cost: Fraction, paths: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "scope": scope,
        "level": level_text(cost) if cost else None,
        "cost": float(cost),
        "releases": sum(path["n_releases"] for path in paths),
    }


def _times(paths: list[dict[str, Any]]) -> dict[str, Any]:
    first = [path["first_release"] for path in paths if path["first_release"] is not None]
    last = [path["last_release"] for path in paths if path["last_release"] is not None]
    return {"first_release": min(first, default=None), "last_release": max(last, default=None)}
