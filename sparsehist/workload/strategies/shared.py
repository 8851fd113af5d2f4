"""Noise that all cells share, beside their own: best for small catalogues of which a unit may touch much.

With c·J taken from RᵀR = I − c·J (J all ones), a unit with k cells moves R·x by k − c·k², less than the k of noise on
every cell by itself. The noise of a cell, the diagonal of (RᵀR)⁻¹, grows to 1 + common/d, where
c = common/(d(1 + common)): single cells hardly pay for it, their sum does. Any permutation of the cells maps the
problem onto itself, and Δ² and tr(RᵀR)⁻¹ are convex in RᵀR: some strategy of this form is the best of all for the
cells themselves.
"""

from __future__ import annotations

import math

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import ArrayLike, FloatArray, IntArray
from sparsehist.workload.gram.profiles import Profile
from sparsehist.workload.queries.linear_queries import Workload
from sparsehist.workload.queries.rows_of_ranges import Ranges
from sparsehist.workload.strategies.invertible import Invertible
from sparsehist.workload.strategies.strategy import Sensitivity


class Shared(Invertible):
    """Noise Z_i on every cell and one noise on all: R = (I − c·J)^½, with the covariance I + (common/d)·J of R⁻¹Z.

    Args:
        workload: On d cells, of any number of columns.
        common: Variance of the shared noise, times d; not negative. Zero is the identity.
    """

    word = "shared"

    def __init__(self, workload: Workload, common: float) -> None:
        super().__init__(workload)
        if isinstance(common, bool) or not isinstance(common, int | float) or not 0 <= common < math.inf:
            raise DeclarationError(f"shared(common=…): common is a finite number, 0 or larger, got {common!r}")
        self.common = float(common)
        # R = I − (1 − 1/r)/d·J and R⁻¹ = I + (r − 1)/d·J with r = √(1 + common).
        self._root = math.sqrt(1.0 + self.common)

    @classmethod
    def for_unit(cls, workload: Workload, max_keys: int) -> Shared:
        """The shared noise of least error on single cells, for units of up to `max_keys` cells.

        While the unit that moves most has k cells, the error has one minimum; else it is where k and k + 1 cells move
        equally much.
        """
        cells = workload.n_cells
        k = np.arange(1.0, min(max_keys, cells) + 1)
        inside = k[k < cells]
        kinks = 2 * k[:-1] + 1 - cells
        common = np.concatenate(
            [[0.0], np.sqrt(1 + (inside - 1) / (1 - inside / cells)) - 1, cells / kinks[kinks > 0]]
        )
        most = np.divide(cells * (1 + common), 2 * common, out=np.full(common.shape, np.inf), where=common > 0)
        worst = np.stack([np.clip(rounded, 1, k.size) for rounded in (np.floor(most), np.ceil(most))])
        errors = (1 + common / cells) * _squares(worst, cells, common).max(axis=0)
        return cls(workload, float(common[errors.argmin()]))

    @property
    def name(self) -> str:
        return f"shared(common={self.common!r})"

    @property
    def n_noise(self) -> int:
        return self.workload.n_cells

    def sensitivity(self, max_keys: int) -> Sensitivity:
        """Exact: the largest over k of k − c·k²."""
        cells = self.workload.n_cells
        k = np.arange(1.0, min(max_keys, cells) + 1)
        l2 = math.sqrt(float(_squares(k, cells, self.common).max()))
        return Sensitivity(l2, l2)

    def profile(self, max_keys: int) -> Profile:
        """Exact; |RᵀR| is (1 − 2c)·I + c·J, which is positive semidefinite for two cells and more."""
        cells = self.workload.n_cells
        k = np.arange(1.0, min(max_keys, cells) + 1)
        norms = np.sqrt(np.maximum.accumulate(_squares(k, cells, self.common)))
        share = self.common / (cells * (1 + self.common))
        return Profile(norms, np.sqrt(k * (1 - 2 * share) + share * k * k), norms, 1.0)

    def l1_sensitivity(self, max_keys: int) -> float:
        """Exact: the largest over k of the k rows of the cells and the d − k others."""
        cells = self.workload.n_cells
        k = np.arange(1.0, min(max_keys, cells) + 1)
        taken = k / cells * (1 - 1 / self._root)
        return float(np.max(k * np.abs(1 - taken) + (cells - k) * taken))

    def apply(self, x: ArrayLike) -> FloatArray:
        return self._with_mean(np.asarray(x, np.float64), 1 / self._root - 1)

    def solve(self, z: FloatArray) -> FloatArray:
        return self._with_mean(z, self._root - 1)

    def roundings(self) -> float:
        """Partial sums of k noises have the deviation √k: a mean of n is off by less than √n last digits."""
        return (self._root - 1) * math.sqrt(self.workload.n_cells) + 3

    def cell_variance(self) -> float:
        return 1 + self.common / self.workload.n_cells

    def solve_transposed(self, a: FloatArray) -> FloatArray:
        return self.solve(a)

    def _with_mean(self, values: FloatArray, times: float) -> FloatArray:
        moved: FloatArray = values + times * values.mean(axis=0, keepdims=True)
        return moved

    def query_variance(self) -> FloatArray:
        totals = self.workload.apply(np.ones(self.workload.n_cells))
        return self.workload.row_squares() + self.common / self.workload.n_cells * totals**2

    def mean_variance(self) -> float:
        if isinstance(self.workload, Ranges) and not self.workload.explicit:
            n = self.workload.n
            return (n + 2) / 3 + self.common / n * (n + 1) * (n + 2) / 6
        return float(self.query_variance().mean())

    def range_variances(self, low: IntArray, high: IntArray) -> FloatArray:
        lengths = (high - low + 1).astype(np.float64)
        return lengths + self.common / self.workload.n_cells * lengths**2

    def prefix_variances(self) -> FloatArray:
        return self.range_variances(np.zeros(self.workload.n_cells, np.int64), np.arange(self.workload.n_cells))


def _squares(k: FloatArray, cells: int, common: float | FloatArray) -> FloatArray:
    """How far a unit of k cells moves R·x, squared: k − c·k²."""
    return k - k * k / cells * (common / (1 + common))
