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

# Prefix sums and ranges of more cells are priced on a shorter column: what is best hardly depends on its length.
_LONGEST_PRICED = 4096
# Lists of queries times cells beyond this are priced on some of the queries.
_LARGEST_PRICED = 2**21
_SAMPLED = 64
# Dense strategies take a time that grows with the cube of this.
_LARGEST_OPTIMISED = 128
_MOST_DIRECT = 2**16
_LONGEST_SQUARE_ROOT = 2**14
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
    shorter = _shorter(workload, max_keys)
    strategies = _strategies(shorter, max_keys, pure=pure)
    if shorter is not workload and _may_be_direct(workload):  # priced by all of its queries, which overlap
        strategies = [one for one in strategies if one.word != "direct"] + [strategy_named("direct", workload)]
    priced = [(_error(one, max_keys, pure=pure), one) for one in strategies if one.integral or not integer]
    finite = [(error, strategy) for error, strategy in priced if math.isfinite(error) and error > 0]
    if not finite:
        raise DeclarationError(f"no strategy answers {workload.describe()} with this noise")
    best = min(finite, key=lambda pair: pair[0])[1]
    if best.workload is workload:
        return best
    if isinstance(best, Spectral):
        return Spectral(workload, blend=best.blend, window=best.window)
    return strategy_named(best.name, workload)


def compare(workload: Workload, max_keys: int, *, pure: bool = False, integer: bool = False) -> list[Candidate]:
    """Price strategies for a workload, best first, with the one that `choose` takes; arguments as for `choose`.

    Example:
        >>> table = compare(Ranges(512), 1)
        >>> table[0].strategy, round(table[0].ratio, 3), table[-1].strategy
        ('spectral', 1.015, 'identity')
    """
    chosen = choose(workload, max_keys, pure=pure, integer=integer)
    found = {chosen.name: chosen}
    for name in [*_plain_names(workload), *(["direct"] if _may_be_direct(workload) else [])]:
        for strategy in _served(partial(strategy_named, name, workload)):
            if strategy.integral or not integer:
                found.setdefault(strategy.name, strategy)
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
    if type(workload) is Prefix or (isinstance(workload, Ranges) and not workload.explicit):
        length = min(workload.n, max(_LONGEST_PRICED, 8 * max_keys))
        return workload if length == workload.n else type(workload)(length)
    if isinstance(workload, Identity | Total) or workload.n_queries * workload.n_cells <= _LARGEST_PRICED:
        return workload
    some = np.unique(np.linspace(0, workload.n_queries - 1, _SAMPLED).astype(np.int64))
    described = workload.queries() if workload.explicit and len(workload.columns) == 1 else None
    if described is not None and set(described) == {"low", "high"}:
        return Ranges(workload.n_cells, np.stack([described["low"][some], described["high"][some]], axis=1))
    return Matrix(workload.matrix[some]) if isinstance(workload, Matrix) else workload


def _strategies(workload: Workload, max_keys: int, *, pure: bool) -> list[Strategy]:
    names = _plain_names(workload)
    made = [strategy for name in names for strategy in _served(partial(strategy_named, name, workload))]
    if isinstance(workload, Kronecker):
        for keys in {1, max_keys}:  # the best of each factor for such units
            factors = ", ".join(choose(factor, keys, pure=pure).name for factor in workload.listed)
            made.append(strategy_named(f"kronecker({factors})", workload))
        return made
    if isinstance(workload, Union):
        parts = [_served(partial(choose, part, max_keys, pure=pure)) for part in workload.parts]
        best = ", ".join(strategy.name for one in parts for strategy in one)
        made += _served(lambda: strategy_named(f"union({best})", workload))
    if "spectral" in names and not pure:
        made += _blended(workload, max_keys)
    if "direct" not in names and _may_be_direct(workload):
        made.append(strategy_named("direct", workload))
    dense = not isinstance(workload, Marginals | Total | Identity) and workload.n_cells <= _LARGEST_OPTIMISED
    return made + (_served(lambda: Optimised.for_unit(workload, max_keys)) if dense and not pure else [])


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
    long = not isinstance(workload, Prefix) or workload.n > _LONGEST_SQUARE_ROOT
    return ["identity", "spectral", "haar", *([] if long else ["square_root", "square_root(scaled=True)"])]


def _may_be_direct(workload: Workload) -> bool:
    """Whether the queries could be measured as they are: not many, nor overlapping all as prefix sums do."""
    if isinstance(workload, Identity | Prefix | Marginals | Kronecker) or workload.n_queries > _MOST_DIRECT:
        return False
    return has_known_columns(workload)


def _blended(workload: Workload, max_keys: int) -> list[Strategy]:
    """For each window of the scaling the best blend, found by going up or down from one of half a unit."""
    keys = min(max_keys, workload.n_cells)
    if keys == 1:
        return []
    blends = [0.0, *(0.25 * 2**step for step in range(math.ceil(math.log2(keys)) + 6))]
    best: list[Strategy] = []
    for window in sorted({min(keys // share, workload.n_cells - 1) for share in (2, 4, 2 * keys)}):
        prices: dict[int, float] = {}

        def price(at: int, window: int = window, prices: dict[int, float] = prices) -> float:
            if not 0 <= at < len(blends):
                return math.inf
            if at not in prices:
                prices[at] = _error(Spectral(workload, blend=blends[at], window=window), max_keys, pure=False)
            return prices[at]

        at = start = len(blends) // 2
        while price(at + 1) < price(at):
            at += 1
        while at <= start and price(at - 1) < price(at):
            at -= 1
        best.append(Spectral(workload, blend=blends[at], window=window))
    return best
