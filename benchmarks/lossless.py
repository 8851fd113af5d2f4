"""What do lossless releases gain over independent ones, and over doubling, at the same total budget?

    python benchmarks/lossless.py --cran DIRECTORY --out lossless.json

Three ways to serve m audiences, at levels spaced evenly on a logarithmic scale from rho = 0.001 to 5, so that what
audiences 1 to i have together seen costs at most their level rho_i:

- lossless: one noise path; everybody's noise has the variance of a single release, 1/(2 rho_i);
- independent: audience i gets a release of its own, with the budget that is left: rho_i - rho_(i-1);
- doubling: independent releases at r, 2r, 4r, …, whatever the audiences; each gets the finest that they may.

First the variance of the noise (measured over 10^6 cells, in scrambled order, beside the formulas), which is Figure 2
of Andersson, Retschmeier, Nelson and Pagh; then, on real logs, how many keys are published and how far off they are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from _measure import arguments, options_of, report, table
from real_logs import Case, bounded_counts, cases

import sparsehist as sh
from sparsehist.entropy import seeded
from sparsehist.histogram.dense import noise_at_level

NUMBERS_OF_RELEASES = (2, 5, 10, 20, 50)
LEAST, MOST = 0.001, 5.0
AUDIENCES = ("0.01", "0.015", "0.024", "0.037", "0.057", "0.088", "0.14", "0.21", "0.32", "0.5")
WAYS = ("lossless", "independent", "doubling")


def levels_between(m: int) -> list[Fraction]:
    """m levels, evenly spaced on a logarithmic scale."""
    return [Fraction(repr(float(level))) for level in np.geomspace(LEAST, MOST, m)]


def budgets(levels: Sequence[Fraction], way: str) -> list[Fraction]:
    """The level of the release that each audience is given."""
    if way == "lossless":
        return list(levels)
    if way == "independent":
        return [level - before for level, before in zip(levels, [Fraction(0), *levels[:-1]], strict=True)]
    step = levels[0]  # releases at step, 2 step, 4 step, …; the first j of them cost (2**j - 1) step together
    return [step * 2 ** (int((level / step + 1).__floor__()).bit_length() - 2) for level in levels]


def measured_variances(levels: Sequence[Fraction], way: str, cells: int, rng: np.random.Generator) -> list[float]:
    """Variance of the noise each audience sees, over many cells, released in scrambled order."""
    family = sh.noise.Gaussian()
    given = budgets(levels, way)
    if way != "lossless":
        return [float(family.sample(cells, level, rng=rng).var()) for level in given]
    noise: dict[Fraction, Any] = {}
    for i in rng.permutation(len(given)).tolist():
        noise[given[i]] = noise_at_level(family, given[i], noise, cells, rng=rng)
    return [float(noise[level].var()) for level in given]


def curves(cells: int, rng: np.random.Generator) -> list[dict[str, object]]:
    """The figure: level, way, number of releases, variance measured and by formula."""
    rows: list[dict[str, object]] = []
    for m in NUMBERS_OF_RELEASES:
        levels = levels_between(m)
        for way in WAYS:
            found = measured_variances(levels, way, cells, rng)
            for level, given, variance in zip(levels, budgets(levels, way), found, strict=True):
                rows.append(
                    {
                        "releases": m,
                        "way": way,
                        "rho": float(level),
                        "variance": variance,
                        "formula": float(1 / (2 * given)),
                        "times_lossless": variance * 2 * float(level),
                    }
                )
    return rows


def end_to_end(case: Case) -> list[dict[str, object]]:
    """Keys published and their errors for ten audiences, at the same total budget."""
    rows: list[dict[str, object]] = []
    levels = [Fraction(level) for level in AUDIENCES]
    log = case.log()
    with tempfile.TemporaryDirectory() as directory:
        store = sh.open(Path(directory) / "store", create=True)
        declared: dict[str, Any] = {
            "unit": case.unit, "key": case.key, "max_keys": case.max_keys, "domain": case.domain,
            "on_null": "drop", "on_outside": "drop", "counting": sh.Counting(progress=False),
        }  # fmt: skip
        series = sh.create(store, log, name="lossless", **declared)
        truth = bounded_counts(store, series.name, case.key)
        for way in WAYS:
            for number, (audience, given) in enumerate(zip(levels, budgets(levels, way), strict=True)):
                if way != "lossless":  # noise of its own: a series of its own on the same bounded counts
                    counts = sh.Counts(truth, count="count", largest=1)
                    bounded = {name: declared[name] for name in ("key", "max_keys", "domain")}
                    series = sh.create(store, counts, name=f"{way}_{number}", **bounded)
                released = series.release(f"audience_{number}", level=given, false_keys=1)
                rows.append(
                    {"log": case.name, "way": way, "audience": float(audience), "given": float(given)}
                    | _errors(released.frame, truth, case.key)
                )
    return rows


def _errors(frame: pl.DataFrame, truth: pl.DataFrame, key: Sequence[str]) -> Mapping[str, float]:
    joined = truth.join(frame, on=list(key), how="left", nulls_equal=True)
    published = joined.drop_nulls("noisy_count")
    off = (published["noisy_count"] - published["count"]).abs()
    missed = joined["noisy_count"].is_null()
    return {
        "published": float(frame.height),
        "mean_error": float(off.mean() or 0.0),
        "share_of_counts_published": float(published["count"].sum() / truth["count"].sum()),
        "missed_keys": float(missed.sum()),
    }


def main() -> None:
    """Measure, print, write JSON."""
    parser = arguments(__doc__, runs=1)
    parser.add_argument("--cells", type=int, default=1_000_000)
    parser.add_argument("--cran", type=Path, help="directory of the CRAN download log")
    options = options_of(parser)
    rng = seeded(1)
    found = curves(options.cells, rng)
    worst = max(abs(float(row["variance"]) / float(row["formula"]) - 1) for row in found)
    print(f"variance over {options.cells:,} cells: at most {worst:.2%} off the formula\n")
    shown = [["releases", "way", "variance over lossless: least", "most"]]
    for m in NUMBERS_OF_RELEASES:
        for way in WAYS:
            times = [float(row["times_lossless"]) for row in found if (row["releases"], row["way"]) == (m, way)]
            shown.append([str(m), way, f"{min(times):.2f}", f"{max(times):.2f}"])
    print(table(shown) + "\n")
    logs = [case for case in cases(options.cran) if len(case.key) != 2]
    errors = [row for case in logs for row in end_to_end(case)]
    columns = ["log", "way", "audience", "given", "published", "mean_error", "share_of_counts_published"]
    print(table([columns, *([_shown(row[column]) for column in columns] for row in errors)]))
    result = {
        "cells": options.cells,
        "variances": found,
        "furthest_off": worst,
        "end_to_end": errors,
    }
    report("lossless against independent releases and doubling", options, result, {"cells": options.cells})


def _shown(value: object) -> str:
    return f"{value:,.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
