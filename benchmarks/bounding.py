"""Keep or share: what bounding units costs the counts that people look at.

    python benchmarks/bounding.py --cran DIRECTORY --runs 20 --out bounding.json

For logs whose units have many keys, each bounded at 5, 20 and 100 keys both ways and released at rho = 0.1: the
median relative error of the 200 largest keys against the log itself, bounded by nobody, and how many keys are
published at a hundredth of a false key. Every run has a salt and noise of its own; figures are means with their
standard error.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
from _measure import Timing, arguments, context, report, table, timed
from real_logs import Case, cases

import sparsehist as sh

LEVEL, LARGEST = "0.1", 200
BOUNDS = (5, 20, 100)


def measured(case: Case, pairs: pl.DataFrame, max_keys: int, bounding: str, seed: int) -> tuple[float, int]:
    """Median relative error of the largest keys, and the keys published.

    The error is that of noisy counts above a threshold or not, so it does not depend on the domain: that of a release
    of all keys of the log.
    """
    declared = {"name": "log", "unit": case.unit, "max_keys": max_keys, "bounding": bounding, "seed": seed}
    series = sh.create(
        ":memory:", pairs, key=case.key, domain=case.domain, on_outside="drop", progress=False, **declared
    )
    published = len(series.release("r", level=LEVEL))
    joined = pairs.select(case.unit, key=pl.concat_str(*map(pl.col, case.key), separator="|"))
    counted = joined.group_by("key").len("units").sort("units", "key", descending=True)
    every = sh.create(
        ":memory:", joined, key="key", domain=sh.Catalogue(counted["key"].to_list()), progress=False, **declared
    ).release("r", level=LEVEL, threshold=-1e6, max_false_keys=1e9)
    truth = counted.head(LARGEST).join(every.frame, on="key", how="left")
    return float(((truth["noisy_count"] - truth["units"]).abs() / truth["units"]).median()), published  # type: ignore[arg-type]


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=20)
    parser.add_argument("--cran", type=Path, help="directory with the download log")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    started = context()
    rows: list[dict[str, object]] = []
    timings: dict[str, list[Timing]] = {}
    for case in cases(options.cran):
        if "two days" in case.name or "version" in case.name:
            continue
        pairs = case.log().select(case.unit, *case.key).drop_nulls().unique()
        for max_keys, bounding in product(BOUNDS, ("keep", "share")):
            found: list[tuple[float, int]] = []
            for seed in range(options.runs):
                work = partial(measured, case, pairs, max_keys, bounding, seed)
                timings.setdefault(f"{case.name}, {max_keys} keys, {bounding}", []).append(
                    timed(lambda held=found, work=work: held.append(work()))
                )
            error, published = np.array(found).T
            rows.append(
                {
                    "log": case.name,
                    "max_keys": max_keys,
                    "bounding": bounding,
                    "relative_error": float(error.mean()),
                    "published": float(published.mean()),
                    "standard_errors": [one.std(ddof=1) / math.sqrt(one.size) for one in (error, published)],
                }
            )
    shown = [["", "max_keys", "relative error", "keys published"]]
    for row in rows:
        errors = row["standard_errors"]
        shown.append(
            [
                f"{row['log']}, {row['bounding']}",
                str(row["max_keys"]),
                f"{row['relative_error']:.4f} ± {errors[0]:.4f}",  # type: ignore[index]
                f"{row['published']:,.1f} ± {errors[1]:.1f}",  # type: ignore[index]
            ]
        )
    print(table(shown))
    report(
        __doc__.splitlines()[0], started, {"runs": options.runs, "level": LEVEL, "rows": rows}, timings, options.out
    )


if __name__ == "__main__":
    main()
