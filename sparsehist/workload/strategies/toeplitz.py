"""Strategies whose R is a lower triangular Toeplitz matrix: the square root of the prefix sums, whole or banded.

Prefix sums are 1/(1 − x) as a power series, so their square root has the coefficients of (1 − x)^(−1/2),
c_k = C(2k, k)/4^k, and its inverse those of (1 − x)^(1/2). With R banded the noise R⁻¹·z is an autoregression: a
stream of answers needs the last bands − 1 values, nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, lru_cache

import numpy as np
from scipy import fft

from sparsehist.errors import DeclarationError
from sparsehist.typing import ArrayLike, FloatArray, IntArray
from sparsehist.workload.gram.profiles import Profile, as_reached, by_sides, numbers_up_to
from sparsehist.workload.queries.linear_queries import Workload
from sparsehist.workload.strategies.invertible import Invertible
from sparsehist.workload.strategies.strategy import Sensitivity, along

# Up to so many keys each rank is bounded by itself, from there on in groups; and coefficients one by one, up to
# there, and then in blocks that grow by a fixed share.
_RANKS = 256
_SINGLE, _GROWTH = 512, 1.02
# Sums of up to so many coefficients are listed; of more they are known from series, to rounding.
_LISTED = 4096
_OfNumbers = Callable[[IntArray], FloatArray]


class SquareRoot(Invertible):
    """The square root of the prefix sums, plain, or with columns scaled to norm 1.

    Scaled it has a smaller error at one cell per unit.

    Source: Fichtenberger, Henzinger and Upadhyay 2023, section 3, for the plain one.
    """

    word = "square_root"
    one_column = True

    def __init__(self, workload: Workload, *, scaled: bool = False) -> None:
        super().__init__(workload)
        self.scaled = bool(scaled)
        self._cells = self.bands = workload.n_cells

    @property
    def name(self) -> str:
        return f"{self.word}(scaled=True)" if self.scaled else self.word

    @property
    def n_noise(self) -> int:
        return self._cells

    @cached_property
    def coefficients(self) -> FloatArray:
        """First column of R before scaling, positive and falling; shape (cells,)."""
        return _series(0.5, self._cells)

    @cached_property
    def inverse(self) -> FloatArray:
        """First column of the inverse; shape (cells,)."""
        return _series(-0.5, self._cells)

    @cached_property
    def norms(self) -> FloatArray:
        """What columns are divided by; shape (cells,)."""
        if not self.scaled:
            return np.ones(self._cells)
        return np.sqrt(np.cumsum(self.coefficients**2))[::-1]

    def apply(self, x: ArrayLike) -> FloatArray:
        values = np.asarray(x, np.float64)
        return _convolved(self.coefficients, values / along(self.norms, values))

    def solve(self, z: FloatArray) -> FloatArray:
        return _convolved(self.inverse, z) * along(self.norms, z)

    def roundings(self) -> float:
        """Three transforms of at most four times the length, of a filter whose coefficients add up to at most 2."""
        return 6 * (8 * math.log2(4 * self._cells) + 2)

    def cell_variance(self) -> float:
        return float(np.mean(self.norms**2)) * float(self.inverse @ self.inverse)

    def solve_transposed(self, a: FloatArray) -> FloatArray:
        return _convolved(self.inverse, (a * along(self.norms, a))[::-1])[::-1]

    def prefix_variances(self) -> FloatArray:
        if self.scaled:
            return super().prefix_variances()
        return np.cumsum(np.cumsum(self.inverse) ** 2)

    def sensitivity(self, max_keys: int) -> Sensitivity:
        """Bounds by rank: see `windows_by_rank`; the set of the first cells from below."""
        keys = min(max_keys, self._cells)
        upper = windows_by_rank(self._sums, self._norms, self._cells, keys)
        largest = 1.0 if self.scaled else float(squares_up_to(np.array([self.bands]))[0])
        bound = min(upper * (1 + 1e-9), keys**2 * largest) ** 0.5
        return Sensitivity(bound, min(float(self._reached(np.array([keys]))[0]), bound))

    def _sums(self, number: IntArray) -> FloatArray:
        """The first so many coefficients added up."""
        return sums_up_to(np.minimum(number, self.bands))

    def _norms(self, number: IntArray) -> FloatArray:
        """What the column with so many coefficients is divided by."""
        return np.sqrt(squares_up_to(np.minimum(number, self.bands))) if self.scaled else np.ones(number.shape)

    def _reached(self, keys: IntArray) -> FloatArray:
        """At least what the first cells do, so many of them, as norms fall: the least of each block of rows."""
        edges = _graded(self._cells)
        first, last = edges[:-1, np.newaxis], edges[1:, np.newaxis] - 1
        moved = [self._sums(at + 1) - self._sums(np.maximum(at + 1 - keys, 0)) for at in (first, last)]
        squares = (last - first + 1).T @ np.minimum(*moved) ** 2
        return np.asarray(np.sqrt(squares[0]) / float(self._norms(np.array([self._cells]))[0]) * (1 - 1e-9))

    def profile(self, max_keys: int) -> Profile:
        """By sides: see `windows_by_rank` and `profiles`; the same set from below, by blocks of its coefficients."""
        written_out = self._profile_of_rows(max_keys)
        if written_out:
            return written_out
        keys = min(max_keys, self._cells)
        ends = numbers_up_to(keys) - 1
        fewest = np.append(0, ends[:-1] + 1)
        none = np.zeros_like(ends)
        # with the diagonal on the left, W_k on the right without it is that of k − 1
        left = _rows(self._sums, self._norms, self._cells, fewest, ends, none)
        right = _rows(self._sums, self._norms, self._cells, none, none - 1, ends)
        upper = by_sides(left.T, right.T, ends - fewest + 1) * (1 + 1e-9)
        norms = np.sqrt(np.minimum(upper, np.arange(1, keys + 1) ** 2 * float(upper[0])))
        return Profile(norms, norms, np.minimum(as_reached(ends + 1, self._reached(ends + 1)), norms))

    def l1_sensitivity(self, max_keys: int) -> float:
        """No entry is negative: the sum of the largest columns', which are the first ones.

        With S and Q the sums of m coefficients and of their squares a column has S, or S/√Q, which grows with m: one
        more coefficient c has c·S <= Q, as coefficients fall, so that (1 + c/S)² >= 1 + c²/Q.
        """
        number = self._cells - np.arange(min(max_keys, self._cells))
        return float((self._sums(number) / self._norms(number)).sum()) * (1 + 1e-12)


class Banded(SquareRoot):
    """The square root of the prefix sums with its coefficients cut off: for streams, in small state.

    The number of bands goes from 1 (noise on every cell by itself) to n (the whole square root).

    Source: Kalinin and Lampert 2024, for the banded square root.
    """

    word = "banded"

    def __init__(self, workload: Workload, *, bands: int = 64) -> None:
        super().__init__(workload)
        if isinstance(bands, bool) or not isinstance(bands, int) or bands < 1:
            raise DeclarationError(f"bands is a number of coefficients, at least 1, got {bands!r}")
        self.bands = min(bands, self._cells)

    @property
    def name(self) -> str:
        return f"{self.word}(bands={self.bands})"

    @cached_property
    def coefficients(self) -> FloatArray:
        kept = _series(0.5, self._cells)
        kept[self.bands :] = 0.0
        return kept

    @cached_property
    def inverse(self) -> FloatArray:
        impulse = np.zeros(self._cells)
        impulse[0] = 1.0
        return self._filtered(impulse)

    def solve(self, z: FloatArray) -> FloatArray:
        return self._filtered(z)

    def roundings(self) -> float:
        """Each step adds up `bands` terms, and what it is off by goes through the inverse."""
        return (self.bands + 1) * (1 + float(self.coefficients.sum())) * float(np.abs(self.inverse).sum())

    @property
    def beginning(self) -> FloatArray:
        """The state of a stream before its first value; shape (bands,)."""
        return np.zeros(self.bands)

    def stream(self, state: FloatArray, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Go on by fresh noise z, shape (m,), from a state: the next state, and the noise of the next m prefix sums.

        States are secret; the first one is `beginning`.
        """
        from scipy.signal import lfilter  # half a second, for streams only

        filter_state, total = state[:-1], state[-1]
        if self.bands == 1:
            cells = z
        else:
            cells, filter_state = lfilter([1.0], self.coefficients[: self.bands], z, zi=filter_state)
        answers = total + np.cumsum(cells)
        return np.append(filter_state, answers[-1:] if answers.size else total), answers

    def _filtered(self, z: FloatArray) -> FloatArray:
        from scipy.signal import lfilter

        return np.asarray(lfilter([1.0], self.coefficients[: self.bands], z, axis=0))


