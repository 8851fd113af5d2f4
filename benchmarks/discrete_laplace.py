"""What does an exact draw of discrete Laplace noise cost, next to numpy's inexact ones and to OpenDP's exact one?

    python benchmarks/discrete_laplace.py --runs 15 --out discrete_laplace.json

Nanoseconds of CPU per draw, all contenders in turns in one run: the four steps of `DiscreteLaplace` on vectors, at a
few levels with a sensitivity of 1; numpy's `Generator.laplace` and `Generator.geometric` (PCG64); and, where `opendp`
is installed (it is no dependency), `make_laplace` on a vector of integers, which is exact as well. Target: a
hundredth of OpenDP's time for `sample`.
"""

from __future__ import annotations

import numpy as np
from _measure import arguments, in_turns, options_of, ratio, report, summary
from noise import Work, costs, opendp_samplers

from sparsehist import entropy
from sparsehist.noise.discrete_laplace import DiscreteLaplace

FAMILY = DiscreteLaplace(1)
TARGET = 100
# Coarse, middle, fine.
LEVELS = [("1/10", "1/5", "1/2"), ("1/2", "1", "2"), ("1/1000", "1/500", "1/100"), ("0.999", "0.9999", "1")]


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


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=15)
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument("--opendp-draws", type=int, default=20_000)
    options = options_of(parser)
    rng, plain = entropy.generator(), np.random.default_rng()
    work: Work = exact_steps(options.draws, rng) | {
        "numpy laplace": lambda: plain.laplace(0.0, 2.0, options.draws),
        "numpy geometric": lambda: plain.geometric(0.4, options.draws),
    }
    samplers = opendp_samplers(options.opendp_draws)
    slow = {"opendp make_laplace, scale 2": samplers["opendp make_laplace, integers"]} if samplers else {}
    timings = in_turns(work | slow, options.runs)
    nanoseconds = costs(timings, slow, options.draws, options.opendp_draws)
    ratios = {name: ratio(timings, name, "sample 1/2") for name in slow}
    times = {name: value.median * options.draws / options.opendp_draws for name, value in ratios.items()}
    for name, factor in times.items():
        print(f"{name}: {factor:.0f} times the cost of an exact draw here (target {TARGET})")
    result = {
        "sizes": {"draws": options.draws, "opendp_draws": options.opendp_draws},
        "target": TARGET,
        "nanoseconds": nanoseconds,
        "times_faster": times,
        "medians": summary(timings),
    }
    report("an exact draw of discrete Laplace noise", options, result, timings)


if __name__ == "__main__":
    main()
