"""Keep or share: what bounding units costs the counts that people look at.

    python benchmarks/bounding.py --cran DIRECTORY --runs 20 --out bounding.json

For logs whose units have many keys, each bounded at 5, 20 and 100 keys both ways and released at rho = 0.1: the
median relative error of the 200 largest keys against the log itself, bounded by nobody, and how many keys are
published at a hundredth of a false key. Every run has a salt and noise of its own; figures are means with their
standard error.

Then `choose_max_keys` at level 0.005 on these logs and on a generated one of a heavier tail: the error of the bound
it takes over that of the best one in hindsight. That is the root mean square over the 500 largest keys of what the
bound cuts from them, and of the noise. Domains are catalogues of what occurs.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from _measure import Timing, arguments, options_of, report, table, timed
from real_logs import Case, cases

import sparsehist as sh
from sparsehist.series.max_keys import BOUNDS as CHOSEN_FROM

LEVEL, LARGEST = "0.1", 200
CHOICE, LARGEST_OF_CHOICE, TARGET = "0.005", 500, 1.1
BOUNDS = (5, 20, 100)


def measured(case: Case, pairs: pl.DataFrame, max_keys: int, bounding: str, seed: int) -> tuple[float, int]:
    """Median relative error of the largest keys, and the keys published.

    The error is that of noisy counts above a threshold or not, so it does not depend on the domain: that of a release
    of all keys of the log.
    """
    declared = {"name": "log", "unit": case.unit, "max_keys": max_keys, "bounding": bounding}
    series = sh.create(
        sh.open(":memory:", seed=seed),
        pairs,
        key=case.key,
        domain=case.domain,
        on_outside="drop",
        **declared,
        counting=sh.Counting(progress=False),
    )
    published = len(series.release("r", level=LEVEL))
    joined = pairs.select(case.unit, key=pl.concat_str(*map(pl.col, case.key), separator="|"))
    counted = joined.group_by("key").len("units").sort("units", "key", descending=True)
    every = sh.create(
        sh.open(":memory:", seed=seed),
        joined,
        key="key",
        domain=sh.Catalogue(counted["key"].to_list()),
        **declared,
        counting=sh.Counting(progress=False),
    ).release("r", level=LEVEL, threshold=-1e6, max_false_keys=1e9)
    truth = counted.head(LARGEST).join(every.frame, on="key", how="left")
    return float(((truth["noisy_count"] - truth["units"]).abs() / truth["units"]).median()), published  # type: ignore[arg-type]


def heavier() -> pl.DataFrame:
    """Units with a Pareto number of keys, half of which have more than six, one in a hundred more than 300."""
    rng = np.random.default_rng(19)
    rows = np.minimum(rng.random(20_000) ** -1.0 * 3, 5000).astype(np.int64)
    keys = np.minimum(rng.random(int(rows.sum())) ** -1.4, 50_000).astype(np.int64)
    return pl.DataFrame({"unit": np.repeat(np.arange(rows.size), rows), "key": keys.astype(str)}).unique()


def hindsight(case: Case, pairs: pl.DataFrame) -> dict[tuple[int, str], float]:
    """The error of every bound, from the secret log."""
    counted = pairs.with_columns(keys=pl.len().over(case.unit)).join(
        pairs.group_by(case.key).len("units").sort("units", *case.key, descending=True).head(LARGEST_OF_CHOICE),
        on=list(case.key),
    )
    errors = {}
    for bound, (way, power) in product(CHOSEN_FROM, (("keep", 1.0), ("share", 0.5))):
        weight = pl.min_horizontal(1.0, (bound / pl.col("keys")) ** power)
        if way == "share":
            weight = (64 * weight + 1e-9).floor() / 64
        lost = counted.group_by(case.key).agg(bias=(1 - weight).sum())["bias"].to_numpy()
        errors[bound, way] = math.sqrt(float(np.mean(lost**2)) + bound / (2 * float(LEVEL)))
    return errors


def chosen(case: Case, pairs: pl.DataFrame, seed: int) -> tuple[int, str]:
    """What `choose_max_keys` takes."""
    taken = sh.choose_max_keys(
        sh.open(":memory:", seed=seed), pairs, unit=case.unit, key=case.key, domain=case.domain, level=CHOICE,
        largest_keys=LARGEST_OF_CHOICE, release_level=LEVEL, counting=sh.Counting(progress=False),
    )  # fmt: skip
    return taken.max_keys, taken.bounding


def listed(case: Case, pairs: pl.DataFrame) -> Case:
    """The same log with the catalogue of each column as its domain."""
    catalogues = {name: sh.Catalogue(pairs[name].unique().sort().to_list()) for name in case.key}
    domain = sh.Product(**catalogues) if len(catalogues) > 1 else catalogues[case.key[0]]
    return case._replace(domain=domain)


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=20)
    parser.add_argument("--cran", type=Path, help="directory with the download log")
    parser.add_argument("--logs", default="", help="only logs whose name begins so")
    options = options_of(parser)
    rows: list[dict[str, object]] = []
    choices: list[dict[str, object]] = []
    timings: dict[str, list[Timing]] = {}
    generated = Case("generated, heavier tail", heavier, "unit", ("key",), sh.Strings(max_bytes=5), 0)
    for case in (*cases(options.cran), generated):
        if "two days" in case.name or "version" in case.name or not case.name.startswith(options.logs):
            continue
        pairs = case.log().select(case.unit, *case.key).drop_nulls().unique()
        by_name = listed(case, pairs := pairs.with_columns(pl.col(case.key).cast(pl.String)))
        errors = hindsight(case, pairs)
        taken: list[tuple[int, str]] = []
        for seed in range(options.runs):
            work = partial(chosen, by_name, pairs, seed)
            timings.setdefault(f"{case.name}, choice", []).append(
                timed(lambda held=taken, work=work: held.append(work()))
            )
        ratios = np.array([errors[choice] for choice in taken]) / min(errors.values())
        choices.append(
            {
                "log": case.name,
                "best": min(errors, key=errors.__getitem__),
                "taken": Counter(taken).most_common(1)[0][0],
                "over_the_best": float(ratios.mean()),
                "largest": float(ratios.max()),
                "within_target": float(np.mean(ratios <= TARGET)),
            }
        )
        if case is generated:
            continue
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
    print(
        table(
            [["", "best", "mostly taken", "error over the best", "largest", "within 10 %"], *map(_in_words, choices)]
        )
    )
    result = {"level": LEVEL, "target": TARGET, "rows": rows, "choices": choices}
    report(__doc__.splitlines()[0], options, result, timings)


def _in_words(choice: dict[str, Any]) -> list[str]:
    """A row of the table of choices."""
    bounds = [" ".join(map(str, choice[what])) for what in ("best", "taken")]
    figures = [f"{choice[what]:.3f}" for what in ("over_the_best", "largest")]
    return [choice["log"], *bounds, *figures, f"{choice['within_target']:.0%}"]


if __name__ == "__main__":
    main()
