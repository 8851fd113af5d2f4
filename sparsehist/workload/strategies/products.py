"""Strategies that combine one strategy for each factor of a product, or one for each part of a union."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import ArrayLike, FloatArray
from sparsehist.workload.queries.products import Kronecker, Union, along_axes, outer
from sparsehist.workload.queries.workload import Workload
from sparsehist.workload.sensitivity import ROUND_UP, products_of_rows
from sparsehist.workload.strategies.strategy import Strategy


class Combined(Strategy):
    """The base class of strategies that combine one strategy for each part of a composite workload."""

    answers: ClassVar[type[Kronecker | Union]]

    def __init__(self, workload: Workload, strategies: Sequence[Strategy]) -> None:
        if [strategy.workload for strategy in strategies] != list(self.parts_of(workload)):
            raise DeclarationError(f"give one strategy for each part of {workload.describe()}")
        super().__init__(workload)
        self.strategies = tuple(strategies)

    @classmethod
    def parts_of(cls, workload: Workload) -> Sequence[Workload]:
        """Return the parts of a workload. Raise an error if this class cannot answer a workload of this type."""
        if not isinstance(workload, cls.answers):
            kind = "kronecker(…)" if cls.answers is Kronecker else "union(…)"
            raise DeclarationError(f"this strategy needs a workload of the form {kind}, got {workload.describe()}")
        return workload.parts

    @property
    def name(self) -> str:
        return f"{self.word}({', '.join(strategy.name for strategy in self.strategies)})"


class KroneckerStrategy(Combined):
    """The Kronecker product of strategies: R = R1 ⊗ R2 ⊗ … and L = L1 ⊗ L2 ⊗ …, applied one factor at a time."""

    word = "kronecker"
    answers = Kronecker

    def __init__(self, workload: Workload, strategies: Sequence[Strategy]) -> None:
        super().__init__(workload, strategies)
        self.integral = all(strategy.integral for strategy in strategies)
        self.invertible = all(strategy.invertible for strategy in strategies)

    @property
    def n_noise(self) -> int:
        return math.prod(strategy.n_noise for strategy in self.strategies)

    def l2(self, max_keys: int) -> float:
        keys = min(max_keys, self.workload.n_cells)
        column = math.prod(strategy.l2(1) for strategy in self.strategies)
        row = float(self.gram_row(keys).sum()) * ROUND_UP
        return min(keys * column, math.sqrt(keys * min(row, self.largest_eigenvalue())))

    def l1(self, max_keys: int) -> float:
        keys = min(max_keys, self.workload.n_cells)
        return keys * math.prod(strategy.l1(1) for strategy in self.strategies)

    def gram_row(self, max_keys: int) -> FloatArray:
        return products_of_rows([strategy.gram_row(max_keys) for strategy in self.strategies], max_keys)

    def largest_eigenvalue(self) -> float:
        return math.prod(strategy.largest_eigenvalue() for strategy in self.strategies)

    def apply(self, x: ArrayLike) -> FloatArray:
        values = self.workload.columns_of(x, self.workload.n_cells)
        lengths = [strategy.workload.n_cells for strategy in self.strategies]
        return along_axes([strategy.apply for strategy in self.strategies], lengths, values)

    def to_cells(self, z: FloatArray) -> FloatArray:
        return along_axes([one.to_cells for one in self.strategies], [one.n_noise for one in self.strategies], z)

    def noise_answers(self, z: FloatArray) -> FloatArray:
        return along_axes([one.noise_answers for one in self.strategies], [one.n_noise for one in self.strategies], z)

    def cell_variance(self) -> float:
        return math.prod(strategy.cell_variance() for strategy in self.strategies)

    def variance(self) -> FloatArray:
        return outer(strategy.variance() for strategy in self.strategies)

    def mean_variance(self) -> float:
        return math.prod(strategy.mean_variance() for strategy in self.strategies)


class UnionStrategy(Combined):
    """One strategy for each part i of a union. R stacks the weighted matrices r_i·R_i, so Δ² is at most Σ r_i²·Δ_i².

    The weights r_i are best for units of one cell. They are computed from the parts, so strategy names omit them.
    """

    word = "union"
    answers = Union

    def __init__(self, workload: Workload, strategies: Sequence[Strategy]) -> None:
        super().__init__(workload, strategies)
        norms = np.array([strategy.l2(1) for strategy in strategies])
        variances = np.array([strategy.mean_variance() * strategy.workload.n_queries for strategy in strategies])
        shares = np.sqrt(variances) * norms
        if not np.all((norms > 0) & (shares > 0) & np.isfinite(shares)):
            raise DeclarationError(f"remove the part whose matrix is 0 from the workload {workload.describe()}")
        factors: list[float] = (np.sqrt(shares / shares.sum()) / norms).tolist()
        self._weighted = list(zip(factors, self.strategies, strict=True))

    @property
    def n_noise(self) -> int:
        return sum(strategy.n_noise for strategy in self.strategies)

    def l2(self, max_keys: int) -> float:
        return float(np.linalg.norm([factor * part.l2(max_keys) for factor, part in self._weighted]))

    def l1(self, max_keys: int) -> float:
        return float(sum(factor * part.l1(max_keys) for factor, part in self._weighted))

    def apply(self, x: ArrayLike) -> FloatArray:
        return np.concatenate([factor * part.apply(x) for factor, part in self._weighted])

    def noise_answers(self, z: FloatArray) -> FloatArray:
        pieces = np.split(z, np.cumsum([part.n_noise for part in self.strategies])[:-1])
        parts = zip(self._weighted, pieces, strict=True)
        return np.concatenate([part.noise_answers(piece) / factor for (factor, part), piece in parts])

    def variance(self) -> FloatArray:
        return np.concatenate([part.variance() / factor**2 for factor, part in self._weighted])
