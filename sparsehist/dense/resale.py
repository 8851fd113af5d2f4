"""Draw coarser releases from a published release without the truth, and compute the joint cost of releases.

Drawing a coarser release from a published one is called a *resale*. Each resale begins a new noise path below its
parent release, so releases form a tree. Releases together cost at most the level of their lowest common ancestor,
because all could be drawn from this ancestor. A release records the noise paths from the root of the tree to itself
(its *lineage*) by random names. With names computed from published values, a buyer could test guesses of the values.

Source: [KHP section 4.3, eq. 26]; common ancestors, and precisions for Gaussian noise, are our own derivation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from sparsehist.dense.dense_release import DenseRelease
from sparsehist.dense.dense_state import DenseState, draw_level, published, whole_steps
from sparsehist.dense.rounding import as_power_of_two, chunks
from sparsehist.dense.truth import require_categories
from sparsehist.errors import DataError, DeclarationError, InputError, LevelOrderError
from sparsehist.histogram.grid import grid_step
from sparsehist.noise.family import DenseFamily, NoiseArray
from sparsehist.noise.gaussian import Gaussian
from sparsehist.privacy.levels import Level, as_level, level_text
from sparsehist.typing import ArrayLike, Generator

# A grid step is at least 2**-44 standard deviations, so noise stays below 2**50 steps and is rounded exactly.
_FINEST_STEP = 2.0**-44

Line = tuple[tuple[str, Fraction], ...]
"""Lineage of a release: the name of each noise path from the root of the tree, and the level released on it."""


def bought_state(values: ArrayLike, family: DenseFamily, level: Level, *, truth_step: float = 1.0) -> DenseState:
    """Return a sealed state (without the truth) from which coarser levels of a published release can be drawn."""
    bought = np.asarray(values)
    if bought.ndim != 1 or bought.size == 0 or bought.dtype.kind not in "iuf":
        raise DataError("a release must be a vector of numbers with at least one entry")
    if not bool(np.isfinite(bought).all()):
        raise DataError("the values contain NaN or infinite numbers")
    dtype = np.dtype(np.int64 if family.integer else np.float64)
    anchor: NoiseArray = bought.astype(dtype)
    if family.integer and not bool((anchor == bought).all()):
        raise DataError(f"the values must be whole numbers for the family {type(family).__name__}")
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
    """Draw a coarser, more private release from a published release, without the truth.

    The result adds nothing to the cost of the published release. Results of two calls have independent noise, so
    together they cost more than the finer of them. For several levels, use `MultipleRelease.from_release`.

    Args:
        values: Published values; shape (n,).
        family: The noise of the release.
        level_have: Level of the release.
        level_want: Level of the result; coarser.
        truth_step: Grid of the truth, from the metadata of the release; 1 for counts.
        rng: Randomness; from `sparsehist.entropy` outside tests.

    Returns:
        Values at `level_want`, shape (n,): int64 for integer families, exactly distributed; otherwise float64 on the
        grid of that level. Because published values are rounded, the variance is up to 0.04 % too large.

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
        raise LevelOrderError(f"level_want must be below level_have, got {level_text(want)} and {level_text(have)}")
    state = bought_state(values, family, have, truth_step=truth_step)
    state.offsets[want] = draw_level(state, want, rng=rng)
    return published(state, want, step_of(state, want))


def step_of(state: DenseState, level: Fraction, step: float | None = None) -> float:
    """Return the grid step at a level: 1 for integers, else `step` (default min(truth_step, 2**⌊log2(std) - 4⌋))."""
    if state.family.integer:
        return 1.0
    std = state.family.std(level)
    chosen = state.truth_step * grid_step(std / state.truth_step) if step is None else step
    if chosen < std * _FINEST_STEP:
        raise DeclarationError(f"the grid is too fine for doubles; increase its step: {chosen:g} at std {std:g}")
    return chosen


def joint_level(releases: Iterable[DenseRelease]) -> Fraction:
    """Return the joint cost of several releases of one vector, as a level. Some releases may be resales of others.

    Args:
        releases: Releases that descend from one vector.

    Returns:
        For Gaussian noise, the exact joint rho. For other noise, the level of the lowest common ancestor, an upper
        bound. It is attained for Laplace and discrete Laplace noise, because their increments can be 0.

    Raises:
        InputError: If there are no releases, or they do not descend from one vector: then costs add.

    Example:
        >>> import sparsehist as sh
        >>> sold = sh.MultipleRelease(sh.noise.Gaussian(), [3, 1, 4]).release(1)
        >>> joint_level([sold.resell("1/2"), sold.resell("1/2")])
        Fraction(2, 3)
    """
    given = list(releases)
    lines = {_line(release) for release in given}
    if not lines:
        raise InputError("joint_level needs one or more releases")
    if len({line[0][0] for line in lines}) > 1 or len({repr(release.family) for release in given}) > 1:
        raise InputError("these releases have no common ancestor, so their costs add up")
    return _joint(sorted(lines), exact=isinstance(given[0].family, Gaussian))


def _line(release: DenseRelease) -> Line:
    line: Line = tuple((name, Fraction(level)) for name, level in release.metadata["lineage"])
    if not line:
        raise InputError("the metadata of this release has an empty lineage; use a release made by MultipleRelease")
    return line


def _joint(lines: Sequence[Line], *, exact: bool) -> Fraction:
    """Return the joint cost if `exact`, otherwise an upper bound: the level of the lowest common ancestor."""
    depth = 0
    while len({line[: depth + 2][-1][0] for line in lines}) == 1 and all(
        len(line) > depth + 1 and line[depth][1] == lines[0][depth][1] for line in lines
    ):
        depth += 1
    top = max(line[depth][1] for line in lines)
    if not exact or any(len(line) == depth + 1 and line[depth][1] == top for line in lines):
        return top
    below: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        below[line[depth + 1][0] if line[depth][1] == top else ""].append(line)
    # Branches add independent noise to the ancestor, so the precisions (1/variance) of their estimates of it add up.
    precisions = [1 / (1 / _joint(branch, exact=exact) - 1 / top) for branch in below.values()]
    return 1 / (1 / top + 1 / sum(precisions, Fraction(0)))
