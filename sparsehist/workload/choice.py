"""Choose the strategy with the smallest predicted error for a workload, from public parameters only."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.workload.queries.marginals import Marginals
from sparsehist.workload.queries.matrix import Matrix
from sparsehist.workload.queries.products import Kronecker, Union
from sparsehist.workload.queries.ranges import Identity, Prefix, RangeRows, Ranges, Total
from sparsehist.workload.queries.workload import Workload
from sparsehist.workload.sensitivity import LARGEST_GRAM, gram_of
from sparsehist.workload.strategies.names import strategy_named
from sparsehist.workload.strategies.optimised import Optimised
from sparsehist.workload.strategies.plain import has_known_columns
from sparsehist.workload.strategies.residual import ResidualBasis
from sparsehist.workload.strategies.spectral import Spectral
from sparsehist.workload.strategies.spectral_kernels import PrefixKernel, RangesKernel
from sparsehist.workload.strategies.strategy import Strategy

# For `Prefix` or all ranges, strategies are compared on at most max(4096, 8 * max_keys) cells.
_LONGEST_PRICED = 4096
# If the matrix A of listed queries has more than 2**21 entries, strategies are compared on a sample of 64 queries.
_LARGEST_PRICED, _SAMPLED = 2**21, 64
# Sizes above which some strategies are not tried: numbers of cells, but for `direct` a number of queries.
_LARGEST_OPTIMISED, _LONGEST_SQUARE_ROOT, _MOST_DIRECT, _LARGEST_IDENTITY = 128, 4096, 2**16, 2**24
_RANK = 1e-12  # eigenvalues below this fraction of the largest one are rounding errors


class Candidate(NamedTuple):
    """The predicted error and the sensitivity of a strategy. Computing them costs no privacy.

    Attributes:
        strategy: Name of the strategy, such as "spectral(blend=4)".
        mean_squared_error: Squared error, averaged over the queries, if the noise of each entry of R·x has variance
            Δ². Multiply it by 1/(2ρ) for Gaussian noise, or by 2/ε² for Laplace noise.
        sensitivity: Sensitivity Δ of R·x, in L2 for Gaussian noise and in L1 for Laplace noise.
        lower_bound: Lower bound on the error of any strategy with Gaussian noise; None if unknown or max_keys > 1.
    """

    strategy: str
    mean_squared_error: float
    sensitivity: float
    lower_bound: float | None

    @property
    def ratio(self) -> float | None:
        """Mean squared error divided by `lower_bound` (so at least 1), or None if the bound is unknown."""
        return None if not self.lower_bound else self.mean_squared_error / self.lower_bound


def choose(workload: Workload, max_keys: int, *, pure: bool = False, integer: bool = False) -> Strategy:
    """Return the strategy with the smallest predicted mean squared error for a workload.

    Callers must store the strategy's name, because a later version of sparsehist may choose a different strategy.

    Args:
        workload: A workload with known sizes.
        max_keys: Largest number of cells that a unit counts towards.
        pure: Whether noise is scaled to the L1 sensitivity (Laplace) instead of the L2 sensitivity (Gaussian).
        integer: Whether the noise is integer, so that R must have integer entries.

    Raises:
        DeclarationError: If no strategy can answer the workload.

    Example:
        >>> choose(Prefix(1024), 1).name, choose(Prefix(1024), 1, pure=True).name
        ('spectral', 'haar')
    """
    errors = {one: _priced(one, max_keys, pure=pure)[0] for one in _candidates(workload, max_keys, pure=pure)
              if _is_exact(one, integer=integer)}  # fmt: skip
    errors = {one: error for one, error in errors.items() if 0 < error < math.inf}
    if not errors:
        raise DeclarationError(f"no strategy answers {workload.describe()} with this noise and these weights")
    return strategy_named(min(errors, key=errors.__getitem__).name, workload)


def compare(workload: Workload, max_keys: int, *, pure: bool = False, integer: bool = False) -> list[Candidate]:
    """Return the predicted errors of the best strategy (see `choose`) and of simpler ones, by ascending error.

    Example:
        >>> table = compare(Ranges(512), 1)
        >>> table[0].strategy, round(table[0].ratio, 3), table[-1].strategy
        ('spectral', 1.015, 'identity')
    """
    chosen = choose(workload, max_keys, pure=pure, integer=integer)
    others = [strategy for name in _plain_names(workload) for strategy in _served(strategy_named, name, workload)]
    found = {one.name: one for one in [*others, chosen] if _is_exact(one, integer=integer)}
    bound = lower_bound(workload) if max_keys == 1 and not pure else None
    table = [Candidate(name, *_priced(one, max_keys, pure=pure), bound) for name, one in found.items()]
    return sorted(table, key=lambda candidate: candidate.mean_squared_error)


def _is_exact(strategy: Strategy, *, integer: bool) -> bool:
    """Return whether noise can be added without rounding errors that depend on the counts."""
    return (strategy.integral or not integer) and (strategy.workload.integral or strategy.invertible)


def lower_bound(workload: Workload) -> float | None:
    """Return a lower bound on the mean squared error of any strategy for a workload, if each unit has only one key.

    With G = RᵀR, the error of a factorization is Δ²·tr(AᵀA·G⁻¹)/q for q queries, and Δ² is at least the mean diagonal
    entry of G. So the error is at least ‖A‖_*²/(n·q) for n cells, where ‖A‖_* is the sum of the singular values of A.

    Returns:
        The bound (for marginals, the exact minimum), or None if A is too large.

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
    """Return the sum of the singular values of A, or None if this needs a matrix larger than 1,024 by 1,024."""
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


