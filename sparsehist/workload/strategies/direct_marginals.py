"""Every marginal measured by itself: what the residual basis is compared to, and what suits Laplace noise."""

from __future__ import annotations

import math

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import ArrayLike, FloatArray, Generator
from sparsehist.workload.gram.agreement import Columns, largest_sum, profile
from sparsehist.workload.gram.profiles import Profile
from sparsehist.workload.queries.linear_queries import Workload
from sparsehist.workload.queries.marginals import Marginals
from sparsehist.workload.strategies.strategy import OF_Z, Kept, Sensitivity, Strategy, along

_PROBED = 2**16


class DirectMarginals(Strategy):
    """The marginals as they are: R = A, so one cell moves one entry of each marginal by 1.

    Marginals do not agree with one another, and the noise is that of their number; but R has integer entries, and
    under Laplace noise, where what counts is the L1 norm, little is lost against the residual basis, or nothing.
    """

    word = "direct"
    keeps: Kept = "answers"
    integral = True

    def __init__(self, workload: Workload) -> None:
        if not isinstance(workload, Marginals):
            raise DeclarationError(f"the strategy {self.name} measures marginals, not {workload.describe()}")
        super().__init__(workload)
        self._asked = workload
        self._scales = self._choose(np.array(workload.sizes, np.float64))

    def _choose(self, sizes: FloatArray) -> FloatArray:
        """Standard deviation of each marginal when the entries of Z have variance 1."""
        return np.ones_like(sizes)

    @property
    def n_noise(self) -> int:
        return self.workload.n_queries

    def sensitivity(self, max_keys: int) -> Sensitivity:
        bounds = largest_sum(self._columns(), max_keys, self._largest_eigenvalue())
        return Sensitivity(math.sqrt(bounds.upper), math.sqrt(bounds.lower))

    def profile(self, max_keys: int) -> Profile:
        return profile(self._columns(), max_keys, self._largest_eigenvalue())

    def _columns(self) -> Columns:
        sizes = self._asked.columns
        return Columns(sizes, self._asked.marginals, self._scales**-2.0, np.zeros(len(sizes)))

    def l1_sensitivity(self, max_keys: int) -> float:
        """Exact: the norm of a sum of columns without negative entries is the sum of theirs."""
        return min(max_keys, self.workload.n_cells) * float((1.0 / self._scales).sum())

    def apply(self, x: ArrayLike) -> FloatArray:
        answers = self.workload.apply(x)
        return answers / along(self._of_queries(self._scales), answers)

    def noise_answers(self, z: ArrayLike) -> FloatArray:
        noise = np.asarray(z, np.float64)
        return noise * along(self._of_queries(self._scales), noise)

    def roundings(self) -> float:
        return 1.0

    def rounding(self, max_keys: int) -> float:
        """Answers have noise of their own, and a unit changes at most `max_keys` of each marginal."""
        touched = np.minimum(np.array(self._asked.sizes, np.float64), max_keys)
        return float(touched @ self._scales) * (OF_Z + self.roundings())

    def query_variance(self) -> FloatArray:
        return self._of_queries(self._scales**2.0)

    def mean_variance(self) -> float:
        return float(np.average(self._scales**2.0, weights=self._asked.sizes))

    def check(self, *, rng: Generator, probes: int = 3) -> None:
        """Compare L·(R·x) with A·x where the domain can be written out; R is A times numbers everywhere."""
        if self.workload.n_cells <= _PROBED:
            super().check(rng=rng, probes=probes)

    def _of_queries(self, values: FloatArray) -> FloatArray:
        return np.repeat(values, self._asked.sizes)

    def _largest_eigenvalue(self) -> float:
        """Of RᵀR: at the vector of ones, by Perron and Frobenius."""
        logs = np.array([math.log(size) for size in self._asked.columns])
        other = logs.sum() - np.array([sum(logs[column] for column in subset) for subset in self._asked.marginals])
        if other.max() > 700.0:
            return math.inf
        return float((np.exp(other) * self._scales**-2.0).sum())


class WeightedMarginals(DirectMarginals):
    """The marginals as they are, each at the precision that makes the mean variance over all queries least.

    With variance s_S on the marginal over S, of n_S cells, Σ n_S·s_S is least at Σ 1/s_S = 1 for s_S ∝ 1/√n_S.
    """

    word = "weighted"
    integral = False

    def _choose(self, sizes: FloatArray) -> FloatArray:
        scales: FloatArray = np.sqrt(np.sqrt(sizes).sum() / np.sqrt(sizes))
        return scales
