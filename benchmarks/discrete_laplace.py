"""What does an exact draw of discrete Laplace noise cost, next to numpy's inexact ones and to OpenDP's exact one?

    python benchmarks/discrete_laplace.py --runs 15 --out discrete_laplace.json

Nanoseconds of CPU a draw, all contenders in turns in one run: the four steps of `DiscreteLaplace` on vectors, at a
few levels with a sensitivity of 1; numpy's `Generator.laplace` and `Generator.geometric` (PCG64); and, where `opendp`
is installed (it is no dependency), `make_laplace` on a vector of integers, which is exact as well. Target: a
hundredth of OpenDP's time for `sample`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from _measure import Spread, Timings, arguments, context, in_turns, ratio, report, spread, summary, table

from sparsehist import entropy
from sparsehist.noise.discrete_laplace import DiscreteLaplace

FAMILY = DiscreteLaplace(1)
TARGET = 100
# Coarse, middle, fine.
LEVELS = [("1/10", "1/5", "1/2"), ("1/2", "1", "2"), ("1/1000", "1/500", "1/100"), ("0.999", "0.9999", "1")]
OPENDP_SCALE = 2.0
Work = dict[str, Callable[[], object]]


def exact_steps(size: int, rng: np.random.Generator) -> Work:
    """Every step at every set of levels, on noise of the right law."""
    work: Work = {}
    for coarse, middle, fine in LEVELS:
        low = FAMILY.sample(size, fine, rng=rng)
        high = FAMILY.coarsen(low, fine, coarse, rng=rng)
        work |= {
            f"sample {fine}": lambda fine=fine: FAMILY.sample(size, fine, rng=rng),
            f"coarsen {fine} to {coarse}": lambda c=coarse, f=fine, z=low: FAMILY.coarsen(z, f, c, rng=rng),
            f"refine {coarse} to {fine}": lambda c=coarse, f=fine, z=high: FAMILY.refine(z, c, f, rng=rng),
            f"between {coarse} and {fine} at {middle}": lambda c=coarse, m=middle, f=fine, y=high, z=low: (
                FAMILY.between(y, c, z, f, m, rng=rng)
            ),
        }
    return work


def opendp_laplace(size: int) -> Work:
    """OpenDP's own exact sampler at the scale of level 1/2, if it is there."""
    try:
        import opendp.prelude as dp
    except ImportError:
        print("opendp is not installed: measured without it")
        return {}
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    mechanism, zeros = dp.m.make_laplace(*space, scale=OPENDP_SCALE), np.zeros(size, np.int64)
    return {"opendp make_laplace, scale 2": lambda: mechanism(zeros)}


def nanoseconds(timings: Timings, name: str, draws: int) -> Spread:
    """CPU a draw."""
    return spread([1e9 * timing.cpu_s / draws for timing in timings[name]])


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=15)
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument("--opendp-draws", type=int, default=20_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    started = context()
    rng, plain = entropy.generator(), np.random.default_rng()
    work: Work = exact_steps(options.draws, rng) | {
        "numpy laplace": lambda: plain.laplace(0.0, 2.0, options.draws),
        "numpy geometric": lambda: plain.geometric(0.4, options.draws),
    }
    slow = opendp_laplace(options.opendp_draws)
    timings = in_turns(work | slow, options.runs)
    draws = {name: options.opendp_draws if name in slow else options.draws for name in timings}
    costs = {name: nanoseconds(timings, name, draws[name]) for name in timings}
    ratios = {name: ratio(timings, name, "sample 1/2") for name in slow}
    times = {name: value.median * options.draws / options.opendp_draws for name, value in ratios.items()}
    rows = [["CPU ns a draw", "median", "quartiles"]]
    rows += [[name, f"{cost.median:.1f}", f"{cost.lower:.1f}–{cost.upper:.1f}"] for name, cost in costs.items()]
    print(table(rows))
    for name, factor in times.items():
        print(f"{name}: {factor:.0f} times the cost of an exact draw here (target {TARGET})")
    result = {
        "sizes": {"draws": options.draws, "opendp_draws": options.opendp_draws},
        "target": TARGET,
        "runs": options.runs,
        "nanoseconds": costs,
        "times_faster": times,
        "medians": summary(timings),
    }
    report("an exact draw of discrete Laplace noise", started, result, timings, options.out)


if __name__ == "__main__":
    main()
