"""Compute exact Poisson, Skellam and binomial probabilities, and the distance of a table from these distributions."""

from __future__ import annotations

from collections.abc import Callable

import mpmath

from sparsehist.noise.integer_laws import IntegerLaw

Weight = Callable[[int], mpmath.mpf]
DIGITS = 50


def poisson_mass(mean: float) -> Weight:
    """Return the probability function of a Poisson distribution with the given mean, in high precision."""
    m = mpmath.mpf(mean)
    return lambda k: mpmath.exp(k * mpmath.log(m) - m - mpmath.loggamma(k + 1)) if k >= 0 else mpmath.mpf(0)


def skellam_mass(mean: float) -> Weight:
    """Return the probability function of the difference of two independent Poisson variables, each with this mean."""
    m = mpmath.mpf(mean)

    def mass(x: int) -> mpmath.mpf:
        size = abs(x)
        k = max(0, int(mpmath.sqrt(size * size / 4 + m * m) - size / 2))
        peak = mpmath.exp(
            (2 * k + size) * mpmath.log(m) - 2 * m - mpmath.loggamma(k + 1) - mpmath.loggamma(k + size + 1)
        )
        total, up, down, j = peak, peak, peak, 0
        while max(up, down) > total * mpmath.mpf(10) ** -30:
            j += 1
            up *= m * m / ((k + j) * (k + j + size))
            down *= (k - j + 1) * (k - j + 1 + size) / (m * m) if j <= k else 0
            total += up + down
        return total

    return mass


def binomial_mass(trials: float, chance: float) -> Weight:
    """Return the probability function of Binomial(trials, chance) in high precision, without rounding `chance`."""
    n, p = mpmath.mpf(trials), mpmath.mpf(chance)

    def mass(k: int) -> mpmath.mpf:
        ways = mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
        return mpmath.exp(ways + k * mpmath.log(p) + (n - k) * mpmath.log1p(-p)) if 0 <= k <= n else mpmath.mpf(0)

    return mass


def distance(law: IntegerLaw, weight: Weight, cells: int = 400) -> float:
    """Estimate the total variation distance of a table from a distribution, using only about `cells` entries."""
    above, up_to = law._above, law._up_to
    inside = [i for i in range(law.logs.size) if up_to[i + 1] > 1e-18 and above[i] > 1e-18]
    sparse = max(1, len(inside) // cells)
    total = mpmath.mpf(0)
    for i in inside[::sparse]:
        drawn = up_to[i + 1] - up_to[i] if up_to[i + 1] < 0.5 else above[i] - above[i + 1]
        total += sparse * abs(mpmath.mpf(float(drawn)) - weight(law.first + i))
    return float(total / 2)
