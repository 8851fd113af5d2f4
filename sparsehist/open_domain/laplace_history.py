"""How often Laplace noise that exceeds now stayed within an earlier history: the recursion over its path.

From the finest level to the coarsest, the noise stays as it is with probability (coarse / fine)**2 and else has a
draw of Lap(1 / coarse) added to it. The density of what stayed at or below all bounds so far therefore has its kinks
and jumps at 0 and at the bounds, and nowhere else: between them it is made of polynomials times exponentials, which
panels of Gauss-Legendre nodes hold to rounding. All terms are positive.

Source: our own derivation, from the path of [KHP eq. 22].
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from sparsehist.typing import FloatArray

# Panels are as narrow as the finest level asks and reach as far as the coarsest does. Levels farther off than a
# factor are left out, which makes the answer an upper bound: the largest of these at which levels times their span
# is affordable (some 30 ms). At a factor of 8 they share 1/64 of the variance.
_FACTORS, _MOST_WORK = (256, 64, 32, 16, 8), 2500.0
_NODES = 12
_WIDEST = 1.5  # panels, in units of 1/rate of the finest level
_REACH = 42.0  # e**-42 = 6e-19


class _Panels(NamedTuple):
    """Nodes on panels between edges; shapes (panels, nodes), (panels,) and (panels + 1,)."""

    nodes: FloatArray
    half: FloatArray
    edges: FloatArray


def exceeding(upper: Mapping[Fraction, float], level: Fraction, margin: float, scale: float) -> float:
    """P[Z(j) <= upper[j] for all j, and Z(level) > margin] for noise of scale `scale`/level, by past level.

    `level` may lie anywhere among the past ones, or be one. To a relative 1e-12; an upper bound where some levels are
    far off and many.

    Example:
        >>> 0.5 - exceeding({Fraction(2): 0.0}, Fraction(1), 0.0, 1.0)  # one in eight exceeds at both
        0.375...
    """
    near = _near(upper, level)
    order = sorted({*near, level}, reverse=True)
    rates = {known: float(known) / scale for known in order}
    panels = _panels(near, margin, rates[order[0]], rates[order[-1]], rates[level])
    density = _laplace(panels.nodes, rates[order[0]])
    for finer, known in zip([None, *order], order, strict=False):
        if finer is not None:
            kept = (rates[known] / rates[finer]) ** 2
            density = kept * density + float(1 - (known / finer) ** 2) * _spread(panels, density, rates[known])
        middle = (panels.edges[1:] + panels.edges[:-1]) / 2.0
        if known == level:
            density = density * (middle > margin)[:, None]
        if known in near:
            density = density * (middle <= near[known])[:, None]
    return math.fsum((density @ _rule()[1]) * panels.half)


def leaves_out(upper: Mapping[Fraction, float], level: Fraction) -> bool:
    """Whether `exceeding` leaves levels out, so that it is an upper bound."""
    return len(_near(upper, level)) < len(upper)


def _near(upper: Mapping[Fraction, float], level: Fraction) -> Mapping[Fraction, float]:
    """The past levels that are worth their time."""
    near = upper
    for factor in _FACTORS:
        near = {known: bound for known, bound in upper.items() if level / factor <= known <= level * factor}
        span = max([level, *near]) / min([level, *near])
        if span * len(near) <= _MOST_WORK:
            break
    return near


def _laplace(x: FloatArray, rate: float) -> FloatArray:
    return np.asarray(rate / 2.0 * np.exp(-rate * np.abs(x)))


def _panels(near: Mapping[Fraction, float], margin: float, finest: float, coarsest: float, new: float) -> _Panels:
    """Panels over all places that matter, none of them across 0 or a bound."""
    breaks = sorted({0.0, margin, *near.values()})
    low = breaks[0] - _REACH / coarsest
    high = breaks[-1] + _REACH / new
    edges = [low]
    for end in (*breaks, high):
        pieces = math.ceil((end - edges[-1]) * finest / _WIDEST)
        if pieces:
            edges.extend(np.linspace(edges[-1], end, pieces + 1)[1:].tolist())
    ends = np.array(edges)
    half = np.diff(ends) / 2.0
    middle = (ends[1:] + ends[:-1]) / 2.0
    return _Panels(middle[:, None] + half[:, None] * _rule()[0], half, ends)


def _spread(panels: _Panels, density: FloatArray, rate: float) -> FloatArray:
    """The density with a draw of Lap(1/rate) added: what comes from the left and what comes from the right."""
    here, weights, to_the_left = _rule()
    turn = rate * panels.half
    powers = np.exp(turn[:, None] * here)  # between e**-0.75 and e**0.75
    decays = np.exp(-2.0 * turn)
    rising, falling = density * powers, density / powers
    from_left = (rising @ to_the_left.T) / powers * panels.half[:, None]
    from_right = ((falling @ weights)[:, None] - falling @ to_the_left.T) * powers * panels.half[:, None]
    # What a panel sends over its right and its left edge.
    over_right = (rising @ weights) * np.exp(-turn) * panels.half
    over_left = (falling @ weights) * np.exp(-turn) * panels.half
    from_left += _carried(decays, over_right)[:, None] * np.exp(-turn[:, None]) / powers
    from_right += _carried(decays[::-1], over_left[::-1])[::-1, None] * np.exp(-turn[:, None]) * powers
    return np.asarray(rate / 2.0 * (from_left + from_right))


def _carried(decays: FloatArray, added: FloatArray) -> FloatArray:
    """What comes into each panel from all before it."""
    pairs: Sequence[tuple[float, float]] = list(zip(decays.tolist(), added.tolist(), strict=True))
    return np.array(list(accumulate(pairs[:-1], lambda before, pair: before * pair[0] + pair[1], initial=0.0)))


@lru_cache(maxsize=1)
def _rule() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Nodes and weights on [-1, 1], and the matrix that integrates from -1 to each node."""
    legendre = np.polynomial.legendre
    nodes, weights = legendre.leggauss(_NODES)
    integrals = legendre.legval(nodes, legendre.legint(np.eye(_NODES), lbnd=-1)).T
    degrees = np.arange(_NODES)[:, None]
    coefficients = (2.0 * degrees + 1.0) / 2.0 * (legendre.legvander(nodes, _NODES - 1) * weights[:, None]).T
    return nodes, weights, np.asarray(integrals @ coefficients)
