"""Every sum of a few equal losses with its probability: as multisets, or with equal sums merged on the way."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Law = tuple[FloatArray, FloatArray]

# Losses are logarithms of products of whole numbers: equal products come out this close after a few additions.
_EQUAL = 1e-13
# Up to so many factors few products coincide, and each multiset is made once instead of in every order.
_MULTISETS = 4
# With a drop below the first, each multiset above the second is made: what lacks is 1e-17.
_LISTED_IN_FULL, _TRUE_MASS = 1e-15, 1e-24
_NORMAL = 1e-300
_AT_LEAST = 0.5


def sums_of(
    atoms: FloatArray, mass: FloatArray, factors: int, drop: float, most: int, *, partly: bool = False
) -> Law | None:
    """The law of the sum of so many atoms, but for sums of a small total probability.

    Args:
        atoms: Losses of one key, shape (n,).
        mass: Their probabilities, shape (n,).
        factors: Number of losses added up; at least 1.
        drop: The most that may be missing of the total probability, about.
        most: Most sums worth making.
        partly: More may be missing than `drop` if there are too many, up to half.

    Returns:
        Sums and probabilities, in no order, shapes (m,); None if there are too many. No probability is too large.
    """
    if factors > _MULTISETS:
        return _merged(atoms, mass, factors, drop, most, partly=partly)
    if drop <= _LISTED_IN_FULL:
        return _multisets(atoms, mass, factors, _TRUE_MASS if drop > 0.0 else _NORMAL, most)
    least = 1.0 / most  # of which there are no more
    whole = float(mass.sum()) ** factors
    found = _multisets(atoms, mass, factors, least, most)
    while found is not None and least > _TRUE_MASS and whole - float(found[1].sum()) > drop:
        least /= 4.0
        finer = _multisets(atoms, mass, factors, least, most)
        if finer is None:
            return found if partly and float(found[1].sum()) > _AT_LEAST * whole else None
        found = finer
    return found


def _multisets(atoms: FloatArray, mass: FloatArray, factors: int, least: float, most: int) -> Law | None:
    """Every multiset at least so likely; each is continued by its last atom or a less likely one."""
    likely = np.argsort(-mass, kind="stable")
    atoms, mass = atoms[likely], mass[likely]
    loss, weight = atoms, mass
    last, run = np.arange(atoms.size), np.ones(atoms.size, np.int64)
    for factor in range(2, factors + 1):
        worth = np.searchsorted(-mass, -least / (weight * factor), side="left")
        choices = np.maximum(worth - last, 0)
        if int(choices.sum()) > most:
            return None
        begun = np.repeat(np.arange(last.size), choices)
        following = np.arange(begun.size) - np.repeat(np.cumsum(choices) - choices, choices) + last[begun]
        again = np.where(following == last[begun], run[begun] + 1, 1)
        weight = weight[begun] * mass[following] * (factor / again)
        loss = loss[begun] + atoms[following]
        last, run = following, again
    return loss, weight


def _merged(atoms: FloatArray, mass: FloatArray, factors: int, drop: float, most: int, *, partly: bool) -> Law | None:
    """One atom more at a time, pairs of little probability left out, equal sums merged."""
    order = np.argsort(atoms)
    atoms, mass = atoms[order], mass[order]
    loss, weight = atoms, mass
    for factor in range(2, factors + 1):
        least = _bound_on_pairs(weight, mass, drop / factors, most if partly else weight.size * mass.size)
        kept = [np.flatnonzero(weight >= least / chance) for chance in mass]
        if sum(one.size for one in kept) > most:
            return None
        sums = np.concatenate([loss[one] + atom for one, atom in zip(kept, atoms, strict=True)])
        chances = np.concatenate([weight[one] * chance for one, chance in zip(kept, mass, strict=True)])
        order = np.argsort(sums, kind="stable")  # made of sorted runs, which this kind merges
        sums, chances = sums[order], chances[order]
        first = np.flatnonzero(np.diff(sums, prepend=-np.inf) > _EQUAL)
        loss, weight = sums[first], np.add.reduceat(chances, first)
        if float(weight.sum()) < _AT_LEAST * float(mass.sum()) ** factor:
            return None
    return loss, weight


def _bound_on_pairs(weight: FloatArray, mass: FloatArray, drop: float, most: int) -> float:
    """Pairs less likely than this add up to `drop` at most, or the others are `most` at most if that is more."""
    ordered = np.sort(weight)
    below = np.concatenate([[0.0], np.cumsum(ordered)])
    low, high = -700.0, 0.0
    while high - low > 0.1:
        middle = (low + high) / 2.0
        first = np.searchsorted(ordered, math.exp(middle) / mass, side="left")
        little = float(mass @ below[first]) <= drop or weight.size * mass.size - int(first.sum()) > most
        low, high = (middle, high) if little else (low, middle)
    return math.exp(high if most < weight.size * mass.size else low)


def likeliest(law: Law, missing: float, most: int) -> Law:
    """The likeliest sums of a law, in its order: those that `missing` does without, and about `most` at most."""
    ascending = np.sort(law[1])
    dropped = max(int(np.searchsorted(np.cumsum(ascending), missing)), ascending.size - most)
    kept = law[1] >= ascending[min(dropped, ascending.size - 1)]
    return law[0][kept], law[1][kept]


def in_order(law: Law) -> Law:
    """The same law, its sums ascending."""
    order = np.argsort(law[0])
    return law[0][order], law[1][order]
