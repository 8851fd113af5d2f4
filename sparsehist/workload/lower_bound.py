"""What no factorization beats: lower bounds of the mean squared error for units of one cell.

With G = RᵀR the mean squared error is Δ²·tr(AᵀA·G⁻¹)/queries, and Δ² is at least the mean of the diagonal of G. So it
is at least ‖A‖_*²/(cells·queries), ‖A‖_* the sum of the singular values of A (the singular-value bound).
"""

from __future__ import annotations

import math

import numpy as np

from sparsehist.workload.queries.marginals import Marginals
from sparsehist.workload.queries.products import Kronecker
from sparsehist.workload.queries.ranges import Identity, Prefix, Ranges, Total
from sparsehist.workload.queries.workload import Workload
from sparsehist.workload.sensitivity import LARGEST_GRAM, gram_of
from sparsehist.workload.strategies.residual import ResidualBasis
from sparsehist.workload.strategies.spectral_kernels import PrefixKernel, RangesKernel

_RANK = 1e-12
"""Eigenvalues below this share of the largest are rounding, whose roots would add up."""


def lower_bound(workload: Workload) -> float | None:
    """Bound the mean squared error of every factorization from below, for Gaussian noise scaled to Δ.

    Returns:
        The singular-value bound, or for marginals the optimum; None where A is not known well enough.

    Example:
        >>> round(lower_bound(Workload.parse("prefix(256)")), 3)
        6.108
    """
    if isinstance(workload, Marginals):
        best = ResidualBasis(workload)
        return best.l2(1) ** 2 * best.mean_variance()
    norm = _nuclear_norm(workload)
    return None if norm is None else norm**2 / workload.n_cells / workload.n_queries


def _nuclear_norm(workload: Workload) -> float | None:
    """The sum of the singular values of A, where it is known without writing out more than 1,024 cells."""
    if isinstance(workload, Prefix) or (isinstance(workload, Ranges) and not workload.explicit):
        kernel = PrefixKernel if isinstance(workload, Prefix) else RangesKernel
        return float(kernel(workload.n).singular_values.sum())
    if isinstance(workload, Identity | Total):
        return float(workload.n) if isinstance(workload, Identity) else math.sqrt(workload.n)
    if isinstance(workload, Kronecker):
        norms = [norm for norm in map(_nuclear_norm, workload.parts) if norm is not None]
        return math.prod(norms) if len(norms) == len(workload.parts) else None
    if workload.n_cells > LARGEST_GRAM:
        return None
    values = np.linalg.eigvalsh(gram_of(workload))
    return float(np.sqrt(values[values > _RANK * values[-1]]).sum())
