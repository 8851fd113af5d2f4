"""A strategy for each part of a union, measured side by side at shares of one budget.

R is the strategies' queries one below the other, part i times r_i. Each part is answered from its own measurements,
so its variances are those of its strategy over r_i², and Δ² is at most Σ r_i²·Δ_i². With v_i the sum of variances of
part i and one cell per unit, Σ v_i/r_i² is least at Σ r_i²·Δ_i² = 1 for r_i² ∝ √v_i/Δ_i, which is what is taken: the
shares are then the same for every max_keys, and follow from the names of the strategies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import ArrayLike, FloatArray
from sparsehist.workload.gram.profiles import Profile
from sparsehist.workload.queries.linear_queries import Workload
from sparsehist.workload.queries.union import Union
from sparsehist.workload.strategies.strategy import Combined, Kept, Sensitivity, Strategy


class UnionStrategy(Combined):
    """Every part of a union by a strategy of its own; parts do not learn from one another.

    Raises:
        DeclarationError: If the workload is not a union, the strategies are not those of its parts, or a part asks
            nothing.
    """

    word = "union"

    def __init__(self, workload: Workload, strategies: Sequence[Strategy]) -> None:
        super().__init__(workload, strategies)
        norms = np.array([strategy.sensitivity(1).l2 for strategy in strategies])
        variances = np.array([strategy.mean_variance() * strategy.workload.n_queries for strategy in strategies])
        shares = np.sqrt(variances) * norms
        if not np.all((norms > 0) & (shares > 0) & np.isfinite(shares)):
            raise DeclarationError(f"a part of {workload.describe()} asks nothing: leave it out of the union")
        self._weighted = list(zip(np.sqrt(shares / shares.sum()) / norms, self.strategies, strict=True))
        self.keeps: Kept = "answers" if workload.n_queries <= self.n_noise else "noise"

    @staticmethod
    def parts_of(workload: Workload) -> Sequence[Workload]:
        if not isinstance(workload, Union):
            raise DeclarationError(f"a union of strategies answers a union of workloads, not {workload.describe()}")
        return workload.parts

    @property
    def n_noise(self) -> int:
        return sum(strategy.n_noise for strategy in self.strategies)

    def sensitivity(self, max_keys: int) -> Sensitivity:
        parts = [(factor, strategy.sensitivity(max_keys)) for factor, strategy in self._weighted]
        upper = float(np.linalg.norm([factor * part.l2 for factor, part in parts]))
        lower = max(factor * part.l2_lower for factor, part in parts)
        return Sensitivity(upper, min(float(lower), upper))

    def profile(self, max_keys: int) -> Profile:
        """The Gram matrices of the parts add up, and so do those above them."""
        parts = [(factor**2, strategy.profile(max_keys)) for factor, strategy in self._weighted]
        norms, majorant = (
            np.sqrt(np.sum([square * np.square(part[place]) for square, part in parts], axis=0)) for place in (0, 1)
        )
        reached = np.max([math.sqrt(square) * part.reached for square, part in parts], axis=0)
        return Profile(norms, majorant, reached, math.fsum(square * part.eigenvalue for square, part in parts))

    def l1_sensitivity(self, max_keys: int) -> float:
        return float(sum(factor * strategy.l1_sensitivity(max_keys) for factor, strategy in self._weighted))

    def apply(self, x: ArrayLike) -> FloatArray:
        return np.concatenate([factor * strategy.apply(x) for factor, strategy in self._weighted])

    def noise_answers(self, z: ArrayLike) -> FloatArray:
        pieces = np.split(np.asarray(z, np.float64), np.cumsum([part.n_noise for part in self.strategies])[:-1])
        parts = zip(self._weighted, pieces, strict=True)
        return np.concatenate([strategy.noise_answers(piece) / factor for (factor, strategy), piece in parts])

    def query_variance(self) -> FloatArray:
        return np.concatenate([strategy.query_variance() / factor**2 for factor, strategy in self._weighted])

    def roundings(self) -> float:
        """Those of the parts, and one division, weighed by the deviations of their answers."""
        off = math.fsum(
            strategy.workload.n_queries
            * math.sqrt(strategy.mean_variance())
            / factor
            * (strategy.answer_roundings() + 1)
            for factor, strategy in self._weighted
        )
        return off / (self.workload.n_queries * math.sqrt(self.mean_variance()))

    def mean_variance(self) -> float:
        total = math.fsum(
            strategy.mean_variance() * strategy.workload.n_queries / factor**2 for factor, strategy in self._weighted
        )
        return total / self.workload.n_queries
