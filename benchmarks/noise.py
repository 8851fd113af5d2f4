"""What does a draw cost, for every family and every step?

    python benchmarks/noise.py --runs 7 --out noise.json

Nanoseconds of CPU per draw, all contenders in turns in one run, on vectors at a sensitivity of 1. Beside them numpy's
own draws of that law from PCG64, the same from the cryptographic stream that is used in production (AES in counter
mode), and, where `opendp` is installed, its samplers. Target: the cryptographic stream within 1.25 times PCG64.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
from _measure import Spread, Timings, arguments, figure, in_turns, options_of, ratio, report, spread, summary, table

from sparsehist import entropy
from sparsehist.noise import DiscreteLaplace, Exponential, Family, Gaussian, Laplace, Poisson, Skellam

FAMILIES: dict[str, Family] = {
    "Gaussian": Gaussian(),
    "Laplace": Laplace(),
    "discrete Laplace": DiscreteLaplace(1),
    "Poisson": Poisson(1),
    "Skellam": Skellam(1),
    "exponential": Exponential(),
}
# Coarse, middle, fine; for Poisson and Skellam means of 100, 50 and 20.
LEVELS = {"Poisson": ("1/100", "1/50", "1/20"), "Skellam": ("1/100", "1/50", "1/20")}
USUAL_LEVELS = ("1/10", "1/5", "1/2")
STREAM_TARGET = 1.25
Work = dict[str, Callable[[], object]]


def steps(name: str, family: Family, size: int, rng: np.random.Generator) -> Work:
    """Every step of a family, on noise of the right law, and the draws of a tail three deviations out."""
    coarse, middle, fine = LEVELS.get(name, USUAL_LEVELS)
    low = family.sample(size, fine, rng=rng)
    high = family.coarsen(low, fine, coarse, rng=rng)
    far = float(np.ceil(getattr(family, "mean", lambda _: 0.0)(middle) + 3 * family.std(middle)))
    both = np.stack([high, high])
    return {
        f"{name}, sample": lambda: family.sample(size, fine, rng=rng),
        f"{name}, coarsen": lambda: family.coarsen(low, fine, coarse, rng=rng),
        f"{name}, refine": lambda: family.refine(high, coarse, fine, rng=rng),
        f"{name}, between": lambda: family.between(high, coarse, low, fine, middle, rng=rng),
        f"{name}, sample_tail": lambda: family.sample_tail(size, far, middle, rng=rng),
        f"{name}, carry of a pair": lambda: family.carry(both, coarse, fine, rng=rng),
    }


def plain(size: int) -> Work:
    """Numpy's draws, from its own stream and from the one used in production."""
    streams = {"PCG64": np.random.default_rng(), "AES": entropy.generator()}
    work: Work = {}
    for stream, rng in streams.items():
        work |= {
            f"numpy standard_normal, {stream}": lambda rng=rng: rng.standard_normal(size),
            f"numpy laplace, {stream}": lambda rng=rng: rng.laplace(0.0, 2.0, size),
            f"numpy standard_exponential, {stream}": lambda rng=rng: rng.standard_exponential(size),
            f"numpy poisson(20), {stream}": lambda rng=rng: rng.poisson(20.0, size),
            f"numpy integers, {stream}": lambda rng=rng: rng.integers(0, 2**62, size),
        }
    return work


def opendp_samplers(size: int) -> Work:
    """OpenDP's Gaussian, Laplace and discrete Laplace mechanisms, if it is there."""
    try:
        import opendp.prelude as dp
    except ImportError:
        print("opendp is not installed: measured without it")
        return {}
    dp.enable_features("contrib")
    reals = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    integers = dp.vector_domain(dp.atom_domain(T="i64"))
    laplace = dp.m.make_laplace(reals, dp.l1_distance(T=float), scale=2.0)
    gaussian = dp.m.make_gaussian(reals, dp.l2_distance(T=float), scale=2.0)
    discrete = dp.m.make_laplace(integers, dp.l1_distance(T="i64"), scale=2.0)
    zeros, whole = np.zeros(size), np.zeros(size, np.int64)
    return {
        "opendp make_gaussian": lambda: gaussian(zeros),
        "opendp make_laplace": lambda: laplace(zeros),
        "opendp make_laplace, integers": lambda: discrete(whole),
    }


def costs(timings: Timings, slow: Collection[str], draws: int, slow_draws: int) -> dict[str, Spread]:
    """CPU nanoseconds per draw, printed as a table; the slow contenders make fewer draws."""
    found = {
        name: spread([1e9 * run.cpu_s / (slow_draws if name in slow else draws) for run in runs])
        for name, runs in timings.items()
    }
    rows = [[name, f"{cost.median:.1f}", f"{cost.lower:.1f}–{cost.upper:.1f}"] for name, cost in found.items()]
    print(table([["CPU ns per draw", "median", "quartiles"], *rows]))
    return found


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=7)
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument("--opendp-draws", type=int, default=20_000)
    options = options_of(parser)
    rng = entropy.generator()
    work = plain(options.draws)
    for name, family in FAMILIES.items():
        work |= steps(name, family, options.draws, rng)
    slow = opendp_samplers(options.opendp_draws)
    timings = in_turns(work | slow, options.runs, warm=1)
    nanoseconds = costs(timings, slow, options.draws, options.opendp_draws)
    normals = "numpy standard_normal, {}"
    stream = ratio(timings, normals.format("AES"), normals.format("PCG64"))
    print(f"normals from AES over normals from PCG64: {figure(stream)}, target {STREAM_TARGET}")
    result = {
        "sizes": {"draws": options.draws, "opendp_draws": options.opendp_draws},
        "target": STREAM_TARGET,
        "stream": stream,
        "nanoseconds": nanoseconds,
        "medians": summary(timings),
    }
    report("a draw of every family and step", options, result, timings)


if __name__ == "__main__":
    main()
