"""How likely a key is never published: what an open domain costs, over all releases of a path jointly.

Where the keys that could occur cannot be listed, empty cells are never published, and so a key of count 1 that is
published at all betrays its unit. A unit has at most `max_keys` such keys, and each stays hidden as long as its noise
stays at or below every threshold less 1. With p the probability that one of them ever exceeds,

    delta_infinity = 1 - (1 - p)**max_keys,    p = sum over rounds of P[exceeds in this round for the first time].

All terms are positive, so nothing cancels however small p is. The releases together are then delta_infinity-
approximate rho-zCDP with rho the finest level (or (epsilon, delta_infinity)-DP, and so on); the event is that of the
realised history, so levels and thresholds may be chosen by looking at earlier releases.

Discrete Laplace noise that no transform has room for is bounded by Laplace noise of the same rates b as well, with
the events read on cells [x - 1/2, x + 1/2]. From the finest level to the coarsest, each step of the discrete chain
puts on a cell at most e**(b/2 + b**2/12) times what the Laplace step puts there from anywhere in the cell before:

- at the finest level a cell has P[Z = x] = tanh(b/2) e**(-b|x|) against at least that divided by e**(b/2), as
  (1 + e**(-b/2)) / (1 + e**-b) <= e**(b/2) at 0, and 1 / cosh(b/2) elsewhere;
- noise stays with probability (sinh(c/2) / sinh(f/2))**2 <= (c/f)**2, and so moves oftener by a factor of at most
  (sinh(c/2) / (c/2))**2 <= e**(c**2/12);
- where it moves, the Laplace mass of another cell is least from the edge farther off, that of its own from either:
  the ratio is 2 / (1 + e**-c) = e**(c/2) / cosh(c/2).

A term is exact to a relative 1e-12 of p for Gaussian noise (quadrature: `sparsehist.open_domain.recursion`), Laplace
noise (quadrature: `sparsehist.open_domain.laplace_history`) and discrete Laplace, Poisson and Skellam noise
(transforms: `sparsehist.open_domain.lattice_history`). It is an upper bound, at most P[exceeds in this round], where
many levels lie far apart (Laplace), where integer noise is spread too wide, and for families of your own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from sparsehist.errors import DeclarationError
from sparsehist.histogram.grid import effective_threshold, published_step
from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.noise.family import Family
from sparsehist.noise.gaussian import Gaussian
from sparsehist.noise.laplace import Laplace
from sparsehist.noise.poisson import Poisson
from sparsehist.noise.skellam import Skellam
from sparsehist.open_domain import laplace_history
from sparsehist.open_domain.lattice_history import conditional_survival, leaves_out
from sparsehist.privacy.levels import Level, as_level

if TYPE_CHECKING:
    from sparsehist.open_domain.recursion import BoundedPath

Past = Sequence[tuple[Level, float]]

# Levels of a history that a search for a threshold looks at; of Laplace noise their number times their span, too.
_MOST_SEARCHED, _WIDEST_SEARCHED = 4, 200
# Where Laplace noise bounds discrete Laplace noise by more than this power of e, it says nothing.
_LARGEST_FACTOR = 100.0


def open_delta(family: Family, releases: Past, max_keys: int) -> float:
    """Compute delta_infinity, the probability that any of a unit's own new keys is ever published.

    The family has the sensitivity that max_keys implies; releases are (level, effective threshold) in any order. To a
    relative error of about 1e-12, or an upper bound (see above), down to 1e-300.

    Example:
        >>> from sparsehist.noise import Gaussian
        >>> open_delta(Gaussian(), [(0.5, 6.0)], 1) # P[1 + Z > 6], Z standard normal
        2.8665157187919354e-07
    """
    return delta_of(math.fsum(first_exceedances(family, releases)), max_keys)


def first_exceedances(family: Family, releases: Past, *, count: int = 1) -> list[float]:
    """For each release in the order given, P[a cell of that count exceeds in it and in none before]."""
    known = [(as_level(level), threshold) for level, threshold in releases]
    in_order = _in_order(family, tuple(known), count) if isinstance(family, Gaussian) else None
    if in_order is not None:
        return in_order
    return [first_exceedance(family, tuple(known[:i]), *release, count=count) for i, release in enumerate(known)]


def first_exceedance(
    family: Family, past: tuple[tuple[Fraction, float], ...], level: Fraction, threshold: float, *, count: int = 1
) -> float:
    """P[a cell of that count exceeds now, and never exceeded before], at an effective threshold."""
    exceeds = math.exp(float(family.log_tail(threshold - count, level)))
    lowest = _lowest(past, count)
    if lowest.get(level, math.inf) <= threshold - count:
        return 0.0
    if not lowest or exceeds == 0:
        return exceeds
    if isinstance(family, Gaussian | Laplace | DiscreteLaplace | Poisson | Skellam):
        known = tuple(sorted(lowest.items()))
        # what a search saw; a bound by all levels can be above one by few of them
        histories = {known, _nearest(family, known, level)}
        return min(_joint(family, history, level, threshold - count) for history in histories if history)
    return exceeds


def open_delta_is_exact(family: Family, releases: Past) -> bool:
    """Whether `open_delta` of these releases in this order is exact to 12 digits; else it is an upper bound."""
    known = [(as_level(level), threshold) for level, threshold in releases]
    return all(_is_exact(family, known[:i], *release) for i, release in enumerate(known))


def _lowest(past: Iterable[tuple[Fraction, float]], count: int) -> dict[Fraction, float]:
    """What the noise of a cell stayed at or below at each level."""
    lowest: dict[Fraction, float] = {}
    for known, bound in past:
        lowest[known] = min(bound - count, lowest.get(known, math.inf))
    return lowest


def _is_exact(family: Family, past: list[tuple[Fraction, float]], level: Fraction, threshold: float) -> bool:
    lowest = _lowest(past, 1)
    if not lowest or isinstance(family, Gaussian) or lowest.get(level, math.inf) <= threshold - 1:
        return True
    upper = {known: math.floor(bound) for known, bound in lowest.items()}
    if isinstance(family, Laplace):
        return not laplace_history.leaves_out(upper, level)
    if isinstance(family, DiscreteLaplace | Poisson | Skellam):
        return not leaves_out(family, upper, level, math.floor(threshold - 1))
    return False


@lru_cache(maxsize=4096)
def _joint(
    family: Gaussian | Laplace | DiscreteLaplace | Poisson | Skellam,
    lowest: tuple[tuple[Fraction, float], ...],
    level: Fraction,
    margin: float,
) -> float:
    """P[noise at most the lowest bound at every past level, and above the margin now]."""
    if isinstance(family, Gaussian):
        return math.exp(_log_gaussian(family, dict(lowest), level, margin))
    if isinstance(family, Laplace):
        return laplace_history.exceeding(dict(lowest), level, margin, float(family.sensitivity))
    bounds = {known: math.floor(bound) for known, bound in lowest}
    survival = conditional_survival(family, bounds, level, math.floor(margin))
    found = math.exp(float(family.log_tail(margin, level))) * survival
    if isinstance(family, DiscreteLaplace) and leaves_out(family, bounds, level, math.floor(margin)):
        # Laplace noise read at half integers; see the module for the factor.
        rates = [float(family.rate(known)) for known in {level, *bounds}]
        halves = {known: bound + 0.5 for known, bound in bounds.items()}
        factor = math.fsum(rate / 2 + rate**2 / 12 for rate in rates)
        if factor <= _LARGEST_FACTOR:
            real = laplace_history.exceeding(halves, level, math.floor(margin) + 0.5, float(family.sensitivity))
            found = min(found, real * math.exp(factor))
    return found


def _log_gaussian(family: Gaussian, lowest: dict[Fraction, float], level: Fraction, margin: float) -> float:
    # In units of sensitivity**2/2 times are levels.
    scale = math.sqrt(2) / family.sensitivity
    bounds: dict[float, float] = {}
    for known, bound in lowest.items():  # levels that one double stands for share their noise at its precision
        bounds[float(known)] = min(bound, bounds.get(float(known), math.inf))
    now = float(level)
    path = _bounded_path(tuple((time, time * bounds[time] * scale) for time in sorted(bounds)))
    return min(path.log_exceeding(now, now * margin * scale), 0.0)


@lru_cache(maxsize=64)
def _bounded_path(bounds: tuple[tuple[float, float], ...]) -> BoundedPath:
    from sparsehist.open_domain.recursion import BoundedPath

    return BoundedPath([time for time, _ in bounds], [bound for _, bound in bounds])


def _in_order(family: Gaussian, releases: tuple[tuple[Fraction, float], ...], count: int) -> list[float] | None:
    """One term for each Gaussian release from coarse to fine, in one pass; None in another order."""
    times = [float(level) for level, _ in releases]
    if any(finer <= coarser for coarser, finer in itertools.pairwise(times)):
        return None
    scale = math.sqrt(2) / family.sensitivity
    pairs = zip(times, releases, strict=True)
    path = _bounded_path(tuple((time, time * (threshold - count) * scale) for time, (_, threshold) in pairs))
    return [math.exp(min(term, 0.0)) for term in path.log_first_exceedances().tolist()]


def threshold_for_exceedance(
    family: Family, past: Past, level: Level, probability: float, *, count: int = 1
) -> float:
    """Find the lowest threshold to declare, on the grid, at which a key first exceeds with at most a probability.

    Of a long history the levels nearest to the new one count: the threshold is then a little higher than it need be.

    Example:
        >>> from sparsehist.noise import Gaussian
        >>> threshold_for_exceedance(Gaussian(), [], 0.5, 2.866515718791933e-07)
        6.0
    """
    if not 0 < probability < 1:
        raise DeclarationError(f"a probability must lie strictly between 0 and 1, got {probability!r}")
    new = as_level(level)
    step = published_step(family, new)
    known = _nearest(family, tuple((as_level(at), bound) for at, bound in past), new)

    def excess(place: int) -> float:
        """ln of the probability at a threshold of that many steps, less what is allowed."""
        exceeds = first_exceedance(family, known, new, effective_threshold(place * step, step), count=count)
        return math.log(exceeds / probability) if exceeds > 0 else -math.inf

    def exceeding_alone(place: int) -> float:
        bound = effective_threshold(place * step, step) - count
        return float(family.log_tail(bound, new))

    def alone(log_probability: float) -> int:
        """Where a release without a past would exceed so often."""
        return math.ceil((count + float(family.inverse_log_tail(log_probability, new))) / step)

    # The past hides a share of what exceeds, and that share changes slowly with the threshold.
    place = alone(math.log(probability))
    for _ in range(2 if known else 0):
        hidden = min(0.0, excess(place) + math.log(probability) - exceeding_alone(place))
        # Not below the median: what is hidden almost surely there says little about elsewhere.
        place = alone(max(math.log(probability), min(math.log(probability) - hidden, -math.log(2))))
    short, enough, stride = place - 1, place, 1
    while excess(enough) > 0:
        short, enough, stride = enough, enough + stride, 4 * stride
    stride = 1
    while excess(short) <= 0:
        short, enough, stride = short - stride, short, 4 * stride
    return step * _first_allowed(excess, short, enough)


def _nearest(
    family: Family, past: tuple[tuple[Fraction, float], ...], level: Fraction
) -> tuple[tuple[Fraction, float], ...]:
    """The releases that a search looks at some twenty times: those of the levels nearest to the new one.

    What is left out could only have hidden more of what exceeds now.
    """
    apart = {known: max(known / level, level / known) for known, _ in past}
    kept: set[Fraction] = set()
    for known in sorted(apart, key=apart.__getitem__)[:_MOST_SEARCHED]:
        ends = [*kept, known, level]
        if isinstance(family, Laplace | DiscreteLaplace) and len(ends) * max(ends) > _WIDEST_SEARCHED * min(ends):
            break
        kept.add(known)
    return tuple(release for release in past if release[0] in kept)


def _first_allowed(excess: Callable[[int], float], short: int, enough: int) -> int:
    """Find where a falling function of whole numbers is first at most 0, by secants that fall back on halves."""
    above, below = excess(short), excess(enough)
    halve = False
    while enough - short > 1:
        share = 0.5 if halve or below == -math.inf else above / (above - below)
        place = min(max(short + round(share * (enough - short)), short + 1), enough - 1)
        found = excess(place)
        halve = not halve and (found > 0) == (share > 0.5)
        if found > 0:
            short, above = place, found
        else:
            enough, below = place, found
    return enough


def delta_of(probability: float, max_keys: int) -> float:
    """1 - (1 - probability)**max_keys, without cancellation."""
    return -math.expm1(max_keys * math.log1p(-probability)) if probability < 1 else 1.0


def probability_for(delta: float, max_keys: int) -> float:
    """The probability for one key at which `max_keys` of them come to delta: the inverse of `delta_of`."""
    return -math.expm1(math.log1p(-delta) / max_keys)
