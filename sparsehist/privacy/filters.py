"""Privacy filters bound the total cost of releases whose levels may depend on earlier releases.

A filter adds up charges, and refuses a release if the sum would exceed its limit. The *route* is the measure of cost
in which it charges releases: one of `ROUTES`, fixed before the first charge. With adaptive levels, it is not valid to
compose exact trade-off curves, or to choose the best of several bounds afterwards (docs/mathematics.md, Accounting).

Source: Feldman and Zrnic 2021 (rho, renyi); Smith and Thakurta 2022, Koskela, Tobaben and Honkela 2023 (gaussian);
Rogers, Roth, Ullman and Vadhan 2016 (pure, poisson); Lyu 2022, Vadhan and Zhang 2023, Haney et al. 2023 (interactive
mechanisms side by side); Canonne, Kamath and Steinke 2020, Proposition 12 (order to delta).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from sparsehist.errors import DeclarationError, present, shown
from sparsehist.privacy import gaussian, poisson, skellam, zcdp
from sparsehist.privacy.composition import GAUSSIAN, POISSON, PURE, SKELLAM, ZCDP, as_rho
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.privacy.levels import rounded_down

RHO_ROUTE, GAUSSIAN_ROUTE, PURE_ROUTE, RENYI_ROUTE, POISSON_ROUTE = "rho", "gaussian", "pure", "renyi", "poisson"
_CHARGES = {
    RHO_ROUTE: (GAUSSIAN, ZCDP, PURE),  # charges are rho; noise with pure DP is charged epsilon * tanh(epsilon / 2)
    GAUSSIAN_ROUTE: (GAUSSIAN,),  # charges are rho; the limit is the largest rho within the (epsilon, delta) budget
    PURE_ROUTE: (PURE,),  # charges are epsilon
    RENYI_ROUTE: (GAUSSIAN, ZCDP, PURE, SKELLAM),  # charges are Rényi divergences at one order
    POISSON_ROUTE: (POISSON,),  # charges are epsilon, for half of the delta that earlier series left
}
ROUTES = tuple(_CHARGES)
MOST_ORDER = 1 << 20
# Smallest and largest level that a search tries. Poisson and Skellam noise need a level of at least 2**-24.
_LEAST, LEAST_OF_MEANS, _MOST = Fraction(1, 10**60), Fraction(1, 2**24), Fraction(10**59)
_CLOSE = 1e-13  # relative precision of searches for the largest level, which is then rounded down to 12 digits
_NOTHING = Fraction(0)
_UP = Fraction(10**13 + 1, 10**13)  # a factor that covers rounding errors of doubles


@dataclass(frozen=True)
class Filter:
    """A limit on a sum of charges, fixed before the first charge.

    Attributes:
        route: One of `ROUTES`, which determines how noise is charged.
        limit: The largest allowed sum of charges; exact.
        order: Order of the divergence on the Rényi route, otherwise None.
        delta: The delta that is divided among series on the Poisson route, otherwise 0.

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
        """Return whether releases with noise of this `law` (see `charge`) can be charged on this route."""
        return law in _CHARGES[self.route]

    def by_path(self, law: str) -> bool:
        """Return whether noise of this `law` is charged once per noise path, at the finest level of the path so far.

        Other noise is charged once per series, at its cap, because all releases of a series cost at most the cap.
        """
        return law in (GAUSSIAN, ZCDP) or self.route == PURE_ROUTE

    def charge(self, law: str, level: Fraction, keys: int = 1, *, earlier: int = 0) -> Fraction:
        """Return the charge of a path with finest level `level`, or of a series with cap `level` (see `by_path`).

        `law` is "gaussian", "skellam" or "poisson" for noise of these families. For other noise, it is the currency
        of the level: "rho" or "epsilon". `keys` is the largest number of keys that a unit counts towards, needed only
        for Skellam noise. `earlier` is the number of Poisson series that have been charged so far.
        """
        if not self.takes(law):
            could = ", ".join(f"route={route!r}" for route in routes_for(law)) or "no route"
            raise DeclarationError(f"the route {self.route} cannot charge {law} noise; {could} could")
        if law == POISSON:
            return Fraction(poisson.epsilon(self.delta / (2 << earlier), level))
        if self.route == RENYI_ROUTE:
            order = present(self.order)
            if law == PURE:
                return coin_divergence(order, level)
            return Fraction(skellam.renyi(order, level, keys)) if law == SKELLAM else order * level
        return as_rho(level) if law == PURE and self.route == RHO_ROUTE else level

    def fits(
        self, room: Fraction, law: str, level: Fraction, keys: int = 1, *, earlier: int = 0, times: int = 1
    ) -> bool:
        """Return whether `times` paths or series, each charged at this level, together cost at most `room`."""
        if room <= 0 or not self.takes(law):
            return False
        if law != POISSON:
            return times * self.charge(law, level, keys) <= room
        try:
            # Begin with the last series: its delta is the smallest, so if any cannot be charged, this series cannot.
            series = reversed(range(earlier, earlier + times))
            return sum((self.charge(law, level, earlier=before) for before in series), _NOTHING) <= room
        except DeclarationError:  # at a small delta, no epsilon suffices for Poisson noise with a small mean
            return False

    def largest(self, room: Fraction, law: str, keys: int = 1, *, earlier: int = 0, times: int = 1) -> Fraction:
        """Return the largest level for which `fits` is true, rounded down to 12 digits; 0 if there is none."""
        if room <= 0 or not self.takes(law):
            return _NOTHING
        if self.by_path(law):
            return rounded_down(room / times / (self.order or 1))
        return _largest(lambda level: self.fits(room, law, level, keys, earlier=earlier, times=times), law)


