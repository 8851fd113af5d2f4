"""How well each strategy would answer a workload of a series: from public parameters only, and at no cost."""

from __future__ import annotations

import math
from collections.abc import Iterable

import polars as pl

from sparsehist.errors import DeclarationError
from sparsehist.noise.family import sensitivity_norm
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.series.declaration import Declaration
from sparsehist.series.workload_answers import check_noise, family_for
from sparsehist.workload import Strategy, Workload, choose, compare, strategy_named

LEVELS = ("0.001", "0.01", "0.1", "1")
_SCHEMA: dict[str, type[pl.DataType]] = {
    "strategy": pl.String,
    "level": pl.String,
    "std": pl.Float64,
    "lower_bound": pl.Float64,
    "ratio": pl.Float64,
    "sensitivity": pl.Float64,
    "sensitivity_lower": pl.Float64,
    "chosen": pl.Boolean,
}


def chosen_strategy(declaration: Declaration, workload: Workload) -> Strategy:
    """What "auto" takes: the least mean error at the series' max_keys among what its noise can be added to.

    Raises:
        DeclarationError: If the noise has no workloads, or no strategy measures whole numbers for discrete noise.
    """
    check_noise(declaration.family)
    pure = sensitivity_norm(declaration.family) == "l1"
    if not declaration.family.integer:
        return choose(workload, declaration.max_keys, pure=pure)
    for candidate in compare(workload, declaration.max_keys, pure=pure):
        strategy = strategy_named(candidate.strategy, workload)
        if strategy.integral:
            return strategy
    raise DeclarationError(f"no strategy for {workload.describe()} measures whole numbers: take noise='laplace'")


def planned_strategies(
    declaration: Declaration, workload: Workload, levels: Level | Iterable[Level] | None
) -> pl.DataFrame:
    """The table of `Series.plan_workload`."""
    chosen = chosen_strategy(declaration, workload)
    pure = sensitivity_norm(declaration.family) == "l1"
    given = LEVELS if levels is None else levels
    listed = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    exact = [as_level(level) for level in listed]
    rows: list[dict[str, object]] = []
    for candidate in compare(workload, declaration.max_keys, pure=pure):
        strategy = strategy_named(candidate.strategy, workload)
        if declaration.family.integer and not strategy.integral:
            continue
        family = family_for(declaration.family, strategy, declaration.max_keys)
        mean = strategy.mean_variance()
        for level in exact:
            std = family.std(level) * math.sqrt(mean)
            rows.append(
                {
                    "strategy": candidate.strategy,
                    "level": level_text(level),
                    "std": std,
                    "lower_bound": None if candidate.ratio is None else std / math.sqrt(candidate.ratio),
                    "ratio": candidate.ratio,
                    "sensitivity": candidate.sensitivity.l1 if pure else candidate.sensitivity.l2,
                    "sensitivity_lower": None if pure else candidate.sensitivity.l2_lower,
                    "chosen": candidate.strategy == chosen.name,
                }
            )
    return pl.DataFrame(rows, schema=_SCHEMA)
