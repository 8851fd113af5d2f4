"""Which strategy answers a workload best: by predicted error at the series' own max_keys, all of it public."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.workload.lower_bound import lower_bound
from sparsehist.workload.queries.kronecker import Kronecker
from sparsehist.workload.queries.linear_queries import Workload
from sparsehist.workload.queries.marginals import Marginals
from sparsehist.workload.queries.matrix import MatrixWorkload
from sparsehist.workload.queries.rows_of_ranges import Identity, Prefix, RangeRows, Ranges, Total
from sparsehist.workload.queries.union import Union
from sparsehist.workload.strategies.optimised import Optimised
from sparsehist.workload.strategies.shared import Shared
from sparsehist.workload.strategies.spectral import Spectral
from sparsehist.workload.strategies.strategy import Strategy
from sparsehist.workload.strategies.strategy_text import strategy_named

# Prefix sums and ranges of more cells are priced on a shorter column: what is best hardly depends on its length.
_LONGEST_PRICED = 4096
# Lists of queries times cells beyond this are priced on some of the queries.
_LARGEST_PRICED = 2**21
_SAMPLED = 64
# Dense strategies take a time that grows with the cube of this.
_LARGEST_OPTIMISED = 128
_MOST_DIRECT = 2**16
# Of many cells a unit touches few, and shared noise gains too little to be worth a strategy of its own.
_WORTH_SHARING = 0.01
_LARGEST_IDENTITY = 2**31


class Candidate(NamedTuple):
    """What a strategy would do, known before anything is spent.

    Attributes:
        strategy: Its textual form.
        mean_squared_error: Mean over the queries, for noise of variance Δ² on every entry of R·x: times 1/(2ρ) for
            Gaussian noise, times 2/ε² for Laplace noise (with Δ in L1).
        sensitivity: Δ, in the norm of the noise.
        sensitivity_lower: Reached by some unit; None in L1.
        lower_bound: No factorization has a smaller error under Gaussian noise; None where unknown or not asked.
        bound: Which bound that is, in words.
    """

    strategy: str
    mean_squared_error: float
    sensitivity: float
    sensitivity_lower: float | None
    lower_bound: float | None
    bound: str

    @property
    def ratio(self) -> float | None:
        """Error over its lower bound, at least 1."""
        return None if not self.lower_bound else self.mean_squared_error / self.lower_bound


def choose(workload: Workload, max_keys: int, *, pure: bool = False) -> Strategy:
    """Choose the strategy of the least predicted mean squared error.

    Keep its name: a later version may choose another one, whose noise would be a path of its own.

    Args:
        workload: Its sizes filled in.
        max_keys: Most cells of a unit.
        pure: Whether noise is scaled to the sensitivity in L1 (Laplace) rather than in L2 (Gaussian).

    Example:
        >>> choose(Prefix(1024), 1).name, choose(Prefix(1024), 1, pure=True).name
        ('spectral', 'hierarchical(branching=4)')
    """
    shorter = _shorter(workload, max_keys)
    strategies = _strategies(shorter, max_keys, pure=pure)
    if shorter is not workload and _may_be_direct(workload):  # priced by all of its queries, which overlap
        strategies = [one for one in strategies if one.name != "direct"] + [strategy_named("direct", workload)]
    priced = [(_error(strategy, max_keys, pure=pure), strategy) for strategy in strategies]
    finite = [(error, strategy) for error, strategy in priced if math.isfinite(error) and error > 0]
    if not finite:
        raise DeclarationError(f"no strategy answers {workload.describe()} with a finite error")
    best = min(finite, key=lambda pair: pair[0])[1]
    return best if best.workload is workload else _on(best, workload)


def compare(workload: Workload, max_keys: int, *, pure: bool = False) -> list[Candidate]:
    """Price strategies for a workload, best first, the one that `choose` takes among them; arguments as for `choose`.

    Example:
        >>> table = compare(Ranges(512), 1)
        >>> table[0].strategy, round(table[0].ratio, 3), table[-1].strategy
        ('spectral', 1.015, 'identity')
    """
    chosen = choose(workload, max_keys, pure=pure)
    names = {chosen.name: chosen}
    for name in [*_plain_names(workload), *(["direct"] if _may_be_direct(workload) else [])]:
        for strategy in _served(partial(strategy_named, name, workload)):
            names.setdefault(strategy.name, strategy)
    bound = None if pure else lower_bound(workload, max_keys)
    table = []
    for strategy in names.values():
        scale = _scale(strategy, max_keys, pure=pure)
        reached = None if pure else strategy.sensitivity(max_keys).l2_lower
        below = (None, "none") if bound is None else bound
        table.append(Candidate(strategy.name, scale**2 * strategy.mean_variance(), scale, reached, *below))
    return sorted(table, key=lambda candidate: candidate.mean_squared_error)


def _scale(strategy: Strategy, max_keys: int, *, pure: bool) -> float:
    return strategy.l1_sensitivity(max_keys) if pure else strategy.sensitivity(max_keys).l2


def _error(strategy: Strategy, max_keys: int, *, pure: bool) -> float:
    return _scale(strategy, max_keys, pure=pure) ** 2 * strategy.mean_variance()


def _shorter(workload: Workload, max_keys: int) -> Workload:
    """A workload like this one that is priced quickly."""
    if type(workload) is Prefix or (isinstance(workload, Ranges) and not workload.explicit):
        length = min(workload.n, max(_LONGEST_PRICED, 8 * max_keys))
        return workload if length == workload.n else type(workload)(length)
    if isinstance(workload, Identity | Total) or workload.n_queries * workload.n_cells <= _LARGEST_PRICED:
        return workload
    some = np.unique(np.linspace(0, workload.n_queries - 1, _SAMPLED).astype(np.int64))
    described = workload.queries() if workload.explicit and len(workload.columns) == 1 else None
    if described is not None and set(described) == {"low", "high"}:
        return Ranges(workload.n_cells, np.stack([described["low"][some], described["high"][some]], axis=1))
    if isinstance(workload, MatrixWorkload) and workload.matrix is not None:
        return MatrixWorkload(workload.matrix[some])
    return workload


def _on(strategy: Strategy, workload: Workload) -> Strategy:
    """The same strategy for another workload: its length follows the number of cells."""
    if isinstance(strategy, Spectral):
        return Spectral(workload, blend=strategy.blend, window=strategy.window)
    return strategy_named(strategy.name, workload)


def _strategies(workload: Workload, max_keys: int, *, pure: bool) -> list[Strategy]:
    if isinstance(workload, Kronecker):
        return _of_product(workload, max_keys, pure=pure)
    names = _plain_names(workload)
    made: list[Strategy] = []
    if isinstance(workload, Union):
        made += _served(lambda: _of_union(workload, max_keys, pure=pure))
    for name in names:
        made += _served(partial(strategy_named, name, workload))
    if "spectral" in names and not pure:
        made += _blended(workload, max_keys)
    if "direct" not in names and _may_be_direct(workload):
        made.append(strategy_named("direct", workload))
    if isinstance(workload, Identity) and not pure:
        shared = Shared.for_unit(workload, max_keys)
        gain = 1 - shared.sensitivity(max_keys).l2 ** 2 * shared.mean_variance() / min(max_keys, workload.n_cells)
        made += [shared] if gain >= _WORTH_SHARING else []
    dense = not isinstance(workload, Marginals | Total | Identity) and workload.n_cells <= _LARGEST_OPTIMISED
    if dense and not pure:
        made += _served(lambda: Optimised.for_unit(workload, max_keys))
    return made


def _served(make: Callable[[], Strategy]) -> list[Strategy]:
    """The strategy as a list; an empty one where it does not serve its workload."""
    try:
        return [make()]
    except DeclarationError:
        return []


def _of_union(workload: Union, max_keys: int, *, pure: bool) -> Strategy:
    """The best of each part."""
    parts = [choose(part, max_keys, pure=pure).name for part in workload.parts]
    return strategy_named(f"union({', '.join(parts)})", workload)


def _plain_names(workload: Workload) -> list[str]:
    """Strategies without parameters that depend on max_keys."""
    if isinstance(workload, Kronecker):
        return ["identity"] if workload.n_cells <= _LARGEST_IDENTITY else []
    if isinstance(workload, Total):
        return ["direct"]
    if isinstance(workload, Identity):  # nothing that adds cells up answers each of them better
        return ["identity"]
    if isinstance(workload, Marginals):
        small = workload.n_cells <= 2**20
        return ["residual", "direct", "weighted", *(["identity"] if small else [])]
    if len(workload.columns) > 1 or (isinstance(workload, MatrixWorkload) and workload.matrix is None):
        return ["identity"]
    names = ["identity", "spectral", "haar", *(f"hierarchical(branching={branching})" for branching in (2, 4, 16))]
    if isinstance(workload, Prefix) and workload.n <= 2**14:
        names += ["square_root", "square_root(scaled=True)"]
    if isinstance(workload, RangeRows) and workload.explicit:
        names.append("tree")
    return names


def _may_be_direct(workload: Workload) -> bool:
    """Whether the queries could be measured as they are: not many, and not the prefix sums, which all overlap."""
    if isinstance(workload, Prefix | Marginals | Kronecker) or not workload.explicit:
        return False
    return workload.n_queries <= _MOST_DIRECT and _has_columns(workload)


def _has_columns(workload: Workload) -> bool:
    """Whether the columns of A are known one by one."""
    if isinstance(workload, Union):
        return all(map(_has_columns, workload.parts))
    return not isinstance(workload, Marginals | Kronecker) and getattr(workload, "matrix", workload) is not None


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

        place = start = len(blends) // 2
        while price(place + 1) < price(place):
            place += 1
        while place <= start and price(place - 1) < price(place):
            place -= 1
        best.append(Spectral(workload, blend=blends[place], window=window))
    return best


def _of_product(workload: Kronecker, max_keys: int, *, pure: bool) -> list[Strategy]:
    """The best of each factor, for units of one cell and of as many as the series has."""
    made: list[Strategy] = []
    for keys in {1, max_keys}:
        factors = [choose(factor, keys, pure=pure).name for factor in workload.listed]
        made.append(strategy_named(f"kronecker({', '.join(factors)})", workload))
    if workload.n_cells <= _LARGEST_IDENTITY:
        made.append(strategy_named("identity", workload))
    return made
