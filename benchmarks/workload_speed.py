"""What do prefix sums and ranges of ten million cells cost, beside a pair of Fourier transforms of that length?

    python benchmarks/workload_speed.py --runs 7 --out workload_speed.json

A level draws normals and transforms them once; prefix sums are added up, joined with the exact answers and
rounded; of ranges R⁻¹(Rx + Z) is published, from which each is a sum. A new path also computes its strategy, checks
it and prices every query. The pair is scipy's `rfft` and `irfft`. Target: at most 10 of it, and memory linear in the
cells.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from _measure import arguments, figure, in_turns, milliseconds, options_of, ratio, report, seconds, summary, table
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


def contenders(cells: int) -> dict[str, Callable[[], object]]:
    """The pair, and releases at a first and at a second level."""
    rng = np.random.default_rng(1)
    signal = rng.standard_normal(cells)
    held = rng.choice(cells, cells // 10, replace=False)
    counts = Cells((cells,), (held,), rng.integers(1, 100, held.size))
    work: dict[str, Callable[[], object]] = {"rfft and irfft": lambda: fft.irfft(fft.rfft(signal), cells)}
    for name, workload in (("prefix sums", Prefix(cells)), ("ranges", Ranges(cells))):
        strategy = Spectral(workload)
        known = {FINER: next_state(Gaussian(), strategy, {}, FINER, rng=generator())}
        work[f"{name}, first level"] = released(strategy, counts, {})
        work[f"{name}, a coarser level"] = released(strategy, counts, known)
        work[f"{name}, a new path"] = new_path(workload, counts)
    return work


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
        known = strategy.l2(1), strategy.prefix_variances(), strategy.mean_variance()
        return known, released(strategy, counts, {})()

    return work


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=7)
    parser.add_argument("--cells", type=int, default=10_000_000)
    options = options_of(parser)
    timings = in_turns(contenders(options.cells), options.runs, warm=1)
    pair = "rfft and irfft"
    ratios = {
        what: {name: ratio(timings, name, pair, what) for name in timings if name != pair}
        for what in ("cpu_s", "wall_s")
    }
    rows = [["", "CPU ms", "wall ms", "ratio, CPU", "ratio, wall"]]
    for name, runs in timings.items():
        compared = [figure(ratios[what][name]) if name != pair else "" for what in ratios]
        rows.append([name, milliseconds(seconds(runs)), milliseconds(seconds(runs, "wall_s")), *compared])
    print(table(rows))
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
