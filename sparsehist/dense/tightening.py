"""Coarser releases from a published one, without the truth: coarsening adds independent noise.

Papers: [KHP eq. 26].
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sparsehist.dense.dense_state import DenseState, draw_level, published, whole_steps
from sparsehist.dense.rounding import as_power_of_two, chunks, publication_step
from sparsehist.dense.truth import require_categories
from sparsehist.errors import DataError, LevelOrderError
from sparsehist.noise.family import DenseFamily, NoiseArray
from sparsehist.privacy.levels import Level, as_level, level_text
from sparsehist.typing import ArrayLike, Generator


def bought_state(values: ArrayLike, family: DenseFamily, level: Level, *, truth_step: float = 1.0) -> DenseState:
    """Make a state from the published values of one release; it is sealed at the level of the release."""
    bought = np.asarray(values)
    if bought.ndim != 1 or bought.size == 0 or bought.dtype.kind not in "iuf":
        raise DataError("a release is a vector of numbers with at least one entry")
    if not bool(np.isfinite(bought).all()):
        raise DataError("the values hold NaN or infinite numbers; a release has none")
    dtype = np.dtype(np.int64 if family.integer else np.float64)
    anchor: NoiseArray = bought.astype(dtype)
    if family.integer and not bool((anchor == bought).all()):
        raise DataError(f"{type(family).__name__} releases whole numbers, and these are not")
    require_categories(anchor, family)
    offsets = np.zeros(anchor.size, dtype)
    if not family.integer:
        step = as_power_of_two(truth_step, "truth_step")
        for part in chunks(anchor.size):
            whole_steps(anchor[part], step)
            np.subtract(bought[part], anchor[part], out=offsets[part])
    return DenseState(family, anchor, float(truth_step), {as_level(level): offsets}, sealed=True)


def tighten(
    values: ArrayLike,
    family: DenseFamily,
    level_have: Level,
    level_want: Level,
    *,
    truth_step: float = 1.0,
    rng: Generator,
) -> NoiseArray:
    """Make a more private release out of a published one, without the truth.

    The result and the release together cost what the release costs. The results of two calls have independent noise
    added and together cost more than the finer of them; for several levels use `MultipleRelease.from_release`.

    Args:
        values: As published; shape (n,).
        family: The noise of the release.
        level_have: Its level.
        level_want: Coarser.
        truth_step: Grid of the truth, from the metadata of the release; 1 for counts.
        rng: Randomness; from `sparsehist.entropy` outside tests.

    Returns:
        Values at `level_want`, shape (n,): int64 for integer families, with the exact law; else float64 on the grid
        of that level, where the rounding of the bought values adds less than 4e-4 of the variance.

    Raises:
        LevelOrderError: If `level_want` is not coarser.
        DataError: If the values cannot be those of a release.

    Example:
        >>> from sparsehist import entropy
        >>> from sparsehist.noise import Gaussian
        >>> bought = np.array([10.0, 12.5])
        >>> tighten(bought, Gaussian(), 2, "1/2", rng=entropy.seeded(1)).shape
        (2,)
    """
    have, want = as_level(level_have), as_level(level_want)
    if not want < have:
        raise LevelOrderError(
            f"a release at level {level_text(have)} is tightened to a coarser (smaller) level, got {level_text(want)}"
        )
    state = bought_state(values, family, have, truth_step=truth_step)
    state.offsets[want] = draw_level(state, want, rng=rng)
    return published(state, want, step_of(state, want))


def step_of(state: DenseState, level: Fraction, step: float | None = None) -> float:
    """The grid on which a level of this state is published; 1 for integer families."""
    return 1.0 if state.family.integer else publication_step(state.family.std(level), state.truth_step, step)
