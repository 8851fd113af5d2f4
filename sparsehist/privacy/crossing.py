"""Where a monotone function of one number crosses zero."""

from __future__ import annotations

from collections.abc import Callable

from sparsehist.errors import LawError

_MOST_STEPS = 200


def crossing(function: Callable[[float], float], low: float, high: float, *, tolerance: float = 4e-16) -> float:
    """A zero of a monotone function that has opposite signs, or a zero, at `low` and `high`, to a relative tolerance.

    Source: Chandrupatla 1997, "A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear
    function without using derivatives".

    Example:
        >>> round(crossing(lambda x: x * x - 2.0, 0.0, 2.0), 14)
        1.4142135623731
    """
    a, b = high, low
    value_a, value_b = function(a), function(b)
    if value_a == 0.0 or value_b == 0.0:
        return a if value_a == 0.0 else b
    if (value_a > 0) == (value_b > 0):
        raise LawError(f"no zero is enclosed between {low!r} and {high!r}, with values {value_b!r} and {value_a!r}")
    c, value_c, share = a, value_a, 0.5
    for _ in range(_MOST_STEPS):
        place = a + share * (b - a)
        value = function(place)
        if value == 0.0:
            return place
        if (value > 0) == (value_a > 0):
            c, value_c = a, value_a
        else:
            c, value_c, b, value_b = b, value_b, a, value_a
        a, value_a = place, value
        best = a if abs(value_a) < abs(value_b) else b
        least = max(tolerance, 2.3e-16) * abs(best) / abs(b - a) if b != a else 1.0
        if least > 0.5:
            return best
        xi = (a - b) / (c - b)
        phi = (value_a - value_b) / (value_c - value_b)
        if phi * phi < xi and (1.0 - phi) ** 2 < 1.0 - xi:
            share = value_a / (value_b - value_a) * value_c / (value_b - value_c) + (c - a) / (b - a) * value_a / (
                value_c - value_a
            ) * value_b / (value_c - value_b)
        else:
            share = 0.5
        share = min(max(share, least), 1.0 - least)
    return best