def _priced(strategy: Strategy, max_keys: int, *, pure: bool) -> tuple[float, float]:
    sensitivity = strategy.l1(max_keys) if pure else strategy.l2(max_keys)
    return sensitivity**2 * strategy.mean_variance(), sensitivity


def _candidates(whole: Workload, max_keys: int, *, pure: bool) -> list[Strategy]:
    """Return the strategies that `choose` compares. Most are made for the workload that `_shorter` returns."""
    workload, names = _shorter(whole, max_keys), _plain_names(whole)
    if isinstance(workload, Kronecker):
        for keys in {1, max_keys}:  # combine the factors' best strategies for units with `keys` cells
            names.append(f"kronecker({', '.join(choose(part, keys, pure=pure).name for part in workload.parts)})")
    if isinstance(workload, Union):
        parts = [one.name for part in workload.parts for one in _served(partial(choose, pure=pure), part, max_keys)]
        names.append(f"union({', '.join(parts)})")
    # Use all queries for the strategy `direct`, because the sensitivity computed from a sample would be too small.
    made = [one for name in names for one in _served(strategy_named, name, whole if name == "direct" else workload)]
    if pure:
        return made
    if "spectral" in names and max_keys > 1:
        keys = min(max_keys, workload.n_cells)
        blends = [0.25 * 2**step for step in range(math.ceil(math.log2(keys)) + 6)]
        made += [Spectral(workload, blend=blend, window=keys // 4) for blend in blends]
    if workload.n_cells <= _LARGEST_OPTIMISED and not isinstance(workload, Marginals | Total | Identity | Kronecker):
        made += _served(Optimised.for_unit, workload, max_keys)
    return made


def _shorter(workload: Workload, max_keys: int) -> Workload:
    """Return a smaller, similar workload for comparing strategies, or the workload itself if it is small enough."""
    if isinstance(workload, Prefix) or (isinstance(workload, Ranges) and not workload.explicit):
        length = min(workload.n, max(_LONGEST_PRICED, 8 * max_keys))
        return workload if length == workload.n else type(workload)(length)
    if isinstance(workload, Identity | Total) or workload.n_queries * workload.n_cells <= _LARGEST_PRICED:
        return workload
    some = np.unique(np.linspace(0, workload.n_queries - 1, _SAMPLED).astype(np.int64))
    if isinstance(workload, Matrix):
        return Matrix(workload.matrix[some])
    described = (workload.queries() or {}) if isinstance(workload, RangeRows | Union) else {}
    if set(described) == {"low", "high"}:
        return Ranges(workload.n_cells, np.stack([described["low"][some], described["high"][some]], axis=1))
    return workload


def _served(make: Callable[..., Strategy], *arguments: object) -> list[Strategy]:
    try:
        return [make(*arguments)]
    except DeclarationError:
        return []


def _plain_names(workload: Workload) -> list[str]:
    """Return the names of strategies that suit this workload and have no parameter that depends on max_keys."""
    if isinstance(workload, Total):
        return ["direct"]
    names = ["residual"] if isinstance(workload, Marginals) else []
    if len(workload.columns) == 1 or workload.n_cells <= _LARGEST_IDENTITY:
        names.append("identity")
    overlapping = isinstance(workload, Identity | Prefix | Kronecker)
    few = isinstance(workload, Marginals) or workload.n_queries <= _MOST_DIRECT
    if few and not overlapping and has_known_columns(workload):
        names.append("direct")
    if len(workload.columns) > 1 or isinstance(workload, Identity | Marginals | Kronecker):
        return names
    short = isinstance(workload, Prefix) and workload.n <= _LONGEST_SQUARE_ROOT
    return [*names, "spectral", "haar", *(["square_root", "square_root(scaled=True)"] if short else [])]
