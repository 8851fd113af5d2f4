"""Privacy filters: what may still be released when every level is chosen by looking at all earlier releases.

A filter adds up charges and refuses what would pass its limit. Adding up exact trade-off curves, or taking the best
of several bounds after the fact, is no valid filter (docs/mathematics.md, Accounting, has the counterexample), so
the route is fixed before anything is charged:

    route      charge of one                           limit                                           valid for
    rho        Gaussian: rho; pure: that of a coin     rho                                             zCDP
    gaussian   Gaussian: rho                           largest rho whose exact delta is allowed        Gaussian DP
    pure       pure: epsilon                           epsilon                                         pure DP
    renyi      divergence at one order a               epsilon + (ln d + ln a)/(a - 1) - ln(1 - 1/a)   Rényi DP
    poisson    epsilon at a share of delta             epsilon                                         DP

Gaussian noise, and pure noise on the pure route, is charged path by path at its finest level. Everything else is
charged for a whole series, once, at its cap: its increments are no independent mechanisms, but the series is one
interactive mechanism within its cap. The k-th Poisson series is charged its epsilon at delta / 2**k, so that
something always remains for another. Limits and largest levels are rounded down to 12 digits.

Source: Feldman and Zrnic 2021 (Rényi and zCDP filters); Smith and Thakurta 2022, Koskela, Tobaben and Honkela 2023
(Gaussian filter); Rogers, Roth, Ullman and Vadhan 2016 (epsilons and deltas); Lyu 2022, Vadhan and Zhang 2023, Haney,
Shoemate, Tian, Vadhan, Vyros, Xu and Zhang 2023 (interactive mechanisms, side by side); Canonne, Kamath and Steinke
2020, Proposition 12 (order to delta).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from sparsehist.errors import DeclarationError, present, shown
from sparsehist.privacy import gaussian, poisson, skellam, zcdp
from sparsehist.privacy.composition import GAUSSIAN, POISSON, PURE, SKELLAM, ZCDP, as_rho
from sparsehist.privacy.exact_numbers import rounded_down
from sparsehist.privacy.guarantees import EpsilonDelta

RHO_ROUTE, GAUSSIAN_ROUTE, PURE_ROUTE, RENYI_ROUTE, POISSON_ROUTE = "rho", "gaussian", "pure", "renyi", "poisson"
_CHARGES = {
    RHO_ROUTE: (GAUSSIAN, ZCDP, PURE),
    GAUSSIAN_ROUTE: (GAUSSIAN,),
    PURE_ROUTE: (PURE,),
    RENYI_ROUTE: (GAUSSIAN, ZCDP, PURE, SKELLAM),
    POISSON_ROUTE: (POISSON,),
}
ROUTES = tuple(_CHARGES)
MOST_ORDER = 1 << 20
# Levels are sought between these. Poisson and Skellam noise is drawn up to a mean of 2**24 (`sparsehist.noise`).
_LEAST, LEAST_OF_MEANS, _MOST = Fraction(1, 10**60), Fraction(1, 2**24), Fraction(10**59)
_NOTHING = Fraction(0)
_UP = Fraction(10**13 + 1, 10**13)  # the rounding of doubles


@dataclass(frozen=True)
class Filter:
    """A limit on a sum of charges, fixed before anything is charged.

    Attributes:
        route: One of `ROUTES`: what is charged for what.
        limit: The largest sum; exact.
        order: Of the Rényi divergence; None on other routes.
        delta: Shared by Poisson series; 0 on other routes.

    Example:
        >>> within = Filter("rho", Fraction(1, 2))
        >>> float(within.charge("epsilon", Fraction(1)))
        0.46211715726...
    """

    route: str
    limit: Fraction
    order: int | None = None
    delta: Fraction = _NOTHING

    def takes(self, law: str) -> bool:
        """Whether noise of a law can be charged at all."""
        return law in _CHARGES[self.route]

    def by_path(self, law: str) -> bool:
        """Whether paths are charged at their finest level; else a series is charged its cap once, for all of them."""
        return law in (GAUSSIAN, ZCDP) or self.route == PURE_ROUTE

    def charge(self, law: str, level: Fraction, keys: int = 1, *, earlier: int = 0) -> Fraction:
        """Charge of a level: the finest of a path, or the cap of a series (see `by_path`).

        Args:
            law: "gaussian", "skellam" or "poisson"; "rho" or "epsilon" for other noise with such a guarantee.
            level: Exact.
            keys: Keys of a unit, for Skellam noise.
            earlier: Poisson series charged before this one.
        """
        if not self.takes(law):
            could = ", ".join(f"route={route!r}" for route in routes_for(law)) or "no route"
            raise DeclarationError(f"the route {self.route} cannot charge {law} noise; {could} could")
        if law == POISSON:
            return Fraction(poisson.epsilon(self.delta / (2 << earlier), level))
        if self.route in (GAUSSIAN_ROUTE, PURE_ROUTE):
            return level
        if self.route == RHO_ROUTE:
            return as_rho(level) if law == PURE else level
        order = present(self.order)
        if law == PURE:
            return coin_divergence(order, level)
        return Fraction(skellam.renyi(order, level, keys)) if law == SKELLAM else order * level

    def fits(self, room: Fraction, law: str, level: Fraction, keys: int = 1, *, earlier: int = 0) -> bool:
        """Whether the charge of a level is at most `room`."""
        return self._all_fit(room, law, level, keys, range(earlier, earlier + 1))

    def largest(self, room: Fraction, law: str, keys: int = 1, *, earlier: int = 0) -> Fraction:
        """The largest level whose charge is at most `room`; 0 if there is none."""
        return self.largest_of_equal(room, law, 1, keys, earlier=earlier)

    def largest_of_equal(self, room: Fraction, law: str, times: int, keys: int = 1, *, earlier: int = 0) -> Fraction:
        """The largest level at which `times` paths or series may be charged alike; 0 if there is none."""
        if room <= 0 or not self.takes(law):
            return _NOTHING
        if law in (GAUSSIAN, ZCDP) or self.route == PURE_ROUTE:
            return rounded_down(room / times / (self.order or 1))
        series = range(earlier, earlier + times)
        return _largest(lambda level: self._all_fit(room, law, level, keys, series), law)

    def _all_fit(self, room: Fraction, law: str, level: Fraction, keys: int, series: range) -> bool:
        """Whether the charges of equal series fit together, given the number of Poisson series before each."""
        if room <= 0 or not self.takes(law):
            return False
        if law != POISSON:
            return self.charge(law, level, keys) * len(series) <= room
        try:
            # The last one has the smallest share of delta.
            return sum((self.charge(law, level, earlier=known) for known in reversed(series)), _NOTHING) <= room
        except DeclarationError:  # Poisson noise of a small mean has no epsilon at a small delta
            return False


def rho_filter(rho: Fraction) -> Filter:
    """Everything with a rho, up to a sum."""
    return Filter(RHO_ROUTE, rho)


def gaussian_filter(epsilon: Fraction, delta: Fraction) -> Filter:
    """Gaussian noise only, up to the largest rho that is exactly (epsilon, delta)-DP.

    Example:
        >>> float(gaussian_filter(Fraction(1), Fraction(1, 10**6)).limit)
        0.02801448191...
    """
    return Filter(GAUSSIAN_ROUTE, _checked(_largest_within(epsilon, delta, GAUSSIAN), GAUSSIAN_ROUTE))


def pure_filter(epsilon: Fraction) -> Filter:
    """Pure noise only, up to a sum."""
    return Filter(PURE_ROUTE, epsilon)


def renyi_filter(epsilon: Fraction, delta: Fraction, order: int | None = None) -> Filter:
    """Everything with a Rényi divergence, at one whole order from 2 on.

    By default it is the one that leaves most room for Gaussian noise; refused if nothing could ever be charged at it.

    Example:
        >>> renyi_filter(Fraction(1), Fraction(1, 10**6)).order
        22
    """
    if order is None:
        order = _best_order(epsilon, delta)
    if isinstance(order, bool) or not isinstance(order, int) or not 2 <= order <= MOST_ORDER:
        raise DeclarationError(f"order must be a whole number from 2 to {MOST_ORDER}, got {shown(order)}")
    limit = _renyi_limit(epsilon, delta, order)
    exact = rounded_down(Fraction(limit)) if limit > 0 else _NOTHING
    return Filter(RENYI_ROUTE, _checked(exact, f"renyi at order {order}"), order)


def poisson_filter(epsilon: Fraction, delta: Fraction) -> Filter:
    """Poisson noise only: epsilons add up, and so do shares of delta."""
    if delta <= 0:
        raise DeclarationError("Poisson noise needs a delta above 0")
    return Filter(POISSON_ROUTE, epsilon, delta=delta)


def filter_on(route: str, epsilon: Fraction, delta: Fraction, order: int | None = None) -> Filter:
    """The filter of a route for a promise in epsilon; on the Rényi route at an order."""
    if route == PURE_ROUTE:
        return pure_filter(epsilon)
    if delta <= 0:
        raise DeclarationError(f"the route {route} needs a delta above 0 for noise")
    if route == GAUSSIAN_ROUTE:
        return gaussian_filter(epsilon, delta)
    return renyi_filter(epsilon, delta, order) if route == RENYI_ROUTE else poisson_filter(epsilon, delta)


def routes_for(law: str) -> list[str]:
    """The routes that can charge noise of a law."""
    return [route for route, laws in _CHARGES.items() if law in laws]


def level_within(goal: EpsilonDelta, law: str, keys: int = 1) -> Fraction:
    """The largest level, rounded down to 12 digits, at which one release keeps to a goal, all of delta for the noise.

    The law is one of `Filter.charge`. Pure noise gets epsilon itself. Refused if no level does.

    Example:
        >>> float(level_within(EpsilonDelta(1, "1e-6"), "gaussian"))
        0.02801448191...
    """
    found = _largest_within(goal.epsilon, goal.delta, law, keys)
    if found <= 0:
        raise DeclarationError(f"no level of {law} noise is {goal} with {keys} keys per unit")
    return found


def coin_divergence(order: int, epsilon: Fraction) -> Fraction:
    """The Rényi divergence of a coin of randomised response, rounded up: the most that epsilon-DP can cost.

    It is ln(cosh((order - 1/2) epsilon) / cosh(epsilon / 2)) / (order - 1).

    Example:
        >>> float(coin_divergence(2, Fraction(1)))
        0.7353256640...
    """
    value = float(epsilon)
    if order * value > 600.0:
        return Fraction(value - math.log1p(math.exp(-value)) / (order - 1)) * _UP
    apart = 2.0 * math.sinh(order * value / 2.0) * math.sinh((order - 1) * value / 2.0)
    return Fraction(math.log1p(apart / math.cosh(value / 2.0)) / (order - 1)) * _UP


def _largest_within(epsilon: Fraction, delta: Fraction, law: str, keys: int = 1) -> Fraction:
    if law == PURE:
        return epsilon
    if not 0 < delta < 1:
        return _NOTHING
    delta_at: dict[str, Callable[[Fraction], float]] = {
        GAUSSIAN: lambda level: gaussian.delta(epsilon, level),
        ZCDP: lambda level: zcdp.delta(epsilon, level),
        SKELLAM: lambda level: skellam.delta(epsilon, level, keys),
        POISSON: lambda level: poisson.delta(epsilon, level),
    }
    return _largest(lambda level: delta_at[law](level) <= delta, law) if law in delta_at else _NOTHING


def _largest(fits: Callable[[Fraction], bool], law: str) -> Fraction:
    """The largest level, rounded down to 12 digits, that fits, where smaller ones do; 0 if none does."""
    least = LEAST_OF_MEANS if law in (POISSON, SKELLAM) else _LEAST
    if not fits(least):
        return _NOTHING
    low, high = math.log(least), math.log(_MOST)
    while high - low > 1e-13:
        middle = (low + high) / 2.0
        low, high = (middle, high) if fits(Fraction(math.exp(middle))) else (low, middle)
        if not low < (low + high) / 2.0 < high:
            break
    found, step = rounded_down(Fraction(math.exp(low))), Fraction(1, 10**12)
    while found > least and not fits(found):
        found, step = rounded_down(found * (1 - step)), step * 2
    return max(found, least)


def _renyi_limit(epsilon: Fraction, delta: Fraction, order: int) -> float:
    return float(epsilon) + (math.log(delta) + math.log(order)) / (order - 1) - math.log1p(-1 / order)


def _best_order(epsilon: Fraction, delta: Fraction) -> int:
    """The order that allows the largest rho: it rises, then falls."""
    low, high = 2, MOST_ORDER
    while low < high:
        middle = (low + high) // 2
        here, after = (_renyi_limit(epsilon, delta, order) / order for order in (middle, middle + 1))
        low, high = (middle + 1, high) if after > here else (low, middle)
    return low


def _checked(limit: Fraction, route: str) -> Fraction:
    if limit <= 0:
        raise DeclarationError(
            f"on the route {route} this budget leaves room for nothing: take a larger epsilon or delta"
        )
    return limit
