"""Draw the noise of a workload release at a new level, given the stored noise of the adjacent levels.

The stored noise of one level is called a state: see `next_state`. Source: [ARNP Lemma 5.1].
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from sparsehist.errors import as_mapping, read_each
from sparsehist.histogram.dense import noise_at_level
from sparsehist.noise.family import Family, NoiseArray
from sparsehist.privacy.levels import as_level
from sparsehist.typing import FloatArray, Generator, float_array, noise_array
from sparsehist.workload.queries.workload import AnswerArray
from sparsehist.workload.strategies.strategy import Strategy


def next_state(
    family: Family, strategy: Strategy, neighbours: Mapping[Fraction, NoiseArray], level: Fraction, *, rng: Generator
) -> NoiseArray:
    """Draw the state (stored noise) at a new level, given the states at the next coarser and the next finer level.

    Args:
        family: Noise family, scaled to the sensitivity of the strategy.
        strategy: The factorization A = L·R.
        neighbours: Dict from level to state. Only the states at the two levels adjacent to `level` are used. Secret.
        level: The new level; not a level of `neighbours`.
        rng: Randomness; from `sparsehist.entropy` outside tests.

    Returns:
        R⁻¹·Z, shape (cells,), if the noise is Gaussian and R has a left inverse; otherwise Z, shape (n_noise,).

    Source: [ARNP Alg. 2, Lemma 5.2], with Z of one entry per row of R: linear images of a Brownian bridge are bridges
    with the same weights. For the other families, each entry of Z is drawn separately: [ARNP Alg. 4, Alg. 5].
    """
    names = read_each("levels of neighbours", list(as_mapping("neighbours", neighbours)), as_level, "a level")
    known = dict(zip(names, (noise_array("neighbours", noise) for noise in neighbours.values()), strict=True))
    if not family.linear:
        return noise_at_level(family, level, known, strategy.n_noise, rng=rng)
    coarse = max((at for at in known if at < level), default=None)
    fine = min((at for at in known if at > level), default=None)
    weight_coarse, weight_fine, scale = gaussian_step(coarse, fine, level)
    fresh = rng.standard_normal(strategy.n_noise)
    fresh *= family.std(Fraction(1, 2)) * scale  # at rho = 1/2, the std of Gaussian noise equals the sensitivity
    state: NoiseArray = strategy.to_cells(fresh) if strategy.invertible else fresh
    for at, weight in ((coarse, weight_coarse), (fine, weight_fine)):
        if at is not None:
            state = state + weight * known[at]
    return state


def gaussian_step(coarse: Fraction | None, fine: Fraction | None, level: Fraction) -> tuple[float, float, float]:
    """Return the two weights and the std that are needed to draw noise at a level between a coarser and a finer one.

    The noise at `level` is the weighted sum of the noise at `coarse` and at `fine`, plus new noise with this std. For
    sensitivity 1, ρ·Z(ρ) is a Brownian motion in ρ with variance ρ/2; its values at `coarse` and `fine` are known.
    """
    if coarse is not None and fine is not None:
        span = level * (fine - coarse)
        variance = (level - coarse) * (fine - level) / (2 * level * span)
        return float(coarse * (fine - level) / span), float(fine * (level - coarse) / span), math.sqrt(variance)
    if fine is not None:
        return 0.0, 1.0, math.sqrt((fine - level) / (2 * fine * level))
    if coarse is not None:
        return float(coarse / level), 0.0, math.sqrt((level - coarse) / (2 * level * level))
    return 0.0, 0.0, math.sqrt(Fraction(1, 2) / level)


def state_size(family: Family, strategy: Strategy) -> int:
    """Return the number of entries of a state (the stored noise of one level)."""
    return strategy.workload.n_cells if family.linear and strategy.invertible else strategy.n_noise


def cells_of_state(family: Family, strategy: Strategy, state: NoiseArray) -> FloatArray:
    """Return the noise R⁻¹·Z of each cell, given a state; shape (cells,). Raise an error if R has no left inverse."""
    kept = float_array("the state", state)
    return kept if family.linear and strategy.invertible else strategy.to_cells(kept)


def answers_of_state(family: Family, strategy: Strategy, state: NoiseArray) -> AnswerArray:
    """Return the noise L·Z of the answers of a listed workload, given a state; shape (queries,)."""
    if strategy.invertible:
        return strategy.workload.apply(cells_of_state(family, strategy, state))
    return strategy.noise_answers(float_array("the state", state))
