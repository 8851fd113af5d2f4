"""Provide `SquareRoot`, the strategy in which R is the square root of the matrix A of prefix sums.

A is the lower triangular Toeplitz matrix with the coefficients of 1/(1 − x). So R has the coefficients of
(1 − x)^(−1/2), which are C(2k, k)/4^k, and R⁻¹ has the coefficients of (1 − x)^(1/2).
"""

from __future__ import annotations

import numpy as np
from scipy import fft

from sparsehist.typing import ArrayLike, FloatArray
from sparsehist.workload.queries.workload import Workload
from sparsehist.workload.sensitivity import LARGEST_GRAM, ROUND_UP, largest, squared_l2_of_gram
from sparsehist.workload.strategies.strategy import Invertible, along


class SquareRoot(Invertible):
    """The matrix square root of prefix sums. If `scaled`, columns have norm 1, which suits units of one cell.

    Source: Fichtenberger, Henzinger and Upadhyay 2023, section 3, which does not scale columns.
    """

    word = "square_root"
    one_column = True

    def __init__(self, workload: Workload, *, scaled: bool = False) -> None:
        super().__init__(workload)
        n, self.scaled = workload.n_cells, bool(scaled)
        self._column, self._inverse = _series(0.5, n), _series(-0.5, n)  # first columns of R and R⁻¹, not scaled
        self._norms = np.sqrt(np.cumsum(self._column**2))[::-1] if scaled else np.ones(n)

    @property
    def name(self) -> str:
        return f"{self.word}(scaled=True)" if self.scaled else self.word

    def apply(self, x: ArrayLike) -> FloatArray:
        values = np.asarray(x, np.float64)
        return _filtered(self._column, values / along(self._norms, values))

    def to_cells(self, z: FloatArray) -> FloatArray:
        return _filtered(self._inverse, z) * along(self._norms, z)

    def to_cells_transposed(self, a: FloatArray) -> FloatArray:
        return _filtered(self._inverse, (a * along(self._norms, a))[::-1])[::-1]

    def cell_variance(self) -> float:
        """Return an upper bound on the mean variance of cells, computed as if R⁻¹ had no zero entries."""
        return float(np.mean(self._norms**2) * (self._inverse @ self._inverse))

    def l2(self, max_keys: int) -> float:
        n, keys = self.workload.n_cells, min(max_keys, self.workload.n_cells)
        if keys > 1 and n <= LARGEST_GRAM:
            rows = self.apply(np.eye(n))
            return float(squared_l2_of_gram(rows.T @ rows, keys) ** 0.5)
        return keys * ROUND_UP * (1.0 if self.scaled else float(np.linalg.norm(self._column)))

    def l1(self, max_keys: int) -> float:
        sums = np.cumsum(self._column)[::-1] / self._norms
        return float(largest(sums, min(max_keys, self.workload.n_cells)).sum()) * ROUND_UP


def _series(power: float, size: int) -> FloatArray:
    """Return the first `size` coefficients of the power series of (1 − x)^(−power)."""
    k = np.arange(1, size)
    return np.concatenate([np.ones(1), np.cumprod((k - 1 + power) / k)])


def _filtered(coefficients: FloatArray, values: FloatArray) -> FloatArray:
    """Multiply `values` by the lower triangular Toeplitz matrix whose first column is `coefficients`."""
    size = coefficients.size
    length = fft.next_fast_len(2 * size, real=True)
    waves = fft.rfft(values, length, axis=0)
    waves *= along(fft.rfft(coefficients, length), values)
    return np.asarray(fft.irfft(waves, length, axis=0)[:size])
