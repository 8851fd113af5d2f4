"""Privacy filters: what may still be released when every level is chosen by looking at all earlier releases.

A filter adds up charges and refuses what would pass its limit. It is valid when no adversary who picks each release
by the outputs of those before, and stays within the limit, ends beyond the promise. Adding up exact trade-off curves
of what was released, and taking the best of several bounds after the fact, are no valid filters: at a budget of
(3, 1e-6), a Gaussian release of rho 0.0209 followed, by its output, either by one of rho 0.1887 or by a pure one of
epsilon 2.149 passes both ways, and has delta 1.945e-6. So the route is fixed before anything is charged:

    route      charge of one                          limit                                          valid for
    rho        Gaussian: rho; pure: that of a coin    rho                                            zCDP
    gaussian   Gaussian: rho                          largest rho whose exact delta is allowed       Gaussian DP
    pure       pure: epsilon                          epsilon                                        pure DP
    renyi      divergence at one order                epsilon + (ln d + ln a)/(a - 1) - ln(1 - 1/a)  Rényi DP
    poisson    epsilon at a share of delta            epsilon                                        (epsilon, delta)

Gaussian noise is charged path by path at its finest level: a refinement is an independent measurement of precision
rho' - rho, so increments add. A session of interactive queries that is rho-zCDP is charged when it is opened, whole;
that its queries come between other releases takes nothing from the filter (concurrent composition). Pure noise on the
pure route is too: the likelihood ratio of a transcript is the product over its paths. Everything else is charged for
a whole series, once, at its cap: its increments are no independent mechanisms (a coin refined or not by its coarse
outcome, beside Gaussian noise, has a Rényi divergence a tenth above what its finest level and the noise come to), but
the series is one interactive mechanism within its cap. A pure one is post-processing of a coin of randomised response
and costs what that costs; one path of Skellam or Poisson noise is post-processing of its finest release. The k-th
Poisson series is charged the epsilon that it has at delta / 2**k, so that something always remains for another.

Source: Feldman and Zrnic 2021 (Rényi filter; at all orders at once it is the zCDP filter); Smith and Thakurta 2022,
Koskela, Tobaben and Honkela 2023 (Gaussian filter); Rogers, Roth, Ullman and Vadhan 2016 (epsilons and deltas); Lyu
2022, Vadhan and Zhang 2023 (an interactive mechanism is post-processing of randomised response); Haney, Shoemate,
Tian, Vadhan, Vyros, Xu and Zhang 2023 (filters for interactive mechanisms that run side by side); Canonne, Kamath and
Steinke 2020, Proposition 12 (order to delta). Numerical gap: limits and largest levels are rounded down to 12 digits,
charges up by 1e-13 of themselves, those of Poisson noise by 1e-9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

from sparsehist.errors import DeclarationError, present
from sparsehist.privacy import gaussian, poisson, skellam, zcdp
from sparsehist.privacy.composition import GAUSSIAN, POISSON, PURE, SKELLAM, ZCDP, as_rho
from sparsehist.privacy.crossing import crossing
from sparsehist.privacy.exact_numbers import MANY_DIGITS, as_decimal, rounded_down
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
_UP = Fraction(10**13 + 1, 10**13)
_UP_POISSON = Fraction(10**9 + 1, 10**9)
MOST_ORDER = 1 << 20
_TIGHT = 1e-13


@dataclass(frozen=True)
class Filter:
    """A limit on a sum of charges, fixed before anything is charged.

    Attributes:
        route: One of `ROUTES`: what is charged for what.
        limit: The largest sum; exact.
        order: Of the Rényi divergence; None on other routes.
        delta: That Poisson series share; 0 on other routes.

    Example:
        >>> within = rho_filter(Fraction(1, 2))
        >>> float(within.charge("epsilon", Fraction(1)))
        0.462117157260...
    """

    route: str
    limit: Fraction
    order: int | None = None
    delta: Fraction = Fraction(0)

    def takes(self, law: str) -> bool:
        """Whether noise of a law can be charged at all."""
        return law in _CHARGES[self.route]

    def by_path(self, law: str) -> bool:
        """Whether paths are charged at their finest level; else a series is charged its cap once, for all of them."""
        return law in (GAUSSIAN, ZCDP) or self.route == PURE_ROUTE

    def charge(self, law: str, level: Fraction, keys: int = 1, *, earlier: int = 0) -> Fraction:
        """What a level (the finest of a path, or the cap of a series: see `by_path`) is charged.

        Args:
            law: "gaussian", "skellam" or "poisson"; "rho" or "epsilon" for other noise with such a guarantee.
            level: Exact.
            keys: Keys of a unit; Skellam and Poisson noise do not know them by themselves.
            earlier: Poisson series charged before this one.
        """
        if not self.takes(law):
            raise DeclarationError(f"the route {self.route} cannot charge {law} noise; {_routes_for(law)} could")
        if law == POISSON:
            exact: float = poisson.epsilon(float(self._share(earlier)), level, keys)
            return Fraction(exact) * _UP_POISSON
        if self.route in (GAUSSIAN_ROUTE, PURE_ROUTE):
            return level
        if self.route == RHO_ROUTE:
            return as_rho(level) if law == PURE else level
        order = present(self.order)
        if law == PURE:
            return coin_divergence(order, level)
        if law == SKELLAM:
            return Fraction(skellam.renyi(order, level, keys)) * _UP
        return order * level

    def fits(self, room: Fraction, law: str, level: Fraction, keys: int = 1, *, earlier: int = 0) -> bool:
        """Whether a level is charged no more than there is room for."""
        if room <= 0 or not self.takes(law):
            return False
        try:
            return self.charge(law, level, keys, earlier=earlier) <= room
        except DeclarationError:  # Poisson noise of a small mean has no epsilon at a small delta
            return False

    def largest(self, room: Fraction, law: str, keys: int = 1, *, earlier: int = 0) -> Fraction:
        """The largest level that is charged no more than there is room for, rounded down to 12 digits; 0 if none."""
        if room <= 0:
            return Fraction(0)
        if law in (GAUSSIAN, ZCDP):
            return rounded_down(room / (self.order or 1))
        if self.route == PURE_ROUTE:
            return rounded_down(room)
        if law == POISSON:
            share, charged = float(self._share(earlier)), room / _UP_POISSON
            near = _crossing(lambda level: _excess(_poisson_delta(level, charged, keys), share))
        else:
            near = _crossing(lambda level: _excess(float(self.charge(law, level, keys)), float(room)))
        return _largest(near, lambda level: self.fits(room, law, level, keys, earlier=earlier))

    def largest_of_equal(self, room: Fraction, law: str, times: int, keys: int = 1, *, earlier: int = 0) -> Fraction:
        """The largest level that so many series may be charged alike, rounded down to 12 digits; 0 if none."""
        if law != POISSON:
            return self.largest(room / times, law, keys)
        if room <= 0:
            return Fraction(0)
        # The last one has the smallest share of delta, and with it the largest charge.
        order = range(earlier, earlier + times)

        def charged(level: Fraction) -> Fraction | None:
            """The sum of the charges; None where the last one has no epsilon at so small a delta."""
            try:
                return sum((self.charge(law, level, keys, earlier=known) for known in order), Fraction(0))
            except DeclarationError:
                return None

        def excess(level: Fraction) -> float:
            total = charged(level)
            return math.inf if total is None else _excess(float(total), float(room))

        def fits(level: Fraction) -> bool:
            total = charged(level)
            return total is not None and total <= room

        return _largest(_crossing(excess), fits)

    def _share(self, earlier: int) -> Fraction:
        return self.delta * Fraction(1, 1 << (earlier + 1))


def rho_filter(rho: Fraction) -> Filter:
    """Everything with a rho, up to a sum."""
    return Filter(RHO_ROUTE, rho)


def gaussian_filter(epsilon: Fraction, delta: Fraction) -> Filter:
    """Gaussian noise only, up to the largest rho that is exactly (epsilon, delta)-DP.

    Example:
        >>> float(gaussian_filter(Fraction(1), Fraction(1, 10**6)).limit)
        0.02801448191...
    """
    return Filter(GAUSSIAN_ROUTE, _checked(_gaussian_level(epsilon, delta), GAUSSIAN_ROUTE))


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
        raise DeclarationError(f"order must be a whole number from 2 to {MOST_ORDER}, got {order!r}")
    return Filter(RENYI_ROUTE, _checked(_renyi_limit(epsilon, delta, order), f"renyi at order {order}"), order)


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

    The law is one of `Filter.charge`. Pure noise gets epsilon itself: a pure promise needs no delta. Refused if no
    level does.

    Example:
        >>> float(level_within(EpsilonDelta(1, "1e-6"), "gaussian"))
        0.02801448191...
    """
    epsilon, delta = goal.epsilon, goal.delta
    if law == PURE and epsilon > 0:
        return epsilon
    found = Fraction(0)
    if 0 < delta < 1:
        if law == GAUSSIAN:
            found = _gaussian_level(epsilon, delta)
        elif law == ZCDP:
            found = _positive_down(zcdp.largest_rho(epsilon, delta))
        elif law == SKELLAM:
            found = _level_at(lambda level: skellam.delta(epsilon, level, keys), float(delta))
        elif law == POISSON:
            found = _level_at(lambda level: _poisson_delta(level, epsilon, keys), float(delta))
    if found <= 0:
        raise DeclarationError(f"no level of {law} noise is {goal} with {keys} keys per unit")
    return found