def windows_by_rank(sums: _OfNumbers, norms: _OfNumbers, n: int, keys: int) -> float:
    """Bound 1ᵀ_S G 1_S for G = RᵀR, R Toeplitz with coefficients that are positive and fall, as column norms do.

    `sums` adds the first so many of them up, `norms` is what the column with so many is divided by.

    As in `gram.rank_bound`: the Gram matrix before scaling, C[i, j] = Σ_{k < n − max(i, j)} c_k c_{k + |i − j|}, is
    positive and falls away from the diagonal, so if i has a members of S on its left and b on its right, its row over
    S is at most that over the window from i − a to i + b: Σ_{k < n − i} c_k W_k, where W_k adds up c from k − b to
    k + a. W_k grows up to k = b and falls from there on, so over a block of k it is taken where it is greatest.
    """
    ranks = np.unique(np.linspace(0, keys, _RANKS + 1).astype(np.int64))
    first, left, right = ranks[:-1], ranks[1:] - 1, keys - 1 - ranks[:-1]
    return float(np.diff(ranks) @ _rows(sums, norms, n, first, left, right).max(axis=1))


def _rows(
    sums: _OfNumbers, norms: _OfNumbers, n: int, first: IntArray, left: IntArray, right: IntArray
) -> FloatArray:
    """The greatest row of a block of cells over windows, of those cells that have `first` ones on their left.

    0 where a block has none of these cells; shape (windows, blocks).
    """
    edges = _graded(n)
    start, end = edges[:-1], edges[1:]
    first, left, right = first[:, np.newaxis], left[:, np.newaxis], right[:, np.newaxis]
    # The cell i = n − 1 − k has i cells on its left: it cannot be of a higher rank, and blocks of k end there.
    peak = np.clip(right, start, np.minimum(end, n - first) - 1)
    windows = sums(np.minimum(peak + left + 1, n)) - sums(np.maximum(peak - right, 0))
    blocks = np.minimum(sums(end), sums(n - first)) - sums(start)
    rows = np.cumsum(blocks * windows, axis=1) / norms(start + 1) ** 2
    return np.where(start < n - first, rows, 0.0)


