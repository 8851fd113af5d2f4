"""What do prefix sums and ranges of ten million cells cost, beside a pair of Fourier transforms of that length?

    python benchmarks/workload_speed.py --runs 3 --out workload_speed.json

A level draws normals and transforms them once; prefix sums are added up, joined with the exact answers and rounded;
for ranges the cells x + R⁻¹·Z are published, from which each range is a sum. A new path also computes its strategy
and the variance of every query; it takes a minute of CPU time and is measured once. The pair is scipy's `rfft` and
`irfft`. Target for a level: at most 10 of it, and memory linear in the cells. Lines are printed as they are measured.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from _measure import (
    Spread,
    Timings,
    arguments,
    figure,
    in_turns,
    milliseconds,
    options_of,
    ratio,
    report,
    seconds,
    summary,
)
from scipy import fft

from sparsehist.entropy import generator
from sparsehist.histogram.grid import grid_step, round_to_grid
from sparsehist.noise import Gaussian
from sparsehist.workload import Cells, Prefix, Ranges, cells_of_state, next_state
from sparsehist.workload.strategies.spectral import Spectral
from sparsehist.workload.strategies.strategy import Strategy

TARGET = 10
LEVEL, FINER = Fraction(1), Fraction(2)
GRID = grid_step(1.0)


PAIR = "rfft and irfft"
Work = dict[str, Callable[[], object]]


def contenders(workload: Prefix | Ranges, name: str, counts: Cells) -> tuple[Work, Work]:
    """Releases at a first and at a second level; and a new path."""
    strategy = Spectral(workload)
    known = {FINER: next_state(Gaussian(), strategy, {}, FINER, rng=generator())}
    levels = {
        f"{name}, first level": released(strategy, counts, {}),
        f"{name}, a coarser level": released(strategy, counts, known),
    }
    return levels, {f"{name}, a new path": new_path(workload, counts)}


def released(strategy: Strategy, counts: Cells, known: dict[Fraction, np.ndarray]) -> Callable[[], object]:
    """Draw a level and make what is published of it."""

    def work() -> object:
        state = next_state(Gaussian(), strategy, known, LEVEL, rng=generator())
        noise = np.cumsum(cells_of_state(Gaussian(), strategy, state))
        rounded = round_to_grid(noise, GRID)
        if strategy.workload.explicit:
            rounded += strategy.workload.answers(counts)
            return rounded
        cells = np.diff(rounded, prepend=0.0)
        cells += counts.dense()
        return cells

    return work


def new_path(workload: Prefix | Ranges, counts: Cells) -> Callable[[], object]:
    """All that a first release on a path computes: scaling and spectrum, sensitivity, variances, release."""

    def work() -> object:
        strategy = Spectral(workload)
        known = strategy.l2(1), strategy.prefix_variances, strategy.mean_variance()
        return known, released(strategy, counts, {})()

    return work


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=3)
    parser.add_argument("--cells", type=int, default=10_000_000)
    options = options_of(parser)
    rng = np.random.default_rng(1)
    signal = rng.standard_normal(options.cells)
    held = rng.choice(options.cells, options.cells // 10, replace=False)
    counts = Cells((options.cells,), (held,), rng.integers(1, 100, held.size))
    pair: Work = {PAIR: lambda: fft.irfft(fft.rfft(signal), options.cells)}
    timings: Timings = {}
    ratios: dict[str, dict[str, Spread]] = {"cpu_s": {}, "wall_s": {}}
    for name, workload in (("prefix sums", Prefix(options.cells)), ("ranges", Ranges(options.cells))):
        levels, path = contenders(workload, name, counts)
        for work, runs, warm in ((levels, options.runs, 1), (path, 1, 0)):
            measured = in_turns(pair | work, runs, warm=warm)
            for each in work:
                for what, found in ratios.items():
                    found[each] = ratio(measured, each, PAIR, what)
                cost = f"CPU {milliseconds(seconds(measured[each]))} ms, {figure(ratios['cpu_s'][each])} of the pair"
                print(f"{each}: {cost}; on the clock {figure(ratios['wall_s'][each])}", flush=True)
            timings = measured | timings
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"peak {peak / 2**20:,.0f} MB, {peak / options.cells:.0f} bytes per cell; target {TARGET} of the pair")
    result = {
        "cells": options.cells,
        "target": TARGET,
        "ratios": ratios,
        "peak_mb": peak / 2**20,
        "medians": summary(timings),
    }
    report(__doc__.splitlines()[0], options, result, timings)


if __name__ == "__main__":
    main()