def coin_divergence(order: int, epsilon: Fraction) -> Fraction:
    """The Rényi divergence of a coin of randomised response, rounded up: the most that epsilon-DP can cost.

    Example:
        >>> float(coin_divergence(2, Fraction(1)))
        0.7353256640...
    """
    with localcontext(MANY_DIGITS):
        value = as_decimal(epsilon)
        odds = (order * value).exp() + ((1 - order) * value).exp()
        divergence = (odds.ln() - (1 + value.exp()).ln()) / (order - 1)
        return Fraction(divergence) * _UP


def _gaussian_level(epsilon: Fraction, delta: Fraction) -> Fraction:
    found = _positive_down(gaussian.largest_rho(epsilon, delta)) if 0 < delta < 1 else Fraction(0)
    while found and gaussian.delta(epsilon, found) > delta:
        found = rounded_down(found * (1 - Fraction(1, 10**12)))
    return found


def _renyi_limit(epsilon: Fraction, delta: Fraction, order: int) -> Fraction:
    with localcontext(MANY_DIGITS):
        a = Decimal(order)
        value = as_decimal(epsilon) + (as_decimal(delta).ln() + a.ln()) / (a - 1) - (1 - 1 / a).ln()
        return rounded_down(Fraction(value)) if value > 0 else Fraction(0)