def _graded(size: int) -> IntArray:
    """Where blocks of the numbers below `size` begin, and the end: single numbers, then ever longer blocks."""
    steps = max(0, math.ceil(math.log(max(size, _SINGLE) / _SINGLE) / math.log(_GROWTH)))
    far = (_SINGLE * _GROWTH ** np.arange(steps)).astype(np.int64)
    near = np.concatenate([np.arange(_SINGLE), far])
    return np.unique(np.append(near[near < size], size))


def sums_up_to(number: IntArray) -> FloatArray:
    """c_0 + … + c_(m − 1) = 2m·c_m of the whole square root, from a table or by Stirling's series; any shape."""
    x = 1.0 / np.maximum(number, 1)
    far = 2.0 / np.sqrt(math.pi * x) * (1.0 + x * (-1.0 / 8 + x * (1.0 / 128 + x * (5.0 / 1024))))
    return np.where(number < _LISTED, _listed()[0][np.minimum(number, _LISTED)], far)


def squares_up_to(number: IntArray) -> FloatArray:
    """The same of c_k² = (1/π)(1/k − 1/4k² + 1/32k³ + …), by the formula of Euler and Maclaurin."""

    def primitive(m: FloatArray) -> FloatArray:
        x = 1.0 / m
        integral = -np.log(x) + x * (1.0 / 4 + x * (-1.0 / 64 - x / 384))
        value = x * (1.0 + x * (-1.0 / 4 + x * (1.0 / 32 + x / 128)))
        slope = x * x * (-1.0 + x * (1.0 / 2 - x * (3.0 / 32)))
        return np.asarray((integral - value / 2 + slope / 12) / math.pi)

    near, begin = _listed()[1], np.array(float(_LISTED))
    far = near[_LISTED] + primitive(np.maximum(number, 1).astype(np.float64)) - primitive(begin)
    return np.where(number < _LISTED, near[np.minimum(number, _LISTED)], far)


@lru_cache(maxsize=1)
def _listed() -> tuple[FloatArray, FloatArray]:
    """Sums of the first 0, 1, … coefficients and of their squares; shape (_LISTED + 1,) each."""
    c = np.append(0.0, _series(0.5, _LISTED))
    return np.cumsum(c), np.cumsum(c * c)


def _series(power: float, size: int) -> FloatArray:
    """Coefficients of (1 − x)^(−power)."""
    k = np.arange(1, size)
    return np.concatenate([np.ones(1), np.cumprod((k - 1 + power) / k)])


def _convolved(coefficients: FloatArray, values: FloatArray) -> FloatArray:
    size = coefficients.size
    length = fft.next_fast_len(2 * size, real=True)
    waves = fft.rfft(values, length, axis=0)
    response = fft.rfft(coefficients, length)
    waves *= along(response, values)
    return np.asarray(fft.irfft(waves, length, axis=0)[:size])
