"""The noise path of a workload: draw the state at a new level, given the states at adjacent levels.

Papers: [ARNP Lemma 5.1].
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
    """Draw the state at a new level, given states at other levels; only the two adjacent ones matter.

    Args:
        family: The noise, with the sensitivity of the strategy.
        strategy: A = L·R.
        neighbours: States by level. Secret.
        level: The new level, not among them.
        rng: Randomness; from `sparsehist.entropy` outside tests.

    Returns:
        For Gaussian noise R⁻¹·Z if R has a left inverse, shape (cells,); otherwise Z, shape (n_noise,).

    Source: [ARNP Alg. 2, Lemma 5.2], with Z of one entry per row of R: linear images of a Brownian bridge are bridges
    with the same weights. The other families step entry by entry: [ARNP Alg. 4, Alg. 5].
    """
    names = read_each("levels of neighbours", list(as_mapping("neighbours", neighbours)), as_level, "a level")
    known = dict(zip(names, (noise_array("neighbours", noise) for noise in neighbours.values()), strict=True))
    if not family.linear:
        return noise_at_level(family, level, known, strategy.n_noise, rng=rng)
    coarse = max((at for at in known if at < level), default=None)
    fine = min((at for at in known if at > level), default=None)
    weight_coarse, weight_fine, scale = gaussian_step(coarse, fine, level)
    fresh = rng.standard_normal(strategy.n_noise)
    fresh *= family.std(Fraction(1, 2)) * scale  # at level 1/2 the deviation is the sensitivity
    state: NoiseArray = strategy.to_cells(fresh) if strategy.invertible else fresh
    for at, weight in ((coarse, weight_coarse), (fine, weight_fine)):
        if at is not None:
            state = state + weight * known[at]
    return state


def gaussian_step(coarse: Fraction | None, fine: Fraction | None, level: Fraction) -> tuple[float, float, float]:
    """Return weights of the coarser and the finer neighbour, and the deviation of the added noise, at sensitivity 1.

    They follow from S(ρ) = ρ·Z(ρ), a Brownian motion of variance ρ/2, given S at the neighbours.
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
    """Return the number of entries of a state."""
    return strategy.workload.n_cells if family.linear and strategy.invertible else strategy.n_noise


def cells_of_state(family: Family, strategy: Strategy, state: NoiseArray) -> FloatArray:
    """Return R⁻¹·Z, shape (cells,): all answers are A·(x + R⁻¹·Z). Refused if R has no left inverse."""
    kept = float_array("the state", state)
    return kept if family.linear and strategy.invertible else strategy.to_cells(kept)


def answers_of_state(family: Family, strategy: Strategy, state: NoiseArray) -> AnswerArray:
    """Return L·Z for every listed query; shape (queries,)."""
    if strategy.invertible:
        return strategy.workload.apply(cells_of_state(family, strategy, state))
    return strategy.noise_answers(float_array("the state", state))
