"""How many keys are found where nobody can list them: bounded counts, one round, DP-SIPS, three rounds.

    python benchmarks/key_discovery.py --cran DIRECTORY --runs 20 --out key_discovery.json

Bounded counts are those of one release in an open domain. DP-SIPS differs from ours by the shares of its rounds: each
has .3 times the budget of the next (as in Google's dpsynth). Thresholds and accounting are ours in all rows.

The shipped log of page visits and a generated one; with --bing the queries of the Bing Coronavirus Query Set given to
generated units by their popularity; with --cran the twelve days of the download log of the CRAN mirror (one .csv.gz
file a day), a unit being a visitor on a day. Everything is found at rho = 0.1 and delta = 1e-6,
and a unit has 200 keys at most. Every run has a salt and noise of its own; figures are medians with the least and the
most. Target: 1,640 packages in three rounds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
from _measure import Timing, arguments, options_of, report, table, timed
from real_logs import downloads, page_visits

import sparsehist as sh
from sparsehist.release import key_discovery
from sparsehist.typing import FloatArray

LEVEL, DELTA, MOST_KEYS, TARGET = "0.1", "1e-6", 200, 1640


def by_counts(pairs: pl.DataFrame, max_keys: int, seed: int) -> int:
    """Keys that a series over an open domain shows in one release, half of its delta being for a later one."""
    domain = sh.Open(delta=2 * float(DELTA))
    series = sh.create(
        sh.open(":memory:", seed=seed), pairs, name="log", unit="unit", key="key", max_keys=max_keys, domain=domain,
    )  # fmt: skip
    return len(series.release("r", level=LEVEL))


def by_rounds(pairs: pl.DataFrame, rounds: int, seed: int) -> int:
    """Keys that are discovered."""
    return sh.discover_keys(
        sh.open(":memory:", seed=seed), pairs, unit="unit", key="key", most_keys=MOST_KEYS, rounds=rounds,
        level=LEVEL, delta=DELTA,
    ).size  # fmt: skip


def by_sips(pairs: pl.DataFrame, seed: int) -> int:
    """Keys that three rounds find with the shares of DP-SIPS."""
    shares = [Fraction(9, 139), Fraction(30, 139), Fraction(100, 139)]
    with mock.patch.object(key_discovery, "shares_of_rounds", return_value=shares):
        return by_rounds(pairs, 3, seed)


WAYS: dict[str, Callable[[pl.DataFrame, int], int]] = {
    "counts, max_keys 5": partial(by_counts, max_keys=5),
    "counts, max_keys 20": partial(by_counts, max_keys=20),
    "one round": partial(by_rounds, rounds=1),
    "three rounds, shares of DP-SIPS": by_sips,
    "three rounds": partial(by_rounds, rounds=3),
}


def generated(keys: pl.Series, weights: FloatArray) -> pl.DataFrame:
    """50,000 units with a lognormal number of keys, which are drawn by weight."""
    rng = np.random.default_rng(1)
    rows = np.clip(np.exp(rng.normal(1, 1.5, 50_000)), 1, 3000).astype(np.int64)
    until = np.cumsum(weights)
    drawn = np.searchsorted(until / until[-1], rng.random(int(rows.sum())))
    return pl.DataFrame({"unit": np.repeat(np.arange(rows.size), rows), "key": keys.gather(drawn)}).unique()


def logs(cran: Path | None, bing: Path | None) -> Iterator[tuple[str, pl.DataFrame]]:
    """Distinct pairs of unit and key."""
    yield "MSWeb: page", page_visits().select(unit="user_id", key="url").unique()
    ranks = np.arange(1, 200_001)
    yield "generated, weights 1/rank", generated(pl.Series(ranks.astype(str)), 1 / ranks)
    if bing is not None:
        rows = pl.read_csv(bing, separator="\t", quote_char=None, infer_schema=False)
        asked = rows.group_by("Query").agg(pl.col("PopularityScore").cast(pl.Int64).sum()).sort("Query")
        yield "Bing: query, generated units", generated(asked["Query"], asked["PopularityScore"].to_numpy())
    if cran is not None:
        log = downloads(sorted(cran.glob("*.csv.gz")))
        yield "CRAN: package", log.select(unit="user_id", key="package").drop_nulls().unique()


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=20)
    parser.add_argument("--cran", type=Path, help="directory with the download log")
    parser.add_argument("--bing", type=Path, help="the query set, a .tsv file")
    options = options_of(parser)
    rows: list[dict[str, object]] = []
    timings: dict[str, list[Timing]] = {}
    for name, pairs in logs(options.cran, options.bing):
        for way, work in WAYS.items():
            found: list[int] = []
            for seed in range(options.runs):
                run = partial(work, pairs, seed=seed)
                timings.setdefault(f"{name}, {way}", []).append(timed(lambda held=found, run=run: held.append(run())))
            spread = {"median": statistics.median(found), "least": min(found), "most": max(found)}
            rows.append({"log": name, "way": way, "keys": pairs["key"].n_unique(), **spread})
    heading = ["log", "way", "keys in all", "found", "least", "most"]
    print(table([heading, *([str(cell) for cell in row.values()] for row in _in_order(rows))]))
    report(
        __doc__.splitlines()[0], options, {"level": LEVEL, "delta": DELTA, "target": TARGET, "rows": rows}, timings
    )


def _in_order(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{name: row[name] for name in ("log", "way", "keys", "median", "least", "most")} for row in rows]


if __name__ == "__main__":
    main()
