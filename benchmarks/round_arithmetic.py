"""What does the arithmetic of a first round cost, next to drawing one normal for every nonzero cell?

    python benchmarks/round_arithmetic.py --runs 100 --out round_arithmetic.json

A million nonzero cells with Pareto counts of exponent 1 (about 1,800 distinct ones), a domain of 10^9 cells, and
a level at which about 6,000 cells are published with one false key expected. The round is `draw_round` with a
generator of its own, as production makes it; the yardstick is numpy's default generator drawing a million normals,
a generator of its own included as well. Target: at most a tenth.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from _measure import Spread, Timings, arguments, costs, in_turns, options_of, ratio, report, summary

from sparsehist import entropy
from sparsehist.histogram import draw_round, effective_threshold, grid_step, threshold_for_false_keys
from sparsehist.noise import Gaussian

FAMILY = Gaussian(sensitivity=1.0)
TARGET = 0.1


def groups(n_cells: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Distinct Pareto counts, P[count >= c] = 1/c, with the number of cells of each."""
    counts = np.floor(1 / entropy.seeded(seed).random(n_cells)).astype(np.int64)
    return np.unique(counts, return_counts=True)


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=100)
    parser.add_argument("--cells", type=int, default=1_000_000, help="nonzero cells")
    parser.add_argument("--domain-size", type=int, default=10**9)
    parser.add_argument("--level", default="0.0006")
    parser.add_argument("--seed", type=int, default=1)
    options = options_of(parser)
    level = Fraction(options.level)
    counts, cells = groups(options.cells, seed=options.seed)
    declared = threshold_for_false_keys(FAMILY, level, options.domain_size, 1.0)
    threshold = effective_threshold(declared, grid_step(FAMILY.std(level)))
    group_counts = np.append(0, counts)
    sizes = [options.domain_size - options.cells, *cells.tolist()]
    kept = entropy.generator()

    def one_round(rng: np.random.Generator) -> int:
        drawn = draw_round(
            FAMILY, [], level, threshold, neighbours={}, n_tracked=0, n_untracked=sizes, counts=group_counts, rng=rng
        )
        return drawn.new.values.size

    base = "a normal for every nonzero cell"
    timings: Timings = {}
    ratios: dict[str, Spread] = {}
    for name, work in {
        "a round": lambda: one_round(entropy.generator()),
        "a round, generator given": lambda: one_round(kept),
    }.items():
        pair = in_turns(
            {base: lambda: np.random.default_rng().standard_normal(options.cells), name: work}, options.runs
        )
        timings |= {name: pair[name], base: timings.get(base, []) + pair[base]}
        ratios[name] = ratio(pair, name, base)
    published = one_round(kept)
    question = "arithmetic of a first round, next to a normal for every nonzero cell"
    print(f"{options.cells} nonzero cells, {counts.size} distinct counts, {published} published")
    print(costs(timings, **{f"ratio, target {TARGET}": ratios}))
    result = {
        "sizes": {
            "cells": options.cells,
            "distinct_counts": int(counts.size),
            "domain_size": str(options.domain_size),
            "published": published,
            "level": options.level,
            "threshold": declared,
        },
        "target": TARGET,
        "ratios": ratios,
        "medians": summary(timings),
    }
    report(question, options, result, timings)


if __name__ == "__main__":
    main()
