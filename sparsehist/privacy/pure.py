"""Exact composition of k releases that are epsilon-DP each.

The hardest such releases are k coins of randomised response: the privacy loss is (k - 2 l) epsilon with
probability C(k, l) e**((k - l) epsilon) / (1 + e**epsilon)**k, so that

    delta(e) = sum of C(k, l) (e**((k - l) epsilon) - e**(e + l epsilon)) / (1 + e**epsilon)**k

over the l with (k - 2 l) epsilon > e.

The sum runs over some multiple of sqrt(k) terms, in 60 digits: its two halves cancel for a small epsilon, and
where delta is close to that of e = 0 an epsilon of 1e-6 stands in the digits after the tenth.

Source: Kairouz, Oh and Viswanath 2015, Theorem 3.3 with delta 0; optimal over all epsilon-DP releases, however
adaptive. Numerical gap: none to 15 digits, rounded to nearest, not upwards.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import reduce
from itertools import accumulate

from sparsehist.errors import DeclarationError
from sparsehist.privacy.exact import MANY_DIGITS, Number, as_decimal, at_least_zero, log, probability

MOST_RELEASES = 10**8
"""Beyond so many the sums take minutes."""

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
    """The smallest delta with which `times` releases, each `each`-DP, are together (epsilon, delta)-DP.

    Args:
        epsilon: At least 0.
        each: epsilon of one release; at least 0.
        times: Number of releases; from 1 to 10**8.

    Returns:
        delta, from 0 to 1; to 15 digits. 0.0 from times * each on.

    Raises:
        DeclarationError: If one of them is out of its range.

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
    """The smallest epsilon with which `times` releases, each `each`-DP, are together (epsilon, delta)-DP.

    Args:
        delta: Strictly between 0 and 1.
        each: epsilon of one release; at least 0.
        times: Number of releases; from 1 to 10**8.

    Returns:
        epsilon, at least 0; to 15 digits.

    Raises:
        DeclarationError: If one of them is out of its range.

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
