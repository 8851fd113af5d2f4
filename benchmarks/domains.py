"""Which domain serves: how many keys of one log are published, whatever could have occurred.

    python benchmarks/domains.py --cran DIRECTORY --runs 5 --out domains.json

Packages that visitors of a mirror downloaded from 6 to 8 May 2014, at rho = 0.05 with 20 keys per unit; the public
list is that of all names in all days of the directory. Without it, the shipped log of page visits at the same level,
with its own pages as the list. Each run has a salt and noise of its own; figures are means with their standard error.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from _measure import Timing, arguments, options_of, report, table, timed
from real_logs import downloads, page_visits

import sparsehist as sh

LEVEL, MAX_KEYS = "0.05", 20
DAYS = tuple(f"2014-05-0{day}" for day in (6, 7, 8))


def domains(names: list[str]) -> dict[str, tuple[sh.Domain, dict[str, Any]]]:
    """What could occur, and how the threshold follows."""
    rarely = {"false_keys": 0.01}
    return {
        f"a public list of {len(names):,} names, one false key expected": (sh.Catalogue(names), {"false_keys": 1}),
        "the same, a hundredth of a false key": (sh.Catalogue(names), rarely),
        "an open domain, δ = 5·10⁻⁷ of 10⁻⁶": (sh.Open(delta="1e-6"), {"open_delta": 5e-7}),
        "printable ASCII of 32 bytes, a hundredth of a false key": (
            sh.Strings(max_bytes=32, alphabet="printable_ascii"),
            rarely,
        ),
        "all strings of 40 bytes, a hundredth of a false key": (sh.Strings(max_bytes=40), rarely),
    }


def published(log: pl.DataFrame, domain: sh.Domain, threshold: dict[str, Any], seed: int) -> tuple[int, float]:
    """How many keys a release has, and its threshold."""
    series = sh.create(
        sh.open(":memory:", seed=seed), log, name="log", unit="unit", key="key", max_keys=MAX_KEYS,
        domain=domain, on_null="drop", on_outside="drop", counting=sh.Counting(progress=False),
    )  # fmt: skip
    release = series.release("r", level=LEVEL, **threshold)
    return len(release), float(release.metadata["threshold"])


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=5)
    parser.add_argument("--cran", type=Path, help="directory with the download log")
    options = options_of(parser)
    if options.cran is None:
        log = page_visits().select(unit="user_id", key="url")
        names = log["key"].unique().sort().to_list()
    else:
        names = downloads(sorted(options.cran.glob("*.csv.gz")))["package"].drop_nulls().unique().sort().to_list()
        days = [options.cran / f"{day}.csv.gz" for day in DAYS]
        log = downloads(days).select(unit="user_id", key="package")
    rows: list[dict[str, Any]] = []
    timings: dict[str, list[Timing]] = {}
    for name, (domain, threshold) in domains(names).items():
        found: list[tuple[int, float]] = []
        for seed in range(options.runs):
            work = partial(published, log, domain, threshold, seed)
            timings.setdefault(name, []).append(timed(lambda held=found, work=work: held.append(work())))
        keys = np.array([keys for keys, _ in found])
        error = float(keys.std(ddof=1) / np.sqrt(keys.size)) if keys.size > 1 else 0.0
        row = {"domain": name, "threshold": found[0][1], "published": float(keys.mean()), "standard_error": error}
        rows.append(row)
    shown = [
        [r["domain"], f"{r['threshold']:.1f}", f"{r['published']:.0f} ± {r['standard_error']:.1f}"] for r in rows
    ]
    print(table([["domain", "threshold", "keys published"], *shown]))
    log_name = "the shipped log" if options.cran is None else "packages, 6 to 8 May 2014"
    result = {"log": log_name, "level": LEVEL, "max_keys": MAX_KEYS, "rows": rows}
    report("which domain serves", options, result, timings)


if __name__ == "__main__":
    main()
