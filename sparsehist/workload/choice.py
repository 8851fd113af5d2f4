"""Choice of the strategy that answers a workload best: by predicted error at the series' max_keys, all public."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.workload.lower_bound import lower_bound
from sparsehist.workload.queries.marginals import Marginals
from sparsehist.workload.queries.matrix import Matrix
from sparsehist.workload.queries.products import Kronecker, Union
from sparsehist.workload.queries.ranges import Identity, Prefix, Ranges, Total
from sparsehist.workload.queries.workload import Workload
from sparsehist.workload.strategies.direct import has_known_columns
from sparsehist.workload.strategies.names import strategy_named
from sparsehist.workload.strategies.optimised import Optimised
from sparsehist.workload.strategies.spectral import Spectral
from sparsehist.workload.strategies.strategy import Strategy

# Prefix sums and ranges of more cells are priced on a shorter column: the best strategy hardly depends on its length.
_LONGEST_PRICED = 4096
# Lists of queries times cells beyond this are priced on a sample of the queries.
_LARGEST_PRICED, _SAMPLED = 2**21, 64
# Sizes up to which a strategy is a candidate.
_LARGEST_OPTIMISED, _LONGEST_SQUARE_ROOT, _MOST_DIRECT = 128, 2**14, 2**16
_LARGEST_MARGINALS, _LARGEST_IDENTITY = 2**20, 2**31


class Candidate(NamedTuple):
    """What a strategy would do, known before anything is spent.

    Attributes:
        strategy: Its textual form.
        mean_squared_error: Mean over the queries, for noise of variance Δ² on every entry of R·x: times 1/(2ρ) for
            Gaussian noise, times 2/ε² for Laplace noise (with Δ in L1).
        sensitivity: Δ, in the norm of the noise.
        lower_bound: No factorization has a smaller error under Gaussian noise; None where unknown, and for units of
            several cells.
    """

    strategy: str
    mean_squared_error: float
    sensitivity: float
    lower_bound: float | None

    @property
    def ratio(self) -> float | None:
        """Error over its lower bound, at least 1."""
        return None if not self.lower_bound else self.mean_squared_error / self.lower_bound


def choose(workload: Workload, max_keys: int, *, pure: bool = False, integer: bool = False) -> Strategy:
    """Choose the strategy of the least predicted mean squared error.

    Keep its name: a later version may choose another one, whose noise would be a path of its own.

    Args:
        workload: Its sizes filled in.
        max_keys: Most cells of a unit.
        pure: Whether noise is scaled to the sensitivity in L1 (Laplace) rather than in L2 (Gaussian).
        integer: Whether noise is on integers, which needs a strategy that measures whole numbers.

    Raises:
        DeclarationError: If no strategy serves.

    Example:
        >>> choose(Prefix(1024), 1).name, choose(Prefix(1024), 1, pure=True).name
        ('spectral', 'haar')
    """
    priced_on = _shorter(workload, max_keys)
    strategies = _candidates(priced_on, max_keys, pure=pure)
    if priced_on is not workload and _may_be_direct(workload):  # priced by all of its queries, which overlap
        strategies = [one for one in strategies if one.word != "direct"] + [strategy_named("direct", workload)]
    errors = {one: _error(one, max_keys, pure=pure) for one in strategies if one.integral or not integer}
    errors = {one: error for one, error in errors.items() if 0 < error < math.inf}
    if not errors:
        raise DeclarationError(f"no strategy answers {workload.describe()} with this noise")
    best = min(errors, key=errors.__getitem__)
    return best if best.workload is workload else strategy_named(best.name, workload)


def compare(workload: Workload, max_keys: int, *, pure: bool = False, integer: bool = False) -> list[Candidate]:
    """Price strategies for a workload, best first, with the one that `choose` takes; arguments as for `choose`.

    Example:
        >>> table = compare(Ranges(512), 1)
        >>> table[0].strategy, round(table[0].ratio, 3), table[-1].strategy
        ('spectral', 1.015, 'identity')
    """
    chosen = choose(workload, max_keys, pure=pure, integer=integer)
    names = [*_plain_names(workload), *(["direct"] if _may_be_direct(workload) else [])]
    others = [strategy for name in names for strategy in _served(partial(strategy_named, name, workload))]
    found = {one.name: one for one in [*others, chosen] if one.integral or not integer}
    bound = lower_bound(workload) if max_keys == 1 and not pure else None
    table = []
    for strategy in found.values():
        sensitivity = strategy.l1(max_keys) if pure else strategy.l2(max_keys)
        table.append(Candidate(strategy.name, sensitivity**2 * strategy.mean_variance(), sensitivity, bound))
    return sorted(table, key=lambda candidate: candidate.mean_squared_error)


def _error(strategy: Strategy, max_keys: int, *, pure: bool) -> float:
    return (strategy.l1(max_keys) if pure else strategy.l2(max_keys)) ** 2 * strategy.mean_variance()


def _shorter(workload: Workload, max_keys: int) -> Workload:
    """A similar workload that is priced quickly."""
    if isinstance(workload, Prefix) or (isinstance(workload, Ranges) and not workload.explicit):
        length = min(workload.n, max(_LONGEST_PRICED, 8 * max_keys))
        return workload if length == workload.n else type(workload)(length)
    if isinstance(workload, Identity | Total) or workload.n_queries * workload.n_cells <= _LARGEST_PRICED:
        return workload
    some = np.unique(np.linspace(0, workload.n_queries - 1, _SAMPLED).astype(np.int64))
    if isinstance(workload, Matrix):
        return Matrix(workload.matrix[some])
    described = {} if isinstance(workload, Kronecker | Marginals) else workload.queries() or {}
    if set(described) == {"low", "high"}:
        return Ranges(workload.n_cells, np.stack([described["low"][some], described["high"][some]], axis=1))
    return workload


def _candidates(workload: Workload, max_keys: int, *, pure: bool) -> list[Strategy]:
    names = _plain_names(workload)
    if isinstance(workload, Kronecker):
        for keys in {1, max_keys}:  # the best of each factor for such units
            names.append(
                f"kronecker({', '.join(choose(factor, keys, pure=pure).name for factor in workload.listed)})"
            )
    if isinstance(workload, Union):
        parts = [one.name for part in workload.parts for one in _served(partial(choose, part, max_keys, pure=pure))]
        names.append(f"union({', '.join(parts)})")
    if _may_be_direct(workload) and "direct" not in names:
        names.append("direct")
    made = [strategy for name in names for strategy in _served(partial(strategy_named, name, workload))]
    if "spectral" in names and not pure and max_keys > 1:
        made += _blended(workload, min(max_keys, workload.n_cells))
    small = workload.n_cells <= _LARGEST_OPTIMISED and not isinstance(
        workload, Marginals | Total | Identity | Kronecker
    )
    return made + (_served(partial(Optimised.for_unit, workload, max_keys)) if small and not pure else [])


def _served(make: Callable[[], Strategy]) -> list[Strategy]:
    """The strategy as a list; an empty one where it does not serve its workload."""
    try:
        return [make()]
    except DeclarationError:
        return []


def _plain_names(workload: Workload) -> list[str]:
    """Strategies without parameters that depend on max_keys."""
    if isinstance(workload, Kronecker):
        return ["identity"] if workload.n_cells <= _LARGEST_IDENTITY else []
    if isinstance(workload, Total):
        return ["direct"]
    if isinstance(workload, Marginals):
        return ["residual", "direct", *(["identity"] if workload.n_cells <= _LARGEST_MARGINALS else [])]
    if isinstance(workload, Identity) or len(workload.columns) > 1:
        return ["identity"]
    square_roots = ["square_root", "square_root(scaled=True)"]
    short = isinstance(workload, Prefix) and workload.n <= _LONGEST_SQUARE_ROOT
    return ["identity", "spectral", "haar", *(square_roots if short else [])]


def _may_be_direct(workload: Workload) -> bool:
    """Whether the queries could be measured as they are: not many, nor all overlapping as prefix sums do."""
    if isinstance(workload, Identity | Prefix | Marginals | Kronecker) or workload.n_queries > _MOST_DIRECT:
        return False
    return has_known_columns(workload)


def _blended(workload: Workload, keys: int) -> list[Strategy]:
    """For each window of the scaling the best blend, found by going up, then down, from a blend of half a unit."""
    blends = [0.0, *(0.25 * 2**step for step in range(math.ceil(math.log2(keys)) + 6))]
    start = len(blends) // 2
    found: list[Strategy] = []
    for window in {min(keys // share, workload.n_cells - 1) for share in (2, 4, 2 * keys)}:
        least, best = math.inf, None
        for direction in (blends[start:], blends[start - 1 :: -1]):
            for blend in direction:
                strategy = Spectral(workload, blend=blend, window=window)
                error = _error(strategy, keys, pure=False)
                if error >= least:
                    break
                least, best = error, strategy
        found += [best] if best else []
    return found
