"""What several releases cost together, under zero-concentrated differential privacy.

Releases on one noise path are functions of the finest of them, so the path costs that one. Paths have
independent noise, so their costs add, and so do those of series over the same people.

Source: Bun and Steinke 2016, Lemma 1.7 (composition) and Proposition 1.4 (post-processing); Andersson et al.,
Definition 1.2 (lossless multiple release).
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction


def total_cost(costs: Iterable[Fraction]) -> Fraction:
    """Cost of independent paths, or of series over the same people: the sum.

    Example:
        >>> total_cost([Fraction(1, 2), Fraction(1, 10)])
        Fraction(3, 5)
    """
    return sum(costs, Fraction(0))
