"""What no factorization beats: lower bounds of the mean squared error over the queries of a workload.

With G = RᵀR the mean squared error is Δ²·tr(AᵀA·G⁻¹)/queries. If units are drawn at random and Q is the mean of
1_S 1ᵀ_S, then Δ² >= tr(G·Q), and tr(G·Q)·tr(AᵀA·G⁻¹) >= ‖A·Q^½‖_*², the squared sum of singular values, for any G.

- One cell, each as likely: Q = I/n, the singular-value bound ‖A‖_*²/n.
- l cells, all sets as likely: Q is at least l(n − l)/(n(n − 1))·I.
- l cells side by side, each window as likely: Q is a band, and columns up to 1,024 cells are computed from it.
- The cells themselves: shared noise is the best there is, at any l.
- The same for prefix sums and all ranges of any length: windows that cross an end are reflected as the singular
  vectors of A are, oddly (which leaves a smaller set) or, at the left end of prefix sums, evenly (which adds one set
  to another: a move of at most 2Δ, made up for by a factor). Then Q has the singular vectors of A, and eigenvalues
  sin²(lθ/2)/sin²(θ/2) over the number of windows, where the singular value at θ is proportional to 1/sin(θ/2).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import FloatArray
from sparsehist.workload.gram.spectral_kernels import PrefixKernel, RangesKernel, SpectralKernel
from sparsehist.workload.gram.written_out import LARGEST_GRAM, gram_of
from sparsehist.workload.queries.kronecker import Kronecker
from sparsehist.workload.queries.linear_queries import Workload
from sparsehist.workload.queries.marginals import Marginals
from sparsehist.workload.queries.rows_of_ranges import Identity, Prefix, Ranges, Total
from sparsehist.workload.strategies.residual_basis import ResidualBasis
from sparsehist.workload.strategies.shared import Shared


class LowerBound(NamedTuple):
    """The least mean squared error any factorization can have, for noise of variance Δ²; and which bound says so."""

    mean_squared_error: float
    source: str


def lower_bound(workload: Workload, max_keys: int = 1) -> LowerBound | None:
    """Bound the mean squared error of every factorization from below, for Gaussian noise scaled to Δ.

    Returns the best of the bounds above, or None where none of them applies.

    Example:
        >>> round(lower_bound(Workload.parse("prefix(256)")).mean_squared_error, 3)
        6.108
    """
    cells = workload.n_cells
    keys = min(max_keys, cells)
    if isinstance(workload, Identity):
        shared = Shared.for_unit(workload, keys)
        return LowerBound(shared.sensitivity(keys).l2 ** 2 * shared.mean_variance(), "optimum of shared noise")
    one = _one_cell(workload)
    if one is None:
        return None
    found = [one]
    if 1 < keys < cells:
        scattered = one.mean_squared_error * keys * (cells - keys) / (cells - 1)
        found.append(LowerBound(scattered, f"{one.source}, {keys} cells at random"))
    kernel = _kernel(workload)
    if kernel is not None and 1 < 2 * keys < cells:
        error = _reflected_windows(kernel, keys) / workload.n_queries
        found.append(LowerBound(error, f"singular values over windows of {keys} cells"))
    if keys > 1 and cells <= LARGEST_GRAM:
        gram = gram_of(workload)
        # What holds for fewer cells holds for more; windows of nearly all cells say little.
        for width in {keys} if 4 * keys <= cells else {keys, keys // 2, max(1, keys // 4)}:
            error = _windows(gram, width) / workload.n_queries
            found.append(LowerBound(error, f"singular values over windows of {width} cells"))
    return max(found)


def nuclear_norm(workload: Workload) -> float | None:
    """The sum of the singular values of A, where it is known without writing out more than 1,024 cells."""
    kernel = _kernel(workload)
    if kernel is not None:
        return float(kernel.singular_values.sum())
    if isinstance(workload, Identity):
        return float(workload.n)
    if isinstance(workload, Total):
        return math.sqrt(workload.n)
    if isinstance(workload, Kronecker):
        factors = [nuclear_norm(factor) for factor in workload.parts]
        return None if None in factors else math.prod(factor for factor in factors if factor is not None)
    if workload.n_cells <= LARGEST_GRAM:
        try:
            return float(_roots(gram_of(workload)).sum())
        except DeclarationError:
            return None
    return None


def _kernel(workload: Workload) -> SpectralKernel | None:
    if isinstance(workload, Prefix):
        return PrefixKernel(workload.n)
    return RangesKernel(workload.n) if isinstance(workload, Ranges) and not workload.explicit else None


def _reflected_windows(kernel: SpectralKernel, keys: int) -> float:
    """‖A·Q^½‖_*², divided by the most that a reflected window can move more than a set."""
    values = kernel.singular_values
    sines = kernel.unit / values
    norm = float(np.sum(values * np.abs(np.sin(keys * np.arcsin(np.minimum(sines, 1.0)))) / sines))
    windows = kernel.length + 1 - keys % 2
    doubled = 3 * (keys // 2 + 1) / windows if isinstance(kernel, PrefixKernel) else 0.0
    return norm**2 / windows / (1 + doubled)


def _one_cell(workload: Workload) -> LowerBound | None:
    if isinstance(workload, Marginals):
        best = ResidualBasis(workload)
        error = best.sensitivity(1).l2 ** 2 * best.mean_variance()
        return LowerBound(error, "optimum of the residual basis")
    norm = nuclear_norm(workload)
    if norm is None:
        return None
    return LowerBound(norm**2 / workload.n_cells / workload.n_queries, "singular values")


def _windows(gram: FloatArray, keys: int) -> float:
    """‖A·Q^½‖_*² for windows: the eigenvalues of B·AᵀA·Bᵀ, where the rows of B are the windows."""
    cells = len(gram)
    sums = np.zeros((cells + 1, cells + 1))
    sums[1:, 1:] = gram.cumsum(axis=0).cumsum(axis=1)
    low = np.arange(cells - keys + 1)
    high = low + keys
    product = sums[np.ix_(high, high)] - sums[np.ix_(low, high)] - sums[np.ix_(high, low)] + sums[np.ix_(low, low)]
    return float(_roots(product).sum()) ** 2 / low.size


def _roots(matrix: FloatArray) -> FloatArray:
    values = np.linalg.eigvalsh(matrix)
    # What rounding leaves of a zero eigenvalue would be its root: too large a bound.
    return np.sqrt(np.where(values > 1e-12 * values[-1], values, 0.0))