def filter_on(route: str, epsilon: Fraction, delta: Fraction = _NOTHING, order: int | None = None) -> Filter:
    """Return a filter that charges by `route` and guarantees (epsilon, delta)-DP for all releases together.

    Args:
        route: One of `ROUTES` except "rho".
        epsilon: Total epsilon; positive.
        delta: Total delta, without the part reserved for open domains; not used on the pure route.
        order: Order of the Rényi divergence, at least 2; by default the order that allows the largest total rho.

    Raises:
        DeclarationError: If no release could be charged.

    Example:
        >>> float(filter_on("gaussian", Fraction(1), Fraction(1, 10**6)).limit)
        0.02801448191...
    """
    if route == PURE_ROUTE:
        return Filter(route, epsilon)
    if delta <= 0:
        raise DeclarationError(f"noise needs a delta above 0 on the route {route}")
    if route == POISSON_ROUTE:
        return Filter(route, epsilon, delta=delta)
    if route == GAUSSIAN_ROUTE:
        limit, order = _largest_within(epsilon, delta, GAUSSIAN), None
    else:
        order = _best_order(epsilon, delta) if order is None else order
        if isinstance(order, bool) or not isinstance(order, int) or not 2 <= order <= MOST_ORDER:
            raise DeclarationError(f"order must be a whole number from 2 to {MOST_ORDER}, got {shown(order)}")
        limit = Fraction(_renyi_limit(epsilon, delta, order))
    if limit <= 0:
        at = f" at order {order}" if order else ""
        message = f"on the route {route}{at} this budget allows no release: take a larger epsilon or delta"
        raise DeclarationError(message)
    return Filter(route, rounded_down(limit), order)


def routes_for(law: str) -> list[str]:
    """Return the routes on which releases with noise of this `law` (see `Filter.charge`) can be charged."""
    return [route for route, laws in _CHARGES.items() if law in laws]


def level_within(goal: EpsilonDelta, law: str, keys: int = 1) -> Fraction:
    """Return the largest level, rounded down to 12 digits, at which one release is (epsilon, delta)-DP.

    No part of delta is reserved for open domains. `law` names the noise as in `Filter.charge`. Raise DeclarationError
    if there is no such level.
    """
    found = _largest_within(goal.epsilon, goal.delta, law, keys)
    if found <= 0:
        advice = "" if goal.delta else "; give a delta as well, such as 1e-6"
        raise DeclarationError(f"no level of {law} noise is {goal} with {keys} keys per unit{advice}")
    return found


def coin_divergence(order: int, epsilon: Fraction) -> Fraction:
    """Return the largest Rényi divergence of this order that an epsilon-DP release can have, rounded up.

    Randomised response has the largest divergence: ln(cosh((order - 1/2) epsilon) / cosh(epsilon / 2)) / (order - 1).
    """
    value = float(epsilon)
    if order * value > 600.0:
        return Fraction(value - math.log1p(math.exp(-value)) / (order - 1)) * _UP
    apart = 2.0 * math.sinh(order * value / 2.0) * math.sinh((order - 1) * value / 2.0)
    return Fraction(math.log1p(apart / math.cosh(value / 2.0)) / (order - 1)) * _UP


def _largest_within(epsilon: Fraction, delta: Fraction, law: str, keys: int = 1) -> Fraction:
    if law == PURE:
        return epsilon
    delta_at: dict[str, Callable[[Fraction], float]] = {
        GAUSSIAN: lambda level: gaussian.delta(epsilon, level),
        ZCDP: lambda level: zcdp.delta(epsilon, level),
        SKELLAM: lambda level: skellam.delta(epsilon, level, keys),
        POISSON: lambda level: poisson.delta(epsilon, level),
    }
    known = law in delta_at and 0 < delta < 1
    return _largest(lambda level: delta_at[law](level) <= delta, law) if known else _NOTHING


def _largest(fits: Callable[[Fraction], bool], law: str) -> Fraction:
    """Return the largest level that fits, rounded down to 12 digits, or 0. All smaller levels are assumed to fit."""
    least = LEAST_OF_MEANS if law in (POISSON, SKELLAM) else _LEAST
    if not fits(least):
        return _NOTHING
    low = math.log(least)
    steps = range(1, int((math.log(_MOST) - low) / _CLOSE))
    fitting = bisect_left(steps, 1, key=lambda step: not fits(Fraction(math.exp(low + step * _CLOSE))))
    found, share = rounded_down(Fraction(math.exp(low + fitting * _CLOSE))), Fraction(1, 10**12)
    while found > least and not fits(found):
        found, share = rounded_down(found * (1 - share)), share * 2
    return max(found, least)


def _renyi_limit(epsilon: Fraction, delta: Fraction, order: int) -> float:
    return float(epsilon) + (math.log(delta) + math.log(order)) / (order - 1) - math.log1p(-1 / order)


def _best_order(epsilon: Fraction, delta: Fraction) -> int:
    """Return the order that allows the largest rho. As a function of the order, rho has a single maximum."""

    def largest_rho(order: int) -> float:
        return _renyi_limit(epsilon, delta, order) / order

    return 2 + bisect_left(range(2, MOST_ORDER), 1, key=lambda order: largest_rho(order + 1) <= largest_rho(order))
