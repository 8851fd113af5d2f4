"""Products of strategies: R = R1 ⊗ R2 ⊗ … and L = L1 ⊗ L2 ⊗ …, applied factor by factor.

What l cells move R·x by. Let Δ(j) bound what j cells of the last factor move its part by. Take another factor with
Gram matrix G1, and a positive semidefinite M with |G1| <= M entry by entry, under which t cells have a norm of at
most D(t). Cells that share the coordinate a in that factor, s_a of them, make a vector of length w_a <= Δ(s_a), and
the square of the whole is at most wᵀ·M·w. With T_j the coordinates that have j cells or more and δ_j the step from
Δ(j - 1) to Δ(j), which is not negative once Δ is made to grow, w <= Σ δ_j·1_{T_j}, and by the triangle inequality of
the norm of M

    Δ_both(l) <= max Σ_j δ_j·D(t_j) over t_1 >= t_2 >= … with Σ t_j = l,

a knapsack over layers. It is also at most l times the product of the column norms, for which M is that norm's square
everywhere, and its square at most l times the product of the largest eigenvalues. From below: boxes of cells, t of
one factor by ⌊l/t⌋ of the others, whose sums multiply. Derived here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import ArrayLike, FloatArray
from sparsehist.workload.gram.written_out import LARGEST_GRAM, upper_sums
from sparsehist.workload.queries.kronecker import Kronecker, along_axes
from sparsehist.workload.queries.linear_queries import Workload
from sparsehist.workload.strategies.direct import Direct
from sparsehist.workload.strategies.invertible import IdentityStrategy
from sparsehist.workload.strategies.strategy import Combined, Kept, Sensitivity, Strategy


class KroneckerStrategy(Combined):
    """A strategy for each factor of a product of workloads, one of `Kronecker.listed`."""

    word = "kronecker"

    def __init__(self, workload: Workload, strategies: Sequence[Strategy]) -> None:
        super().__init__(workload, strategies)
        self.integral = all(strategy.integral for strategy in strategies)
        self.alone = all(strategy.alone for strategy in strategies)
        self.keeps: Kept = "answers"
        if all(strategy.keeps == "cells" for strategy in strategies):
            self.keeps = "cells"
        elif self.n_noise <= workload.n_queries:
            self.keeps = "noise"

    @staticmethod
    def parts_of(workload: Workload) -> Sequence[Workload]:
        if not isinstance(workload, Kronecker):
            raise DeclarationError(
                f"a product of strategies answers a product of workloads, not {workload.describe()}"
            )
        return workload.listed

    @property
    def n_noise(self) -> int:
        return math.prod(strategy.n_noise for strategy in self.strategies)

    def sensitivity(self, max_keys: int) -> Sensitivity:
        keys = min(max_keys, self.workload.n_cells)
        numbers = _numbers(keys)
        bounds = [_bounds(strategy, numbers) for strategy in self.strategies]
        upper = keys * math.prod(first.l2 for first, *_ in bounds)
        if keys > 1:
            spectral = math.sqrt(keys * math.prod(map(_largest_eigenvalue, self.strategies)))
            layers = (self._layers(*last, numbers) for last in zip(self.strategies, bounds, strict=True))
            upper = min(upper, spectral, *layers)
        lower = _boxes(bounds, numbers)
        return Sensitivity(upper, min(lower, upper))

    def l1_sensitivity(self, max_keys: int) -> float:
        keys = min(max_keys, self.workload.n_cells)
        return keys * math.prod(strategy.l1_sensitivity(1) for strategy in self.strategies)

    def apply(self, x: ArrayLike) -> FloatArray:
        values = self.workload.columns_of(x, self.workload.n_cells)
        lengths = [strategy.workload.n_cells for strategy in self.strategies]
        return along_axes([strategy.apply for strategy in self.strategies], lengths, values)

    def to_cells(self, z: FloatArray) -> FloatArray:
        return along_axes([strategy.to_cells for strategy in self.strategies], self._rows(), z)

    def noise_answers(self, z: ArrayLike) -> FloatArray:
        steps = [strategy.noise_answers for strategy in self.strategies]
        return along_axes(steps, self._rows(), np.asarray(z, np.float64))

    def query_variance(self) -> FloatArray:
        variances = np.ones(1)
        for strategy in self.strategies:
            variances = np.outer(variances, strategy.query_variance()).reshape(-1)
        return variances

    def cell_variance(self) -> float:
        return math.prod(strategy.cell_variance() for strategy in self.strategies)

    def roundings(self) -> float:
        """Factor by factor: what one is off by goes through the others.

        By Cauchy and Schwarz it is then at most √n times as large, beside the deviation of their noise of n entries.
        """
        cells = self.keeps == "cells"
        each = [one.roundings() if cells else one.answer_roundings() for one in self.strategies]
        grown = [
            1.0 if isinstance(one, Direct) or (cells and one.alone) else math.sqrt(one.n_noise)
            for one in self.strategies
        ]
        return math.prod(grown) * sum(own / growth for own, growth in zip(each, grown, strict=True))

    def mean_variance(self) -> float:
        return math.prod(strategy.mean_variance() for strategy in self.strategies)

    def _rows(self) -> list[int]:
        return [strategy.n_noise for strategy in self.strategies]

    def _layers(self, last: Strategy, bounds: Sequence[Sensitivity], numbers: Sequence[int]) -> float:
        """The bound in layers, with this factor as the last."""
        keys = numbers[-1]
        asked = np.maximum.accumulate([bound.l2 for bound in bounds])
        # of a number not asked for, the next larger one says enough
        reached = asked[np.searchsorted(numbers, np.arange(1, keys + 1))]
        for strategy in self.strategies:
            if strategy is not last:
                reached = _knapsack(np.diff(reached, prepend=0.0), _norms(strategy, keys))
        return float(reached[-1])


def _numbers(keys: int) -> list[int]:
    """1, …, keys, thinned out to steps of 3 % where they are many."""
    numbers = [1]
    while numbers[-1] < keys:
        numbers.append(min(keys, max(numbers[-1] + 1, int(1.03 * numbers[-1]))))
    return numbers


def _bounds(strategy: Strategy, numbers: Sequence[int]) -> list[Sensitivity]:
    """What so many cells of one factor move; it has no more than all of its cells."""
    cells = strategy.workload.n_cells
    found = {number: strategy.sensitivity(number) for number in {min(number, cells) for number in numbers}}
    return [found[min(number, cells)] for number in numbers]


def _largest_eigenvalue(strategy: Strategy) -> float:
    """Of RᵀR; infinite where that is not written out."""
    if isinstance(strategy, IdentityStrategy):
        return 1.0
    cells = strategy.workload.n_cells
    if cells > LARGEST_GRAM:
        return math.inf
    return float(np.linalg.svd(strategy.apply(np.eye(cells)), compute_uv=False)[0]) ** 2


def _norms(strategy: Strategy, keys: int) -> FloatArray:
    """D(1), …, D(keys) under a positive semidefinite matrix that is nowhere below the absolute Gram matrix."""
    cells = strategy.workload.n_cells
    numbers = np.minimum(np.arange(1, keys + 1), cells)
    if isinstance(strategy, IdentityStrategy):
        return np.sqrt(numbers)
    if cells > LARGEST_GRAM:
        norms: FloatArray = strategy.sensitivity(1).l2 * numbers
        return norms
    rows = strategy.apply(np.eye(cells))
    absolute = np.abs(rows.T @ rows)
    shift = max(0.0, -float(np.linalg.eigvalsh(absolute)[0]))
    return np.sqrt(upper_sums(absolute + shift * np.eye(cells), keys))


def _knapsack(gains: FloatArray, norms: FloatArray) -> FloatArray:
    """The largest Σ gains[j]·norms[t_j] with Σ t_j = 1, …, keys; layer j has at most a j-th of all cells."""
    keys = len(norms)
    best = np.zeros(keys + 1)
    for layer in range(1, keys + 1):
        before = best.copy()
        for taken in range(1, keys // layer + 1):
            value = before[: keys + 1 - taken] + gains[layer - 1] * norms[taken - 1]
            np.maximum(best[taken:], value, out=best[taken:])
    return best[1:]


def _boxes(bounds: Sequence[Sequence[Sensitivity]], numbers: Sequence[int]) -> float:
    """The largest product of what t cells of one factor reach by what ⌊keys/t⌋ of the others do."""
    keys = numbers[-1]
    # of a number not asked for, the next smaller one
    place = np.searchsorted(numbers, np.arange(1, keys + 1), side="right") - 1
    reached = [np.maximum.accumulate([bound.l2_lower for bound in of_one])[place].tolist() for of_one in bounds]
    best = reached[-1]
    for one in reversed(reached[:-1]):
        best = [
            max(one[taken - 1] * best[number // taken - 1] for taken in range(1, number + 1))
            for number in range(1, keys + 1)
        ]
    return float(best[-1])
