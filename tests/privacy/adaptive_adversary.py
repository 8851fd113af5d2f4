"""Compute the largest delta that an adversary reaches by choosing each release from the earlier outputs.

Privacy losses of independent draws add up. After some releases, an adversary therefore needs to know only the
remaining budget and the remaining epsilon e, which is epsilon minus the privacy loss so far. After the last release,
delta is max(0, 1 - exp(e)). Before that, delta is computed for each possible next release, as the average over the
privacy loss of this release, and the adversary chooses the release with the largest delta. The losses have the
worst distribution that the cost allows: for Gaussian noise of rho, a normal distribution of mean rho and variance
2 rho; for a pure release, a coin with loss +-epsilon; and a key of an open domain reveals its privacy unit with the
stated probability. Averages are sums over a grid of a hundredth of a standard deviation (a fiftieth for three
releases), which gives delta with a relative error of 2e-4 (6e-4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Move:
    """A release: "gaussian" (amount: rho), "coin" (amount: epsilon) or "open" (amount: P[a unit is revealed])."""

    kind: str
    amount: float


Moves = Callable[[tuple[Move, ...]], Iterable[Move]]
"""Maps past moves to the moves that an accountant then allows."""


def most(moves: Moves, epsilon: float, steps: int) -> float:
    """Return the largest delta at `epsilon` that an adaptive adversary reaches with at most `steps` releases."""
    apart = 0.01 if steps < 3 else 0.02
    return float(_value(moves, (), np.array([epsilon]), steps, np.arange(-9.0, 9.0 + apart, apart))[0])


def _value(moves: Moves, made: tuple[Move, ...], left: FloatArray, steps: int, grid: FloatArray) -> FloatArray:
    """Return the largest delta that the adversary can still reach for each remaining epsilon; shape (n,)."""
    best = np.maximum(0.0, -np.expm1(np.minimum(left, 0.0)))
    if steps == 0:
        return best
    for move in moves(made):
        best = np.maximum(best, _after(moves, (*made, move), move, left, steps - 1, grid))
    return best


def _after(
    moves: Moves, made: tuple[Move, ...], move: Move, left: FloatArray, steps: int, grid: FloatArray
) -> FloatArray:
    if move.amount <= 0:
        return _value(moves, made, left, steps, grid)
    if move.kind == "open":
        return move.amount + (1.0 - move.amount) * _value(moves, made, left, steps, grid)
    if move.kind == "coin":
        kept = 1.0 / (1.0 + math.exp(-move.amount))
        up, down = (_value(moves, made, left + sign * move.amount, steps, grid) for sign in (-1.0, 1.0))
        return kept * up + (1.0 - kept) * down
    mu = math.sqrt(2.0 * move.amount)
    if steps == 0:
        return gaussian(left, mu)
    loss, weight = mu * mu / 2.0 + mu * grid, np.exp(-(grid**2) / 2.0)
    deeper = _value(moves, made, np.subtract.outer(left, loss).reshape(-1), steps, grid)
    return np.asarray(deeper.reshape(left.size, grid.size) @ (weight / weight.sum()))


def gaussian(left: FloatArray, mu: float) -> FloatArray:
    """Return delta between N(0, 1) and N(mu, 1) for each remaining epsilon; shape (n,)."""
    first = ndtr(mu / 2.0 - left / mu)
    return np.maximum(0.0, first - np.exp(np.minimum(left, 700.0)) * ndtr(-mu / 2.0 - left / mu))
