"""Products of strategies: R = R1 ⊗ R2 ⊗ … and L = L1 ⊗ L2 ⊗ …, applied factor by factor.

What l cells move R·x by. Let Δ(j) bound what j cells of the last factor move its part by. Take another factor with
Gram matrix G1, and a positive semidefinite M with |G1| <= M entry by entry, under which t cells have a norm of at
most D(t). Cells that share the coordinate a in that factor, s_a of them, make a vector of length w_a <= Δ(s_a), and
the square of the whole is at most wᵀ·M·w. With T_j the coordinates that have j cells or more and δ_j the step from
Δ(j - 1) to Δ(j), which is not negative once Δ is made to grow, w <= Σ δ_j·1_{T_j}, and by the triangle inequality of
the norm of M

    Δ_both(l) <= max Σ_j δ_j·D(t_j) over t_1 >= t_2 >= … with Σ t_j = l,

a knapsack over layers (`sparsehist.workload.gram.profiles`). It is also at most l times the product of the column
norms, for which M is that norm's square everywhere. And with λ the largest eigenvalue of G1 its square is at most
λ·Σ Δ(s_a)², as G1 ⊗ G2 is at most λ·I ⊗ G2: at most λ·l·max Δ(s)²/s over s <= l, which is exact where G1 is the
identity and Δ(s)²/s grows. From below: boxes of cells, t of one factor by ⌊l/t⌋ of the others, whose sums multiply.
Each factor says once what any number of its cells does (`Strategy.profile`). Derived here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial, reduce

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import ArrayLike, FloatArray
from sparsehist.workload.gram.profiles import Profile, boxes, layered
from sparsehist.workload.queries.kronecker import Kronecker, along_axes
from sparsehist.workload.queries.linear_queries import Workload
from sparsehist.workload.strategies.direct import Direct
from sparsehist.workload.strategies.strategy import Combined, Kept, Sensitivity, Strategy

# Of factors with columns that cancel, so many are tried as the last.
_MOST_LAST = 4


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
        profile = self.profile(max_keys)
        return Sensitivity(float(profile.norms[-1]), float(profile.reached[-1]))

    def profile(self, max_keys: int) -> Profile:
        keys = min(max_keys, self.workload.n_cells)
        parts = [strategy.profile(keys) for strategy in self.strategies]
        largest = math.prod(float(part.norms[0]) for part in parts)
        every = np.arange(1.0, keys + 1)
        norms = largest * every
        # Where majorants are the norms, it is the same whichever factor is the last.
        last = [part for part in parts if part.majorant is not part.norms] or parts[:1]
        for part in last[:_MOST_LAST]:
            rest = [other.majorant for other in parts if other is not part]
            norms = np.minimum(norms, reduce(partial(layered, keys=keys), rest, part.norms))
        majorant = reduce(partial(layered, keys=keys), [part.majorant for part in parts])
        eigenvalue = math.prod(part.eigenvalue for part in parts)
        for part in parts:
            others = math.prod(other.eigenvalue for other in parts if other is not part)
            each = np.maximum.accumulate(part.norms**2 / every[: part.norms.size])
            each = np.append(each, np.full(keys - each.size, each[-1]))
            norms = np.minimum(norms, np.sqrt(every * others * each))
        norms = np.maximum.accumulate(norms)
        reached = np.minimum(boxes([part.reached for part in parts], keys), norms)
        same = all(part.majorant is part.norms for part in parts)
        return Profile(norms, norms if same else np.minimum(majorant, largest * every), reached, eigenvalue)

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
