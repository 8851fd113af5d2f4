"""Strategies whose R is a lower triangular Toeplitz matrix: the square root of the prefix sums, whole or banded.

Prefix sums are 1/(1 − x) as a power series, so their square root has the coefficients of (1 − x)^(−1/2),
c_k = C(2k, k)/4^k, and its inverse those of (1 − x)^(1/2). With R banded the noise R⁻¹·z is an autoregression.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import fft

from sparsehist.errors import DeclarationError, shown
from sparsehist.typing import ArrayLike, FloatArray
from sparsehist.workload.queries.workload import Workload
from sparsehist.workload.sensitivity import ROUND_UP, largest, squared_l2_by_rank
from sparsehist.workload.strategies.inverse import Invertible
from sparsehist.workload.strategies.strategy import along


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
        return _filtered(self.coefficients, values / along(self.norms, values))

    def to_cells(self, z: FloatArray) -> FloatArray:
        return _filtered(self.inverse, z) * along(self.norms, z)

    def to_cells_transposed(self, a: FloatArray) -> FloatArray:
        return _filtered(self.inverse, (a * along(self.norms, a))[::-1])[::-1]

    def prefix_variances(self) -> FloatArray:
        if self.scaled:
            return super().prefix_variances()
        return np.cumsum(np.cumsum(self.inverse) ** 2)

    def cell_variance(self) -> float:
        return float(np.mean(self.norms**2) * (self.inverse @ self.inverse))  # at most: columns of R⁻¹ end early

    def l2(self, max_keys: int) -> float:
        """By windows: unscaled, G[i, j] = Σ_k c_k c_{k + |i − j|} over k < n − max(i, j) falls away from i = j.

        The row of i over a window is at most Σ_{k < n − i} c_k·(c_{k − right} + … + c_{k + left}), and columns are
        scaled as in `Spectral.l2`.
        """
        n, keys, k = self._cells, min(max_keys, self._cells), np.arange(self._cells)
        sums = np.concatenate([np.zeros(1), np.cumsum(self.coefficients)])

        def rows(left: int, right: int) -> FloatArray:
            windows = sums[np.minimum(k + left + 1, n)] - sums[np.maximum(k - right, 0)]
            return np.asarray(np.cumsum(self.coefficients * windows)[::-1] / self.norms**2)

        return float(min(squared_l2_by_rank(rows, n, keys), keys**2 * self._largest_square() * ROUND_UP) ** 0.5)

    def _largest_square(self) -> float:
        return 1.0 if self.scaled else float(self.coefficients @ self.coefficients)

    def l1(self, max_keys: int) -> float:
        """The sum of the largest column norms, exact as no entry is negative."""
        sums = np.cumsum(self.coefficients)[::-1] / self.norms
        return float(largest(sums, min(max_keys, self._cells)).sum()) * ROUND_UP


class Banded(SquareRoot):
    """The square root of the prefix sums with its coefficients cut off after `bands`, from 1 to n.

    Source: Kalinin and Lampert 2024, for the banded square root.
    """

    word = "banded"

    def __init__(self, workload: Workload, *, bands: int = 64) -> None:
        super().__init__(workload)
        if isinstance(bands, bool) or not isinstance(bands, int) or bands < 1:
            raise DeclarationError(f"bands is a number of coefficients, at least 1, got {shown(bands)}")
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
        from scipy.signal import lfilter  # imports half a second of scipy

        impulse = np.zeros(self._cells)
        impulse[0] = 1.0
        return np.asarray(lfilter([1.0], self.coefficients[: self.bands], impulse))


def _series(power: float, size: int) -> FloatArray:
    """Coefficients of (1 − x)^(−power)."""
    k = np.arange(1, size)
    return np.concatenate([np.ones(1), np.cumprod((k - 1 + power) / k)])


def _filtered(coefficients: FloatArray, values: FloatArray) -> FloatArray:
    """The lower triangular Toeplitz matrix of these coefficients, applied; shape as `values`."""
    size = coefficients.size
    length = fft.next_fast_len(2 * size, real=True)
    waves = fft.rfft(values, length, axis=0)
    waves *= along(fft.rfft(coefficients, length), values)
    return np.asarray(fft.irfft(waves, length, axis=0)[:size])
