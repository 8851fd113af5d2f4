"""What does a round over a dense vector cost, beside drawing as many plain numbers in numpy?

    python benchmarks/dense_round.py --runs 15 --out dense_round.json

A round draws the noise of a level next to those it knows, keeps it, rounds it to its grid and adds the vector:
two arrays come out where numpy makes one. Numpy draws from PCG64, we from AES keyed by the operating system.
Target: a first Gaussian round within 1.5 times `standard_normal`, a first Laplace round within 3 times `laplace`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from _measure import arguments, costs, in_turns, options_of, ratio, report, summary

from sparsehist.dense.dense_state import DenseState, draw_level, published
from sparsehist.dense.resale import step_of
from sparsehist.entropy import generator
from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.noise.family import Family
from sparsehist.noise.gaussian import Gaussian
from sparsehist.noise.laplace import Laplace

FAMILIES: dict[str, Family] = {
    "Gaussian": Gaussian(),
    "Laplace": Laplace(),
    "discrete Laplace": DiscreteLaplace(sensitivity=1),
}
PLAIN = {"Gaussian": "numpy standard_normal", "Laplace": "numpy laplace", "discrete Laplace": "numpy laplace"}
TARGETS = {"Gaussian, first round": 1.5, "Laplace, first round": 3.0}
COARSE, LEVEL, FINE = Fraction(1, 2), Fraction(1), Fraction(2)


def rounds(name: str, family: Family, size: int) -> dict[str, Callable[[], object]]:
    """A round with no neighbour, with a finer, a coarser, both; none of them changes the state it starts from."""
    truth = np.zeros(size, np.int64 if family.integer else np.float64)
    whole = DenseState(family, truth, 1.0)
    whole.offsets[FINE] = draw_level(whole, FINE, rng=generator())
    whole.offsets[COARSE] = draw_level(whole, COARSE, rng=generator())

    def with_levels(*levels: Fraction) -> Callable[[], object]:
        state = DenseState(family, truth, 1.0, {level: whole.offsets[level] for level in levels})
        return lambda: one_round(state)

    return {
        f"{name}, first round": with_levels(),
        f"{name}, coarser": with_levels(FINE),
        f"{name}, finer": with_levels(COARSE),
        f"{name}, between": with_levels(COARSE, FINE),
    }


def one_round(state: DenseState) -> np.ndarray:
    """Draw the level and its values, and forget it."""
    state.offsets[LEVEL] = draw_level(state, LEVEL, rng=generator())
    values = published(state, LEVEL, step_of(state, LEVEL))
    del state.offsets[LEVEL]
    return values


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=15)
    parser.add_argument("--size", type=int, default=2_000_000)
    options = options_of(parser)
    plain = np.random.default_rng(1)
    contenders: dict[str, Callable[[], object]] = {
        "numpy standard_normal": lambda: plain.standard_normal(options.size),
        "numpy laplace": lambda: plain.laplace(size=options.size),
    }
    against = {}
    for name, family in FAMILIES.items():
        for contender, work in rounds(name, family, options.size).items():
            contenders[contender], against[contender] = work, PLAIN[name]
    timings = in_turns(contenders, options.runs)
    ratios = {name: ratio(timings, name, to) for name, to in against.items()}
    print(costs(timings, **{"ratio to numpy": ratios}))
    print("targets:", ", ".join(f"{name} {target:g}" for name, target in TARGETS.items()))
    result = {
        "entries": options.size,
        "targets": TARGETS,
        "ratios": ratios,
        "medians": summary(timings),
    }
    report(__doc__.splitlines()[0], options, result, timings)


if __name__ == "__main__":
    main()
