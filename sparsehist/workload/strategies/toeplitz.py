"""Strategies whose R is a lower triangular Toeplitz matrix: the square root of the prefix sums, whole or banded.

Prefix sums are 1/(1 − x) as a power series, so their square root has the coefficients of (1 − x)^(−1/2),
c_k = C(2k, k)/4^k, and its inverse those of (1 − x)^(1/2). With R banded the noise R⁻¹·z is an autoregression: a
stream of answers needs the last bands − 1 values, nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy import fft

from sparsehist.errors import DeclarationError
from sparsehist.typing import ArrayLike, FloatArray
from sparsehist.workload.queries.linear_queries import Workload
from sparsehist.workload.strategies.invertible import Invertible
from sparsehist.workload.strategies.strategy import Sensitivity, along

# Windows of each rank are taken cell by cell up to this many; then ranks are bounded in groups.
_WINDOWS = 2**27


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
        self._cells = workload.n_cells

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
        upper = windows_by_rank(self.coefficients, self.norms, keys)
        first = np.zeros(self._cells)
        first[:keys] = 1.0
        reached = float(np.sum(self.apply(first) ** 2))
        largest = float(np.max(np.cumsum(self.coefficients**2)[::-1] / self.norms**2))
        bound = min(upper * (1 + 1e-9), keys**2 * largest)
        return Sensitivity(bound**0.5, min(reached, bound) ** 0.5)

    def l1_sensitivity(self, max_keys: int) -> float:
        """No entry is negative: the sum of the largest columns'."""
        columns = np.sort(np.cumsum(self.coefficients)[::-1] / self.norms)
        return float(columns[-min(max_keys, self._cells) :].sum()) * (1 + 1e-12)


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


def windows_by_rank(coefficients: FloatArray, norms: FloatArray, keys: int) -> float:
    """Bound 1ᵀ_S G 1_S for G = RᵀR, R Toeplitz with positive falling coefficients and columns divided by norms.

    As in `gram.rank_bound`: the Gram matrix before scaling, C[i, j] = Σ_{k < n − max(i, j)} c_k c_{k + |i − j|}, is
    positive and falls away from the diagonal, so if i has a members of S on its left and b on its right, its row over
    S is at most that over the window from i − a to i + b. The sum over a window is a running sum over k.
    """
    n = coefficients.size
    sums = np.concatenate([np.zeros(1), np.cumsum(coefficients)])
    k = np.arange(n)
    squares = norms[::-1] ** 2  # by n − 1 − i
    total = 0.0
    for first, last in _groups(keys, max(8, _WINDOWS // n)):
        left, right = last, keys - 1 - first
        forward = sums[np.minimum(k + left + 1, n)] - sums[k]
        backward = sums[k] - sums[np.maximum(k - right, 0)]
        rows = np.cumsum(coefficients * (forward + backward)) / squares
        # The cell i = n − 1 − k has i cells on its left: it cannot be of a higher rank.
        total += (last - first + 1) * float(rows[: n - first].max())
    return total


def _groups(keys: int, most: int) -> Sequence[tuple[int, int]]:
    step = -(-keys // most)
    return [(first, min(first + step, keys) - 1) for first in range(0, keys, step)]


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
