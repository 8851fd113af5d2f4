"""How far a round may be from its law, in total variation: from public numbers only.

To compare neighbouring logs, replace by ideal draws only what the unit touches: the numbers of cells that exceed of
the 2l groups of equal count that differ (a cell of count c is one of count c + 1 in the other log, for each of at
most l = max_keys cells), and the noise of those l cells. All other draws have the same law in both logs, however
wrong it is. So a round is within

    eta = 2 l h1 + l h2

of one that keeps its promise, also if levels and thresholds are chosen by looking at earlier releases, and eta adds
up over rounds, noise paths and series. What holds with (epsilon, delta) then holds with
(epsilon, delta + (1 + e**epsilon) * sum of eta).

h1, one number of cells: `count_slack` at the largest number that is ever drawn, as group sizes are secret.

h2, one cell. With u = 2**-52, m past levels, sigma the standard deviation and g the grid's step:

- *The probability of exceeding* is off by at most u |q ln q| or so, and counts once, here: 4 u.
- *Real noise* is made from numbers of 52 random bits by a few operations, and so is off by about u (sigma + |Z|) from
  an ideal draw that shares its randomness. Published is that number rounded to multiples of g, which changes if a
  boundary lies in between: with probability 3 u sigma / g at most. As the next draws start from it, another
  u sigma / s is added, s the standard deviation of what they add; unless levels are so close (1e-5 of one another)
  that this is no longer small: then what each of them was off by counts again. Together at most
  4 u (1 + near levels) sigma / g. A comparison with a bound flips with probability 2 u, m times in each try.
- *Integer noise* is exact in dense draws, or within what the family states as `draw_slack`. Lazily it is the inverse
  of a distribution function, whose values are known to a relative error: a family states the sum over all integers as
  `numerical_slack`, or it is taken to be 4 u (1 + sigma)**2, which the tests compare with 40 digits for Poisson and
  Skellam noise.
- *Tries.* A cell whose history has probability P is a candidate with probability at most 1 - e**-3 / P and takes 1/P
  tries on average, less than e**3 / 4 < 6 in all; a cell drawn explicitly takes at most e**3 < 21 for its path.

Source: our own derivation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from sparsehist.histogram.binomial import MOST_SUCCESSES
from sparsehist.histogram.grid import grid_step
from sparsehist.noise.binomial_poisson import count_slack
from sparsehist.noise.family import Family
from sparsehist.privacy.levels import Level, as_level

if TYPE_CHECKING:
    from sparsehist.noise.over_steps import Factor  # loads linear algebra, which other series do without

_U = 2.0**-52
_NEAR = 1e-5
_LAZY_TRIES, _EXPLICIT_TRIES = 6.0, 21.0


def round_slack(family: Family, past: Sequence[tuple[Level, float]], level: Level, max_keys: int) -> float:
    """Bound eta, in total variation, of one round of a sparse histogram, or of any other path of cells.

    From public numbers only: `past` is the (level, threshold) of every past release of the path. Those of several
    rounds add.

    Example:
        >>> from sparsehist.noise import Gaussian
        >>> 0 < round_slack(Gaussian(), [], 0.5, 1) < 2e-12
        True
    """
    return law_slack(family, past, level, 2 * max_keys, max_keys)


def law_slack(
    family: Family, past: Sequence[tuple[Level, float]], level: Level, n_groups: int, n_cells: int
) -> float:
    """Bound the total variation by which so many groups and cells of a round together miss their law.

    Of all groups and cells that is the slack of the round's whole law; their number is secret, so that it is for the
    curator only.
    """
    cell = _cell_slack(family, {as_level(at) for at, _ in past}, as_level(level))
    return n_groups * count_slack(MOST_SUCCESSES) + n_cells * cell


def dense_slack(family: Family, level: Level, n_noise: int, rounding: float, step: float, *, past: int = 0) -> float:
    """Bound eta of one round of a workload.

    Its noise is rounded up or down by lot, so that two numbers that are e apart come out alike but with probability
    e / g, whatever e depends on. So the total variation is at most the sum of the mean errors over g. Errors of
    earlier levels live on: in units of the deviation, that of a new level is at most the largest of its neighbours'
    and its own. Proof in docs/mathematics.md.

    Args:
        family: The noise.
        level: Of the release.
        n_noise: Noises, all of which may touch a unit.
        rounding: Sum of the mean errors of what is rounded, as far as a unit can change it (`Strategy.rounding`),
            for noise of this level; in counts.
        step: Of the grid, in counts.
        past: Levels that were released before on this path.
    """
    return min(1.0, (1 + past) * rounding / step + n_noise * _stated(family, "draw_slack", level))


def step_slack(factor: Factor, std: float, max_keys: int) -> float:
    """Bound eta of one round of running counts, given the factor of all points and the noise's std at the new one.

    Beside what holds for other cells: a noise is a sum over m points, whose errors are as often up as down, and the
    mean of a tracked cell's next noise is off, relative to what is left of its deviation, by a few u times the
    factor's steepness (the tests compare with 60 digits at the smallest gap of levels).
    """
    points = factor.order.size
    value = 4 * _U * (1 + (1 + math.sqrt(points)) * std / grid_step(std)) + 8 * _U * factor.steepness()
    return max_keys * (2 * count_slack(MOST_SUCCESSES) + value + 2 * _U * _EXPLICIT_TRIES * points)


def _cell_slack(family: Family, past: set[Fraction], level: Fraction) -> float:
    if family.integer:
        every = past | {level}
        lazily = sum(_lazy_slack(family, at) for at in every)
        explicitly = sum(_stated(family, "draw_slack", at) for at in every)
        return 4 * _U + max(_LAZY_TRIES * lazily, _EXPLICIT_TRIES * explicitly)
    std = family.std(level)
    near = sum(abs(at - level) <= _NEAR * level for at in past)
    return 4 * _U * (1 + (1 + near) * std / grid_step(std)) + 2 * _U * _EXPLICIT_TRIES * len(past)


def _lazy_slack(family: Family, level: Fraction) -> float:
    if hasattr(family, "numerical_slack"):
        return _stated(family, "numerical_slack", level)
    return float(4 * _U * (1 + family.std(level)) ** 2)


def _stated(family: Family, slack: str, level: Level) -> float:
    """What a family states of itself; nothing where it is exact."""
    of_level = getattr(family, slack, None)
    return 0.0 if of_level is None else float(of_level(level))
