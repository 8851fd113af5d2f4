"""What do all pairs of 30 columns cost, next to the GROUP BYs that count them?

    python benchmarks/marginals.py --runs 5 --out marginals.json

A log of units with 30 attributes, 20 of five values and 10 of four: a product domain of 10^20 cells, of which a
million are nonzero; attributes lean towards those of the unit's group, so that pairs are correlated. Measured is the
whole way from the bounded counts to noisy answers: strategy, price for 20 keys per unit, exact sums, noise, rounding.
Beside it one GROUP BY with a sum for each of the 435 pairs, over the same cells with the attributes as bytes. Target:
at most twice the cheaper of those.

The error of the strategy is set beside the bound of the singular values, in closed form at this size, and beside
measuring every marginal by itself.
"""

from __future__ import annotations

from fractions import Fraction

import duckdb
import numpy as np
import polars as pl
from _measure import arguments, costs, in_turns, options_of, ratio, report, summary

from sparsehist import entropy
from sparsehist.histogram.grid import grid_step, round_to_grid
from sparsehist.noise import Gaussian
from sparsehist.workload import Cells, Marginals, next_state
from sparsehist.workload.strategies.plain import Direct
from sparsehist.workload.strategies.residual import ResidualBasis

SIZES = (5,) * 20 + (4,) * 10
TARGET = 2.0
LEVEL = Fraction(1, 10)


def cells_of_a_log(n_rows: int, *, seed: int) -> Cells:
    """Count a generated log by cell: units of 50 groups, one of ten attributes of a row taken from the group."""
    rng = entropy.seeded(seed)
    group = rng.integers(0, 50, n_rows)
    columns = []
    for size in SIZES:
        typical = rng.integers(0, size, 50)[group]
        free = np.minimum(rng.geometric(0.4, n_rows) - 1, size - 1)
        columns.append(np.where(rng.random(n_rows) < 0.1, typical, free).astype(np.uint8))
    frame = pl.DataFrame({f"c{i}": column for i, column in enumerate(columns)})
    counted = frame.group_by(pl.all()).len("count")
    coordinates = tuple(counted[f"c{i}"].to_numpy().astype(np.int64) for i in range(len(SIZES)))
    return Cells(SIZES, coordinates, counted["count"].to_numpy().astype(np.int64))


def released(cells: Cells, max_keys: int) -> np.ndarray:
    """All pairs, noisy, from nothing but the counts."""
    workload = Marginals(cells.shape, 2)
    strategy = ResidualBasis(workload)
    family = Gaussian(sensitivity=strategy.l2(max_keys))
    exact = workload.answers(cells)
    state = next_state(family, strategy, {}, LEVEL, rng=entropy.generator())
    std = family.std(float(LEVEL)) * np.sqrt(strategy.variance().min())
    return exact + round_to_grid(strategy.noise_answers(state), grid_step(float(std)))


def grouped_with_polars(frame: pl.DataFrame, pairs: list[tuple[str, str]]) -> None:
    """One GROUP BY a pair."""
    for pair in pairs:
        frame.group_by(pair).agg(pl.col("count").sum())


def grouped_with_duckdb(connection: duckdb.DuckDBPyConnection, pairs: list[tuple[str, str]]) -> None:
    """One GROUP BY a pair, over a table of the engine's own."""
    for one, two in pairs:
        connection.sql(f"select {one}, {two}, sum(count) as count from cells group by all").fetchnumpy()


def errors(max_keys: int) -> dict[str, float]:
    """Standard deviation of a query at level 0.1, as the root of the mean variance, by strategy."""
    workload = Marginals(SIZES, 2)
    found = {}
    for strategy in (ResidualBasis(workload), Direct(workload)):
        scale = Gaussian(sensitivity=strategy.l2(max_keys)).std(float(LEVEL))
        found[strategy.name] = scale * float(np.sqrt(strategy.mean_variance()))
    return found


def over_the_bound() -> float:
    """Mean variance of the residual basis for a unit of one cell over ‖A‖_*² / cells / queries.

    AᵀA is a sum of projections: on the residual of a set C of columns, of multiplicity Π_C (n - 1), its eigenvalue is
    the number of cells divided by those of each marginal that holds C, summed.
    """
    workload = Marginals(SIZES, 2)
    total = 0.0
    subsets = [(), *((i,) for i in range(len(SIZES))), *workload.marginals]
    for subset in subsets:
        over = sum(
            1.0 / size
            for marginal, size in zip(workload.marginals, workload.sizes, strict=True)
            if set(subset) <= set(marginal)
        )
        total += float(np.prod([SIZES[column] - 1 for column in subset])) * float(np.sqrt(over))
    strategy = ResidualBasis(workload)
    return strategy.mean_variance() * strategy.l2(1) ** 2 * workload.n_queries / total**2


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=5)
    parser.add_argument(
        "--cells", type=int, default=1_000_000, help="rows of the log; nearly all are cells of their own"
    )
    parser.add_argument("--max-keys", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = options_of(parser)
    cells = cells_of_a_log(options.cells, seed=options.seed)
    workload = Marginals(SIZES, 2)
    names = [f"c{i}" for i in range(len(SIZES))]
    columns = {name: column.astype(np.uint8) for name, column in zip(names, cells.coordinates, strict=True)}
    frame = pl.DataFrame(columns | {"count": cells.counts})
    connection = duckdb.connect()
    connection.execute("create table cells as from frame")
    pairs = [(names[one], names[two]) for one, two in workload.marginals]
    timings = in_turns(
        {
            "noisy marginals, all in all": lambda: released(cells, options.max_keys),
            "exact sums alone": lambda: workload.answers(cells),
            "435 GROUP BYs, Polars": lambda: grouped_with_polars(frame, pairs),
            "435 GROUP BYs, DuckDB": lambda: grouped_with_duckdb(connection, pairs),
        },
        options.runs,
        warm=1,
    )
    first, *_ = timings
    ratios = {
        what: {name: ratio(timings, first, name, what) for name in timings if "GROUP" in name}
        for what in ("cpu_s", "wall_s")
    }
    print(f"{len(cells.counts):,} nonzero cells of {cells.size:.1e}, {workload.n_queries:,} answers")
    heads = dict(zip(("ours over it, CPU", f"wall, target {TARGET:g}"), ratios.values(), strict=True))
    print(costs(timings, **heads))
    std = {f"{keys} keys a unit": errors(keys) for keys in (1, options.max_keys)}
    optimum = over_the_bound()
    print(f"mean variance over the bound of the singular values: {optimum:.6f}")
    for unit, found in std.items():
        print(
            f"std of an answer at level {LEVEL}, {unit}:", ", ".join(f"{name} {s:.1f}" for name, s in found.items())
        )
    price = ResidualBasis(workload).l2(options.max_keys)
    result = {
        "sizes": {
            "columns": len(SIZES),
            "domain_size": str(cells.size),
            "nonzero_cells": len(cells.counts),
            "marginals": len(workload.marginals),
            "answers": workload.n_queries,
            "max_keys": options.max_keys,
        },
        "target": TARGET,
        "ratios": ratios,
        "medians": summary(timings),
        "over_the_bound": optimum,
        "std": std,
        "sensitivity": price,
    }
    report("all pairs of 30 columns, next to their GROUP BYs", options, result, timings)


if __name__ == "__main__":
    main()
