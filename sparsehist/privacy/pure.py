"""Exact composition of k releases that are epsilon-DP each, and of releases that are (epsilon_i, delta_i)-DP.

The hardest such releases are k coins of randomised response: the privacy loss is (k - 2 l) epsilon with
probability C(k, l) e**((k - l) epsilon) / (1 + e**epsilon)**k, so that

    delta(e) = sum of C(k, l) (e**((k - l) epsilon) - e**(e + l epsilon)) / (1 + e**epsilon)**k

over the l with (k - 2 l) epsilon > e.

The sum runs over some multiple of sqrt(k) terms, in 60 digits: its two halves cancel for a small epsilon, and
where delta is close to that of e = 0 an epsilon of 1e-6 stands in the digits after the tenth.

Releases of different guarantees (the product mechanism of lecture notes) compose to

    delta(e) = 1 - prod over i of (1 - delta_i) * (1 - delta of the coins of randomised response at e),

with one coin an epsilon_i: `delta_of` and `epsilon_of`. This replaces "advanced composition", which is looser, and
[Interactive Thm 4], whose printed delta e**(-k epsilon / 2) is false: its proof gives e**(-k epsilon**2 / 2) and
needs epsilon up to 1.256. Both are for a fixed list of guarantees; where they are chosen along the way, see
`sparsehist.privacy.filters`.

An epsilon is at least 0, delta lies strictly between 0 and 1, the delta_i of a release may be 0 as well, and there
are from 1 to 10**8 releases; anything else raises DeclarationError.

Source: Kairouz, Oh and Viswanath 2015, Theorem 3.3, optimal over all such releases, however adaptive; Murtagh and
Vadhan 2016, Theorem 1.5 (different guarantees). Numerical gap: none to 15 digits, rounded to nearest, not upwards;
`delta_of` to 12 digits, above by what rounding the epsilons up to a grid adds where the sums are too many.

Papers: [Interactive section 3].
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import reduce
from itertools import accumulate

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.privacy.exact_numbers import MANY_DIGITS, Number, as_decimal, at_least_zero, log, probability
from sparsehist.privacy.special_functions import gammaln
from sparsehist.typing import FloatArray

MOST_RELEASES = 10**8
"""Beyond so many the sums take minutes."""

_MOST_SUMS, _GRID_STEPS = 1 << 20, 1 << 16
# Terms are left out once they are smaller than what they are added to by so many digits.
_DIGITS_LEFT_OUT = 36
_STIRLING_FROM = 100
# Bernoulli numbers over 2j (2j - 1), to Stirling's series: from 100 on, fourteen terms leave less than 1e-42.
_STIRLING = [
    Fraction(*pair)
    for pair in (
        *((1, 12), (-1, 360), (1, 1260), (-1, 1680), (1, 1188), (-691, 360360), (1, 156), (-3617, 122400)),
        *((43867, 244188), (-174611, 125400), (77683, 5796), (-236364091, 1506960), (657931, 300)),
        (-3392780147, 93960),
    )
]
_LN_TWO_PI = Decimal("1.83787706640934548356065947281123527972279494727556682563430308096553139185452079538948659727")


def delta(epsilon: Number, each: Number, times: int = 1) -> float:
    """The smallest delta, to 15 digits, with which `times` releases, each `each`-DP, are (epsilon, delta)-DP.

    Example:
        >>> delta(7.5, 0.05, 1000)
        9.76837970288...e-06
    """
    asked, rate, count = at_least_zero(epsilon, "epsilon"), at_least_zero(each, "each"), _times(times)
    if asked >= count * rate:
        return 0.0
    last = math.ceil((count - asked / rate) / 2) - 1
    with localcontext(_digits(rate)):
        growth = as_decimal(rate).exp()
        start = min(last, _mode(growth, count))
        first = _terms(start, -1, 0, growth, count, Decimal(1))[0]
        terms = _terms(start, -1, start, growth, count, first[0])
        terms += _terms(start, 1, last - start, growth, count, first[0])[1:]
        ours, theirs = reduce(_added, terms)
        return max(0.0, float(ours - as_decimal(asked).exp() * theirs))


def epsilon(delta: Number, each: Number, times: int = 1) -> float:
    """The smallest epsilon, to 15 digits, with which `times` releases, each `each`-DP, are (epsilon, delta)-DP.

    Example:
        >>> epsilon(1e-6, 0.05, 1000)
        8.2835733460162...
    """
    target, rate, count = probability(delta), at_least_zero(each, "each"), _times(times)
    if rate == 0:
        return 0.0
    with localcontext(_digits(rate)):
        wanted, growth = as_decimal(target), as_decimal(rate).exp()
        mode, middle = _mode(growth, count), (count - 1) // 2
        start = min(mode, middle)
        below = _terms(start, -1, start, growth, count, wanted)
        above = _terms(start + 1, 1, middle - start, growth, count, wanted) if middle > start else []
        terms = [*reversed(below), *above]
        lowest = start - len(below) + 1
        sums = list(accumulate(terms, _added))

        def next_delta(place: int) -> Decimal:
            """delta at the next possible loss below that of `place`, where its line ends."""
            ours, theirs = sums[place]
            loss = as_decimal(max(Fraction(0), (count - 2 * (lowest + place) - 2) * rate))
            return ours - loss.exp() * theirs

        # Between two possible losses delta is a line in e**epsilon: the first whose end exceeds the target has it.
        place = bisect_right(range(len(sums)), wanted, key=next_delta)
        if place == len(sums):
            return 0.0
        ours, theirs = sums[place]
        return max(0.0, float(((ours - wanted) / theirs).ln()))


def delta_of(epsilon: Number, each: Iterable[tuple[Number, Number]]) -> float:
    """The smallest delta with which releases of different (epsilon_i, delta_i) are together (epsilon, delta)-DP.

    To 12 digits where the epsilons have at most 2**20 sums, an upper bound beyond. A delta_i of 0 is a pure release.

    Example:
        >>> delta_of(2, [(0.1, 1e-6)] * 30)
        4.80816738650...e-05
    """
    asked = float(at_least_zero(epsilon, "epsilon"))
    coins, log_kept = _read(each)
    if math.isinf(log_kept):
        return 1.0
    loss, weight = losses(coins)
    over = loss > asked
    rest = float(weight[over] @ -np.expm1(asked - loss[over]))
    return -math.expm1(log_kept + math.log1p(-min(rest, 1.0))) if rest < 1.0 else 1.0


def epsilon_of(delta: Number, each: Iterable[tuple[Number, Number]]) -> float:
    """The smallest epsilon with which releases of different (epsilon_i, delta_i) are together (epsilon, delta)-DP.

    Here delta may be 0; infinite where it is below what the deltas alone come to.

    Example:
        >>> epsilon_of(1e-3, [(0.1, 0), (0.3, 0), (0.5, 0), (0.2, 0), (0.5, 0), (0.4, 0)])
        1.97365700013...
    """
    target = at_least_zero(delta, "delta")
    if target >= 1:
        raise DeclarationError(f"delta must be below 1, got {delta!r}")
    coins, log_kept = _read(each)
    left = -math.expm1(math.log1p(-float(target)) - log_kept) if math.isfinite(log_kept) else -1.0
    if left < -1e-15 * float(target) or math.isinf(log_kept):
        return math.inf
    loss, weight = losses(coins)
    order = np.argsort(-loss)
    loss, weight = loss[order], weight[order]
    # Between two sums delta is a - b e**epsilon, over the losses above; sums scaled by the largest.
    above, shifted = np.cumsum(weight), np.cumsum(weight * np.exp(loss[0] - loss))
    ends = np.append(loss[1:], -np.inf)
    at_ends = above - np.exp(ends - loss[0]) * shifted
    place = int(np.argmax(at_ends > max(left, 0.0)))
    if left <= 0.0:
        return max(0.0, float(loss[0]))
    return max(0.0, float(loss[0] + math.log((above[place] - left) / shifted[place]))) if above[place] > left else 0.0


def losses(coins: Iterable[Fraction]) -> tuple[FloatArray, FloatArray]:
    """The privacy losses of independent coins of randomised response, and their probabilities in the likelier world.

    Both of shape (m,). Where there would be more than 2**20 sums, epsilons are rounded up to a grid: an upper bound.
    """
    groups = sorted(Counter(coins).items())
    if math.prod(times + 1 for _, times in groups) > _MOST_SUMS:
        step = sum((level * times for level, times in groups), Fraction(0)) / _GRID_STEPS
        rounded: Counter[Fraction] = Counter()
        for level, times in groups:
            rounded[math.ceil(level / step) * step] += times
        return _on_grid(rounded, step)
    loss: FloatArray = np.zeros(1)
    weight: FloatArray = np.ones(1)
    for level, times in groups:
        heads = np.arange(times + 1.0)
        log_weight = gammaln(times + 1) - gammaln(heads + 1) - gammaln(times - heads + 1)
        log_weight = log_weight - heads * math.log1p(math.exp(-float(level)))
        log_weight = log_weight - (times - heads) * float(np.logaddexp(0.0, float(level)))
        loss = np.add.outer(loss, (2 * heads - times) * float(level)).reshape(-1)
        weight = np.multiply.outer(weight, np.exp(log_weight)).reshape(-1)
    return np.asarray(loss), weight


def _on_grid(groups: Mapping[Fraction, int], step: Fraction) -> tuple[FloatArray, FloatArray]:
    """Coins whose epsilons are multiples of a step, one after the other: positive terms only."""
    width = sum(int(level / step) * times for level, times in groups.items())
    weight = np.zeros(2 * width + 1)
    weight[width] = 1.0
    reach = 0
    for level, times in groups.items():
        apart, kept = int(level / step), 1.0 / (1.0 + math.exp(-float(level)))
        for _ in range(times):
            inside = weight[width - reach : width + reach + 1].copy()
            reach += apart
            weight[width - reach : width + reach + 1] = 0.0
            weight[width - reach + 2 * apart : width + reach + 1] += kept * inside
            weight[width - reach : width + reach + 1 - 2 * apart] += (1.0 - kept) * inside
    return np.asarray(np.arange(-width, width + 1) * float(step)), weight


def _read(each: Iterable[tuple[Number, Number]]) -> tuple[list[Fraction], float]:
    """The epsilons, and the logarithm of the chance that no delta happens."""
    coins, log_kept = [], 0.0
    for rate, slack in each:
        coins.append(at_least_zero(rate, "epsilon_i"))
        chance = at_least_zero(slack, "delta_i")
        if chance > 1:
            raise DeclarationError(f"delta_i must be a probability, got {slack!r}")
        log_kept += math.log1p(-float(chance)) if chance < 1 else -math.inf
    return coins, log_kept


def _digits(each: Fraction) -> Context:
    """Sixty digits, and as many more as the two worlds agree in."""
    digits = MANY_DIGITS.copy()
    if each:
        digits.prec += max(0, math.ceil(-log(each) / math.log(10.0)))
    return digits


def _times(times: int) -> int:
    if isinstance(times, bool) or times != int(times) or not 1 <= times <= MOST_RELEASES:
        raise DeclarationError(f"times must be a whole number from 1 to {MOST_RELEASES}, got {times!r}")
    return int(times)


def _added(first: tuple[Decimal, Decimal], second: tuple[Decimal, Decimal]) -> tuple[Decimal, Decimal]:
    return first[0] + second[0], first[1] + second[1]


def _mode(growth: Decimal, times: int) -> int:
    """The likeliest number of losses of the other sign, in the world whose losses are mostly positive."""
    return int(times / (1 + growth))


def _terms(
    start: int, step: int, most: int, growth: Decimal, times: int, least: Decimal
) -> list[tuple[Decimal, Decimal]]:
    """Probability, in either world, of l = start, start + step, ... losses of the other sign.

    At most `most` + 1 terms, and until they are negligible beside `least`; `start` lies where they fall.
    """
    chance = (_log_factorial(times) - _log_factorial(start) - _log_factorial(times - start)).exp()
    odds = (1 + growth).ln() * times
    ours, theirs = (chance * (growth.ln() * n - odds).exp() for n in (times - start, start))
    terms = [(ours, theirs)]
    floor = least.scaleb(-_DIGITS_LEFT_OUT)
    up, down = (1 / growth, growth) if step > 0 else (growth, 1 / growth)
    signs = start
    for _ in range(most):
        rise = (times - signs, signs + 1) if step > 0 else (signs, times - signs + 1)
        ours, theirs = ours * rise[0] / rise[1] * up, theirs * rise[0] / rise[1] * down
        signs += step
        terms.append((ours, theirs))
        if ours < floor:
            break
    return terms


def _log_factorial(n: int) -> Decimal:
    """ln n!, to 40 digits."""
    if n < _STIRLING_FROM:
        return Decimal(math.factorial(n)).ln()
    value = Decimal(n)
    series, power = Decimal(0), 1 / value
    for term in _STIRLING:
        series += as_decimal(term) * power
        power /= value * value
    return (value + Decimal("0.5")) * value.ln() - value + _LN_TWO_PI / 2 + series
