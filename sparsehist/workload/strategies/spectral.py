"""The spectral strategy for one column: R = (W^½ + c·I)^½ with columns scaled, in O(n log n).

W = AᵀA for prefix sums or for all ranges. Any orthogonal matrix on the left of R gives the same law, so R is taken as
K^½ in the coordinates of the transform: R·x = κ^½ ∘ S(x/d) with κ the spectrum of K and d the scaling,
and R⁻¹·z = d ∘ Sᵀ(z/κ^½): one transform for the noise of all queries.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import ArrayLike, FloatArray, Generator, IntArray
from sparsehist.workload.gram.causal_sums import causal_sums, inverse_diagonal
from sparsehist.workload.gram.panels import on_panels
from sparsehist.workload.gram.profiles import Profile
from sparsehist.workload.gram.rank_bound import (
    l1_sensitivity_bound,
    profile_by_sides,
    squared_sensitivity_bound,
    squared_sensitivity_reached,
)
from sparsehist.workload.gram.signed_columns import l1_by_columns, largest_l1
from sparsehist.workload.gram.spectral_kernels import PrefixKernel, RangesKernel, SpectralKernel, quick_length
from sparsehist.workload.queries.linear_queries import Workload
from sparsehist.workload.queries.rows_of_ranges import Prefix, Ranges
from sparsehist.workload.strategies.invertible import Invertible
from sparsehist.workload.strategies.strategy import Sensitivity, along

_CHECKED_WHOLE = 2**16
# Up to so many cells R is written out for its L1 norms; up to more if a unit has few of them.
_WRITTEN_OUT, _LISTED, _FEW_KEYS = 128, 256, 4


class Spectral(Invertible):
    """The strategy that is within a few per cent of the best there is for prefix sums and ranges.

    Mean squared error at one cell per unit, over the singular-value bound, which no factorization beats: all ranges
    1.018 at n = 256 and 1.013 at 1024; prefix sums 1.047 and 1.035; closer to 1 for greater n.

    Args:
        workload: On one column. Prefix sums are served by their own spectrum, everything else by that of all ranges.
        blend: c in units of the least singular value; more of it for units of more cells. 0 is best for one cell.
        window: Cells on either side over which the scaling is summed: 0 for one cell per unit, about half of the
            cells of a unit of several.
        length: Length of the transform, at least n; by default the next one with small prime factors. Part of what
            the strategy is: columns beyond n are left out.

    Source: derived here.
    """

    word = "spectral"
    one_column = True

    def __init__(self, workload: Workload, *, blend: float = 0, window: int = 0, length: int | None = None) -> None:
        super().__init__(workload)
        kind: type[SpectralKernel] = PrefixKernel if isinstance(workload, Prefix) else RangesKernel
        if not (math.isfinite(blend) and 0 <= blend <= 2**31):
            raise DeclarationError(f"blend is a number from 0 to 2**31, got {blend!r}")
        if length is not None and not workload.n_cells <= length <= 2**32:
            raise DeclarationError(f"length is at least the number of cells, {workload.n_cells}, got {length!r}")
        if isinstance(window, bool) or not isinstance(window, int) or not 0 <= window < workload.n_cells:
            raise DeclarationError(f"window is a number of cells from 0 to n − 1, got {window!r}")
        self.blend, self.window = blend, window
        self.kernel = kind(quick_length(kind, workload.n_cells) if length is None else length, float(blend), window)
        self._cells = workload.n_cells

    @property
    def name(self) -> str:
        blend = int(self.blend) if self.blend == int(self.blend) else self.blend
        given = [f"blend={blend!r}"] if self.blend else []
        given += [f"window={self.window}"] if self.window else []
        given += [f"length={self.kernel.length}"] if self.kernel.length != self._cells else []
        return f"{self.word}({', '.join(given)})" if given else self.word

    @property
    def n_noise(self) -> int:
        return self.kernel.length

    def sensitivity(self, max_keys: int) -> Sensitivity:
        """Bounds by rank (`sparsehist.workload.gram.rank_bound`)."""
        upper = squared_sensitivity_bound(self.kernel, self._cells, max_keys)
        lower = squared_sensitivity_reached(self.kernel, self._cells, max_keys)
        return Sensitivity(math.sqrt(upper), math.sqrt(min(lower, upper)))

    def profile(self, max_keys: int) -> Profile:
        written_out = self._profile_of_rows(max_keys)
        return written_out or profile_by_sides(self.kernel, self._cells, min(max_keys, self._cells))

    def l1_sensitivity(self, max_keys: int) -> float:
        """By rank, by way of weighted squares, and where R is small also from R itself."""
        l1 = l1_sensitivity_bound(self.kernel, self._cells, max_keys)
        if self._cells <= _WRITTEN_OUT or (self._cells <= _LISTED and max_keys <= _FEW_KEYS):
            closer = largest_l1 if self._cells <= _WRITTEN_OUT else l1_by_columns
            l1 = min(l1, closer(self.apply(np.eye(self._cells)), min(max_keys, self._cells)))
        return l1

    def apply(self, x: ArrayLike) -> FloatArray:
        values = np.asarray(x, np.float64)
        scaled = np.zeros((self.kernel.length, *values.shape[1:]))
        scaled[: self._cells] = values / along(self._scales, values)
        return along(self.kernel.root_spectrum, values) * self.kernel.transform(scaled)

    def solve(self, z: FloatArray) -> FloatArray:
        cells = self.kernel.transform_back(z / along(self.kernel.root_spectrum, z))[: self._cells]
        return cells * along(self._scales, z)

    def roundings(self) -> float:
        """One transform, whose error has at most 8 last digits of the norm for each halving of its length.

        With scales d the sum of |d_j e_j| is at most |d| |e|, which is √2 less than by `cell_variance`.

        Source: Higham 2002, theorem 24.2, for radix 2; greater radices, and the even or odd extension, have less.
        """
        return 8 * math.log2(4 * self.kernel.length) / math.sqrt(2) + 2

    def cell_variance(self) -> float:
        """At most this: entries of the transform are at most √(2/length)."""
        return 2 * float(np.mean(1 / self.kernel.spectrum)) * float(np.mean(self._scales**2))

    def solve_transposed(self, a: FloatArray) -> FloatArray:
        scaled = np.zeros((self.kernel.length, *a.shape[1:]))
        scaled[: self._cells] = a * along(self._scales, a)
        return self.kernel.transform(scaled) / along(self.kernel.root_spectrum, a)

    def prefix_variances(self) -> FloatArray:
        return self._prefix_variances

    @cached_property
    def _prefix_variances(self) -> FloatArray:
        """By running sums of 2 d_i Σ_{j < i} K⁻¹[i, j]·d_j + d_i² K⁻¹[i, i], which are smooth but for the ends."""
        kernel, entries, weights = self.kernel, self.kernel.inverse_entries(), self._scales
        plain = max(64, 2 * self.window)

        def steps(cells: IntArray) -> FloatArray:
            before = causal_sums(kernel, entries, weights, cells, plain=plain)
            return np.asarray(
                weights[cells] * (2 * before + weights[cells] * inverse_diagonal(kernel, entries, cells))
            )

        return np.cumsum(on_panels(self._cells, steps, plain=plain))

    def cell_variances(self) -> FloatArray:
        entries, cells = self.kernel.inverse_entries(), np.arange(self._cells)
        return np.asarray(self._scales**2 * inverse_diagonal(self.kernel, entries, cells))

    def check(self, *, rng: Generator, probes: int = 3) -> None:
        """As for every strategy; a long column is checked by a shorter one and by the norm its transform keeps.

        R and R⁻¹ hold the same scaling and the same spectrum, so it is the transform that could be wrong at a length.
        """
        if self._cells <= _CHECKED_WHOLE:
            super().check(rng=rng, probes=probes)
            return
        shorter = Prefix(_CHECKED_WHOLE) if isinstance(self.workload, Prefix) else Ranges(_CHECKED_WHOLE)
        Spectral(shorter, blend=self.blend, window=min(self.window, _CHECKED_WHOLE // 2)).check(rng=rng, probes=1)
        x = rng.standard_normal(self.kernel.length)
        image, scales = self.kernel.transform(x), self._scales
        kept = abs(float(image @ image) / float(x @ x) - 1.0)
        if not (kept <= 1e-9 and bool(np.all(np.isfinite(scales))) and float(scales.min()) > 0):
            raise DeclarationError(f"the transform of length {self.kernel.length} is off by {kept:.1e}: {self.name}")

    @property
    def _scales(self) -> FloatArray:
        return self.kernel.scales[: self._cells]
