"""The exact (epsilon, delta) of Gaussian noise, in both directions.

With mu = sqrt(2 rho) the sensitivity over the standard deviation, and x = epsilon/mu - mu/2,

    delta = Phi(-x) - e**epsilon Phi(-x - mu) = phi(x) (M(x) - M(x + mu)),    M(x) = Phi(-x) / phi(x),

where phi(x) = exp(-(epsilon - rho)**2 / (4 rho)) / sqrt(2 pi) takes its exponent from exact arithmetic. The
difference of the Mills ratios M is computed as it stands where it does not cancel, and for small mu as

    M(x) - M(x + mu) = 2 integral_0^oo sinh(mu u / 2) e**(-m u - u**2 / 2) du,    m = epsilon / mu,

all of whose terms are positive. These are exact statements about the noise, smaller than what rho alone promises
(`sparsehist.privacy.zcdp`); they hold for one Gaussian release, for the finest of a path, and, with the sum of the
rho, for several paths of Gaussian noise and nothing else. rho is sensitivity**2 / (2 variance); it and epsilon are at
least 0, and delta lies strictly between 0 and 1; anything else raises DeclarationError.

Source: Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, Corollary 2.13, in the place of [KHP Thm 13], which is
proved for epsilon below 1 and fails above 8.4 at delta = 1e-5, and so of [KHP Thm 14]'s levels; the forms without
cancellation are our own derivation. Numerical gap: 14 digits of each answer, rounded to nearest, not upwards; a delta
below the smallest double is 0.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np

from sparsehist.privacy import zcdp
from sparsehist.privacy.crossing import crossing
from sparsehist.privacy.exact_numbers import MANY_DIGITS, Number, as_decimal, at_least_zero, log, probability
from sparsehist.privacy.special_functions import erfcx, mills_ratio, normal_cdf

_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803")
# The integrand is left at e**-60 of its height. Within that, 80 nodes are exact for it: it is an entire function
# whose Chebyshev coefficients fall like Bessel functions of argument 30.
_DROP, _NODES = 60.0, 80
# Below this share of what can be lost, the loss itself is solved for; above, the equation for delta has its digits.
_SMALL = 0.1
# The smallest rho a target is translated to; below, the answer is 0 (epsilon 0 and a delta below 1e-150).
_LEAST = 1e-300


def delta(epsilon: Number, rho: Number) -> float:
    """The smallest delta, from 0 to 1, with which Gaussian noise of this rho is (epsilon, delta)-DP.

    Example:
        >>> delta(1.0, 0.5)
        0.126936737506...
    """
    asked, spent = at_least_zero(epsilon, "epsilon"), at_least_zero(rho, "rho")
    if spent == 0:
        return 0.0
    place = _Place(asked, spent)
    if place.below_mean:
        return place.delta_below_mean()
    with localcontext(MANY_DIGITS):
        exponent = as_decimal(-((asked - spent) ** 2) / (4 * spent))
        return float(Decimal(place.difference() / _ROOT_TWO_PI) * exponent.exp())


def epsilon(delta: Number, rho: Number) -> float:
    """The smallest epsilon, perhaps 0.0, with which Gaussian noise of this rho is (epsilon, delta)-DP.

    Example:
        >>> epsilon(1e-6, 0.1)
        1.99452690069...
    """
    target, spent = probability(delta), at_least_zero(rho, "rho")
    if spent == 0:
        return 0.0
    lost = _lost(target, spent)
    if lost is not None and lost <= 0:
        return 0.0
    # A little beyond, so that rounding leaves the answer between the ends.
    high = zcdp.epsilon(target, spent) * (1.0 + 1e-9)
    at_zero = _Place(Fraction(0), spent)
    if lost is not None and lost < _SMALL * math.exp(min(at_zero.log_delta(), at_zero.log_rest())):
        # delta falls at a rate of at most a half.
        return crossing(lambda value: math.log(_fall(value, at_zero.mu) / lost), 1.99 * lost, max(high, 4.0 * lost))
    if target <= Fraction(1, 2):
        goal = log(target)
        return crossing(lambda value: _Place(Fraction(value), spent).log_delta() - goal, 0.0, high)
    goal = log(1 - target)
    return crossing(lambda value: _Place(Fraction(value), spent).log_rest() - goal, 0.0, high)


def largest_rho(epsilon: Number, delta: Number) -> float:
    """The largest rho of which Gaussian noise is (epsilon, delta)-DP: the least noise for a target.

    The standard deviation is then sensitivity / sqrt(2 rho).

    Example:
        >>> largest_rho(1.0, 1e-6)
        0.02801448191...
    """
    asked, target = at_least_zero(epsilon, "epsilon"), probability(delta)
    low = math.log(max(zcdp.largest_rho(asked, target), _LEAST)) - 1e-9
    upper = target > Fraction(1, 2)
    goal = log(1 - target if upper else target)

    def excess(log_rho: float) -> float:
        place = _Place(asked, Fraction(math.exp(log_rho)))
        return place.log_rest() - goal if upper else place.log_delta() - goal

    if (excess(low) > 0.0) != upper:
        return 0.0
    high = low + 1.0
    while (excess(high) < 0.0) != upper:
        high += 1.0
    return math.exp(crossing(excess, low, high))


def mu(epsilon: Number, delta: Number) -> float:
    """The largest mu (sensitivity over standard deviation) of Gaussian noise that is (epsilon, delta)-DP.

    Example:
        >>> round(mu(1.0, 1e-6) ** 2 / 2 / largest_rho(1.0, 1e-6), 14)
        1.0
    """
    return math.sqrt(2.0 * largest_rho(epsilon, delta))


class _Place:
    """Where epsilon stands in the privacy loss of a rho: x, m and mu of the module's formulas."""

    def __init__(self, epsilon: Fraction, rho: Fraction) -> None:
        self.mu = math.sqrt(2.0 * float(rho))
        self.m = float(epsilon) / self.mu
        self.x = float(epsilon - rho) / self.mu
        self.exponent = float((epsilon - rho) ** 2 / (4 * rho))
        self.small = self.mu < max(1.0, self.m / 2.0)

    @property
    def below_mean(self) -> bool:
        """Whether epsilon is below the mean loss of noise that is not small: delta is no tail there."""
        return self.x < 0.0 and not self.small

    def difference(self) -> float:
        """M(x) - M(x + mu), for an x that is not far below 0."""
        if not self.small:
            return mills_ratio(self.x) - mills_ratio(self.x + self.mu)
        nodes, weights = _rule()
        reach = 2.0 * _DROP / (self.m + math.hypot(self.m, math.sqrt(2.0 * _DROP)))
        terms = (
            weight * math.sinh(self.mu / 2.0 * u) * math.exp(-self.m * u - u * u / 2.0)
            for weight, u in zip(weights, (reach * node for node in nodes), strict=True)
        )
        return 2.0 * reach * math.fsum(terms)

    def delta_below_mean(self) -> float:
        return normal_cdf(-self.x) - self._density() * mills_ratio(self.x + self.mu)

    def log_delta(self) -> float:
        if self.below_mean:
            return math.log(self.delta_below_mean())
        return math.log(self.difference() / _ROOT_TWO_PI) - self.exponent

    def log_rest(self) -> float:
        """ln(1 - delta), a sum of two probabilities."""
        if self.x >= 0.0:
            return math.log(normal_cdf(self.x) + self._density() * mills_ratio(self.x + self.mu))
        return math.log((mills_ratio(-self.x) + mills_ratio(self.x + self.mu)) / _ROOT_TWO_PI) - self.exponent

    def _density(self) -> float:
        return math.exp(-self.exponent) / _ROOT_TWO_PI


