"""Compute the exact (epsilon, delta) of Poisson noise on one count that changes by 1.

Let F be the distribution function of noise with mean 1/level, and T = 1 - F. If the count decreases, the delta for a
given epsilon is F(k) - e**epsilon F(k - 1), with k = floor(mean e**-epsilon). If the count increases, the delta is
T(k - 1) - e**epsilon T(k), with k = floor(mean e**epsilon). The result is the larger delta. No zCDP holds, because
some outputs are impossible under a neighbour.

Source: our own derivation. [ARNP Lemma E.2, Lemma E.3] hold and are 3 to 7 times larger. Papers: [ARNP Thm E.2, Cor.
E.3].
"""

from __future__ import annotations

import math

from sparsehist.errors import DeclarationError
from sparsehist.privacy.levels import Level, as_level, at_least_zero, probability, root

_LARGEST_EPSILON = 100.0


def delta(epsilon: Level, level: Level) -> float:
    """Return the smallest delta for which Poisson noise of mean 1/level is (epsilon, delta)-DP.

    Example:
        >>> delta(0.5, "0.01")
        3.5684658132...e-07
    """
    return _delta(float(at_least_zero(epsilon, "epsilon")), float(1 / as_level(level)))


def epsilon(delta: Level, level: Level) -> float:
    """Return the smallest epsilon for which Poisson noise of mean 1/level is (epsilon, delta)-DP.

    Raises:
        DeclarationError: If no epsilon suffices, because e**-mean, the probability of noise 0, exceeds delta.

    Example:
        >>> epsilon(1e-6, "0.01")
        0.4678058...
    """
    target, mean = probability(delta), float(1 / as_level(level))
    if _delta(_LARGEST_EPSILON, mean) > target:
        raise DeclarationError(
            "no epsilon gives this delta: with a probability above delta, the output is impossible for a neighbour; "
            f"raise delta or lower the level; got delta {delta!r}, mean {mean:g}, probability {math.exp(-mean):.3g}"
        )
    if _delta(0.0, mean) <= target:
        return 0.0
    found = root(lambda value: _delta(value, mean) - target, 0.0, _LARGEST_EPSILON)
    step = 1e-15
    while _delta(found, mean) > target:
        found, step = found * (1.0 + step), 2.0 * step
    return found


def _delta(epsilon: float, mean: float) -> float:
    from scipy.special import gammainc, gammaincc

    ratio = math.exp(epsilon)
    fallen, risen = math.floor(mean / ratio), math.floor(mean * ratio)
    before = float(gammaincc(fallen, mean)) if fallen else 0.0
    falls = float(gammaincc(fallen + 1, mean)) - ratio * before
    rises = float(gammainc(risen, mean)) - ratio * float(gammainc(risen + 1, mean)) if risen else 0.0
    return min(1.0, max(falls, rises, 0.0))
