"""E[(1 - e**(epsilon - loss))+] for the sum of a few equal losses, with every sum of half of them listed.

Nothing is rounded to a grid and everything is summed from positive terms: the digits are those of the
probabilities. The sums of the smaller half are sorted; those of the larger are only run through.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# Sums with less than this probability are left out: 1e-17 of it all.
LEAST_MASS = 1e-24
_AT_ONCE = 1 << 20


def stick_from_halves(
    atoms: FloatArray, mass: FloatArray, keys: int, epsilon: float, tilt: float, most_sums: int
) -> float | None:
    """The tilted expectation of e**(-tilt y) (1 - e**-y)+, y the sum of the losses less epsilon.

    Args:
        atoms: Losses of one key, shape (n,).
        mass: Their tilted probabilities, shape (n,).
        keys: Number of losses added up; at least 2.
        epsilon: Where the kink is.
        tilt: Of the probabilities; at least 0.
        most_sums: Most sums of the larger half worth listing.

    Returns:
        The expectation, or None if there are more sums.

    With y the sums of the sorted half, T(i) is the sum over j >= i of w_j e**(-tilt (y_j - y_i)), and H(i) the
    stick over the same with its foot at y_i, itself a sum of T over the gaps: positive terms only.
    """
    larger = sums_of(atoms, mass, keys - keys // 2, most_sums)
    if larger is None:
        return None
    smaller = larger if keys % 2 == 0 else sums_of(atoms, mass, keys // 2, most_sums)
    assert smaller is not None
    order = np.argsort(smaller[0])
    loss, weight = smaller[0][order], smaller[1][order]
    middle = float(weight @ loss)
    # Clipped powers belong to pairs in opposite far tails, of mass e**-100.
    power = np.exp(np.clip(-tilt * (loss - middle), -650.0, 650.0))
    steeper = power * np.exp(np.clip(middle - loss, -40.0, 40.0))
    plain = _sums_from(weight * power) / power
    gaps = np.diff(loss)
    fallen = np.append(steeper[:-1] * np.exp(-tilt * gaps) * plain[1:] * -np.expm1(-gaps), 0.0)
    stick = _sums_from(fallen) / steeper
    total = 0.0
    for begin in range(0, larger[0].size, _AT_ONCE):
        rest, chance = epsilon - larger[0][begin : begin + _AT_ONCE], larger[1][begin : begin + _AT_ONCE]
        start = np.searchsorted(loss, rest, side="right")
        inside = start < loss.size
        start = start[inside]
        foot = loss[start] - rest[inside]
        reached = stick[start] * np.exp(-foot) - plain[start] * np.expm1(-foot)
        total += float(np.sum(chance[inside] * np.exp(-tilt * foot) * reached))
    return total


def _sums_from(terms: FloatArray) -> FloatArray:
    return np.asarray(np.cumsum(terms[::-1])[::-1])


def sums_of(
    atoms: FloatArray, mass: FloatArray, factors: int, most_sums: int
) -> tuple[FloatArray, FloatArray] | None:
    """Every sum of so many atoms with its probability, one for all orders of the same atoms; None if too many.

    Each multiset is continued by its last atom or a less likely one, as far as the product is worth keeping: how
    many that will be is known before they are made.
    """
    likely = np.argsort(-mass, kind="stable")
    atoms, mass = atoms[likely], mass[likely]
    loss, weight = atoms, mass
    last, run = np.arange(atoms.size), np.ones(atoms.size, np.int64)
    for factor in range(2, factors + 1):
        worth = np.searchsorted(-mass, -LEAST_MASS / (weight * factor), side="left")
        choices = np.maximum(worth - last, 0)
        if int(choices.sum()) > most_sums:
            return None
        begun = np.repeat(np.arange(last.size), choices)
        following = np.arange(begun.size) - np.repeat(np.cumsum(choices) - choices, choices) + last[begun]
        again = np.where(following == last[begun], run[begun] + 1, 1)
        weight = weight[begun] * mass[following] * (factor / again)
        loss = loss[begun] + atoms[following]
        last, run = following, again
    return loss, weight
