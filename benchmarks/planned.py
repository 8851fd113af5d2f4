"""Does what was planned happen? Predictions of `plan` beside what releases of real logs then do.

    python benchmarks/planned.py --cran DIRECTORY --out planned.json

For each log and level: how many keys the plan, applied to the true counts (which only a benchmark on public data may
look at), says will be published, how far off they will be on average, and how many false keys; beside them what
was published, with the distance in standard deviations. Target: at most 4 of them, over all comparisons.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from _measure import arguments, options_of, report, table
from real_logs import LEVELS, Case, bounded_counts, cases
from scipy.special import ndtri, pdtr, pdtrc

import sparsehist as sh
from sparsehist.histogram.thresholds import mean_error, publication_probability

TARGET = 4.0
_NEVER = 1e-12


def measured(case: Case) -> list[dict[str, float | str]]:
    """Plan, release and compare at each level."""
    found = []
    with tempfile.TemporaryDirectory() as directory:
        store = sh.open(Path(directory) / "store", create=True)
        series = sh.create(
            store, case.log(), name="log", unit=case.unit, key=case.key, max_keys=case.max_keys,
            domain=case.domain, on_null="drop", on_outside="drop", counting=sh.Counting(progress=False),
        )  # fmt: skip
        truth = bounded_counts(store, "log", case.key)
        for name, level in LEVELS:
            planned = series.plan(level).levels.row(0, named=True)
            released = series.release(name, level=level)
            assert planned["threshold"] == released.metadata["threshold"]
            found.append({"log": case.name, "level": level} | compared(series, released, truth, case.key))
    return found


def compared(series: sh.Series, released: sh.Release, truth: pl.DataFrame, key: Sequence[str]) -> dict[str, float]:
    """Predicted and seen: published keys, their mean error, false keys; distances in standard deviations."""
    family, level = series.declaration.family, released.metadata["level"]
    threshold = released.metadata["effective_threshold"]
    counts, keys_of_count = np.unique(truth["count"].to_numpy(), return_counts=True)
    chance = publication_probability(family, level, threshold, counts)
    likely = chance > _NEVER
    errors = np.array([mean_error(family, level, threshold, int(count)) for count in counts[likely]])
    published = float((keys_of_count * chance).sum())
    spread = math.sqrt(float((keys_of_count * chance * (1 - chance)).sum()) + 1e-9)
    off = float((keys_of_count * chance)[likely] @ errors)
    both = released.frame.join(truth, on=list(key), how="left")
    true = both.drop_nulls("count")
    distance = (true["noisy_count"] - true["count"]).abs().to_numpy()
    false, expected_false = both["count"].null_count(), float(released.metadata["expected_false_keys"])
    # |Z| has a standard deviation of 0.6 of Z's, and the number of published keys varies as well.
    spread_off = math.sqrt(published * family.std(level) ** 2 * (1 - 2 / math.pi) + (spread * errors.max()) ** 2)
    return {
        "published": true.height,
        "published_planned": published,
        "published_z": (true.height - published) / spread,
        "total_error": float(distance.sum()),
        "total_error_planned": off,
        "total_error_z": (float(distance.sum()) - off) / spread_off,
        "false_keys": false,
        "false_keys_planned": expected_false,
        "false_keys_z": poisson_distance(false, expected_false),
    }


def poisson_distance(seen: int, mean: float) -> float:
    """How unlikely a number of rare events is, in standard deviations of a normal as unlikely."""
    if seen > mean:
        return float(-ndtri(pdtrc(seen - 1, mean)))
    return float(ndtri(pdtr(seen, mean)))


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=1)
    parser.add_argument("--cran", type=Path, help="directory with the download log")
    options = options_of(parser)
    rows = [row for case in cases(options.cran) for _ in range(options.runs) for row in measured(case)]
    furthest = max(abs(float(row[what])) for row in rows for what in row if what.endswith("_z"))
    columns = list(rows[0])
    print(table([columns, *([_shown(row[column]) for column in columns] for row in rows)]))
    print(f"furthest: {furthest:.2f} standard deviations, target {TARGET}")
    result = {"target": TARGET, "furthest": furthest, "compared": rows}
    report("plans beside what releases of real logs did", options, result, rows)


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.4g}"


if __name__ == "__main__":
    main()