def _lost(target: Fraction, rho: Fraction) -> float | None:
    """delta at epsilon 0, erf(sqrt(rho)/2), less the target; None where it is 1 to all digits."""
    if rho > 144:
        return None
    with localcontext(MANY_DIGITS):
        z = as_decimal(rho).sqrt() / 2
        # The terms grow to e**36 before they fall, which costs 16 of the 60 digits.
        term, total, n = z, z, 0
        while abs(term) > total.scaleb(-40):
            n += 1
            term *= -z * z / n
            total += term / (2 * n + 1)
        return float(2 * total / _PI.sqrt() - as_decimal(target))


def _fall(epsilon: float, mu: float) -> float:
    """delta(0) - delta(epsilon), the integral of phi(t/mu - mu/2) M(t/mu + mu/2) over t up to epsilon."""
    nodes, weights = _rule()
    t = epsilon * np.array(nodes) / mu
    values = np.exp(-((t - mu / 2.0) ** 2) / 2.0) * erfcx((t + mu / 2.0) / math.sqrt(2.0))
    return epsilon * float(np.array(weights) @ values) / 2.0


@lru_cache(maxsize=1)
def _rule() -> tuple[list[float], list[float]]:
    """Gauss and Legendre's nodes and weights on [0, 1], by Newton's method; without numpy, for the command line."""
    nodes, weights = [], []
    for place in range(1, _NODES + 1):
        x, step = math.cos(math.pi * (place - 0.25) / (_NODES + 0.5)), 1.0
        slope = 1.0
        while abs(step) > 1e-14:
            before, value = 1.0, x
            for n in range(2, _NODES + 1):
                before, value = value, ((2 * n - 1) * x * value - (n - 1) * before) / n
            slope = _NODES * (x * value - before) / (x * x - 1.0)
            step = value / slope
            x -= step
        nodes.append((x + 1.0) / 2.0)
        weights.append(1.0 / ((1.0 - x * x) * slope * slope))
    return nodes, weights