def _best_order(epsilon: Fraction, delta: Fraction) -> int:
    """The order that allows the largest rho: it rises, then falls."""
    low, high = 2, MOST_ORDER
    while low < high:
        middle = (low + high) // 2
        rising = _room_per_order(epsilon, delta, middle + 1) > _room_per_order(epsilon, delta, middle)
        low, high = (middle + 1, high) if rising else (low, middle)
    return low


def _room_per_order(epsilon: Fraction, delta: Fraction, order: int) -> float:
    value = float(epsilon) + (math.log(delta) + math.log(order)) / (order - 1) - math.log1p(-1 / order)
    return value / order


def _checked(limit: Fraction, route: str) -> Fraction:
    if limit <= 0:
        raise DeclarationError(
            f"on the route {route} this budget leaves room for nothing: take a larger epsilon or delta"
        )
    return limit


def _positive_down(value: float) -> Fraction:
    return rounded_down(Fraction(value)) if value > 0 else Fraction(0)


def _routes_for(law: str) -> str:
    return ", ".join(f"route={route!r}" for route in routes_for(law)) or "no route"


def _poisson_delta(level: Fraction, epsilon: Fraction, keys: int) -> float:
    return poisson.delta(level, float(epsilon), keys)


def _excess(value: float, most: float) -> float:
    return math.log(value / most) if value > 0 else -math.inf


def _level_at(value: Callable[[Fraction], float], most: float) -> Fraction:
    """The largest level, rounded down to 12 digits, at which a rising function is at most `most`; 0 if none."""
    return _largest(_crossing(lambda level: _excess(value(level), most)), lambda level: value(level) <= most)


def _crossing(excess: Callable[[Fraction], float]) -> Fraction:
    """About where a rising function of a level is 0; 0 if it is above 0 everywhere."""

    def at(place: float) -> float:
        return max(-1e3, min(1e3, excess(Fraction(math.exp(place)))))

    low = high = 0.0
    while at(low) > 0:
        low, high = low - 2.0, low
        if low < -130.0:
            return Fraction(0)
    while at(high) <= 0:
        low, high = high, high + 2.0
        if high > 130.0:
            return Fraction(10) ** 56
    return Fraction(math.exp(crossing(at, low, high, tolerance=_TIGHT)))


def _largest(near: Fraction, fits: Callable[[Fraction], bool]) -> Fraction:
    """The first of the numbers of 12 digits, from `near` downwards, that fits; 0 if `near` is 0."""
    found, step = rounded_down(near) if near else near, Fraction(1, 10**12)
    while found and not fits(found):
        found, step = rounded_down(found * (1 - step)), step * 2
    return found
