"""Does an unlikely history make releases slow, and do later rounds cost more than earlier ones?

    python benchmarks/histories.py --runs 20 --out histories.json

Fifty releases of 10,000 cells with Pareto counts over a domain of a million, levels in scrambled order, once as they
fall and once with a far survivor: after the first round one tracked cell gets noise 20 standard deviations below
the mean (no noise at all where noise is never negative), so that it stays unpublished though its count is large.
Both take turns on one core, with the same generator. Targets: CPU within 10 %; round 50 at most twice round 10,
each with the two rounds before and after it, as rounds differ in what they publish.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from _measure import Spread, arguments, figure, options_of, report, spread, table

from sparsehist import entropy
from sparsehist.histogram import draw_round, effective_threshold, grid_step, threshold_for_false_keys
from sparsehist.noise import DiscreteLaplace, Family, Gaussian, Laplace, Poisson, Skellam
from sparsehist.noise.family import NoiseArray

FAMILIES: dict[str, Family] = {
    "gaussian": Gaussian(),
    "laplace": Laplace(),
    "discrete_laplace": DiscreteLaplace(),
    "poisson": Poisson(),
    "skellam": Skellam(),
}
ROUNDS, DOMAIN = 50, 10**6
TARGETS = {"survivor": 0.1, "round_50_over_10": 2.0}
QUESTION = "Does an unlikely history make releases slow, and do later rounds cost more than earlier ones?"
EARLY, LATE = slice(7, 12), slice(45, 50)


def levels(seed: int) -> list[Fraction]:
    """From 1/100 to 1, in scrambled order, the coarsest and the finest not first."""
    order = entropy.seeded(seed).permutation(ROUNDS)
    return [Fraction(round(10_000 * 100 ** (i / (ROUNDS - 1))), 1_000_000) for i in order.tolist()]


def rounds(family: Family, seed: int) -> list[tuple[Fraction, float]]:
    """Levels with the thresholds at which one false key is expected."""
    declared = [(level, threshold_for_false_keys(family, level, DOMAIN, 1.0)) for level in levels(seed)]
    step = {level: 1.0 if family.integer else grid_step(family.std(level)) for level, _ in declared}
    return [(level, effective_threshold(threshold, step[level])) for level, threshold in declared]


def release(
    family: Family, releases: Sequence[tuple[Fraction, float]], counts: np.ndarray, *, survivor: bool
) -> list[float]:
    """Draw all rounds; CPU seconds of each."""
    rng = entropy.generator()
    group_counts, left = np.unique(np.append(0, counts), return_counts=True)
    left[0] = DOMAIN - counts.size
    known: dict[Fraction, NoiseArray] = {}
    n_tracked, seconds = 0, []
    for number, (level, threshold) in enumerate(releases):
        started = time.process_time()
        drawn = draw_round(
            family,
            releases[:number],
            level,
            threshold,
            neighbours={at: known[at] for at in _adjacent(known, level)},
            n_tracked=n_tracked,
            n_untracked=left,
            counts=group_counts,
            rng=rng,
        )
        seconds.append(time.process_time() - started)
        known[level] = drawn.tracked
        new = {at: drawn.new.paths[:, i] for i, (at, _) in enumerate(releases[:number])} | {level: drawn.new.values}
        known = {at: np.append(noise, new[at]) for at, noise in known.items()}
        left = left - np.bincount(drawn.new.group, minlength=left.size)
        n_tracked += drawn.new.values.size
        if survivor and number == 0:
            known[level][-1] = 0 if isinstance(family, Poisson) else round(-20 * family.std(level))
    return seconds


def _adjacent(known: dict[Fraction, NoiseArray], level: Fraction) -> list[Fraction]:
    below, above = [at for at in known if at < level], [at for at in known if at > level]
    return [*([max(below)] if below else []), *([min(above)] if above else [])]


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=20)
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=FAMILIES)
    options = options_of(parser)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rows = [["family", "CPU s of 50 rounds", "with a far survivor, ratio", "round 50 over round 10"]]
    families: dict[str, object] = {}
    raw: dict[str, object] = {}
    for name in options.families:
        family = FAMILIES[name]
        counts = np.floor(1 / entropy.seeded(1).random(options.cells)).astype(np.int64)
        pairs, growth = [], []
        for run in range(-1, options.runs):
            releases = rounds(family, max(run, 0))
            order = (False, True) if run % 2 else (True, False)
            spent = {far: release(family, releases, counts, survivor=far) for far in order}
            if run >= 0:
                pairs.append((math.fsum(spent[False]), math.fsum(spent[True])))
                growth.append(math.fsum(spent[False][LATE]) / math.fsum(spent[False][EARLY]))
        plain, ratio, later = _spreads(pairs, growth)
        rows.append([name, figure(plain), figure(ratio), figure(later)])
        families[name] = {"seconds": plain, "survivor": ratio, "round_50_over_10": later}
        raw[name] = {"seconds_without_and_with": pairs, "round_50_over_10": growth}
        print(table([rows[0], rows[-1]]), flush=True)
    result = {"cells": options.cells, "rounds": ROUNDS, "targets": TARGETS, "families": families}
    report(QUESTION, options, result, raw)


def _spreads(pairs: list[tuple[float, float]], growth: list[float]) -> tuple[Spread, Spread, Spread]:
    return spread([plain for plain, _ in pairs]), spread([far / plain for plain, far in pairs]), spread(growth)


if __name__ == "__main__":
    main()
