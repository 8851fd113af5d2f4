"""Trees over one column: noise on the total of every node, the leaves being the cells.

Each level is a partition into runs of branching^k cells (the last one may be short), from the cells to one root. On
a level of runs of s cells a unit of l cells makes a sum of squares of at most ⌊l/s⌋s² + (l mod s)², and the first l
cells reach that on all levels at once: the sensitivity is exact.
"""

from __future__ import annotations

import math

import numpy as np

from sparsehist.errors import DeclarationError, present
from sparsehist.typing import ArrayLike, FloatArray, IntArray
from sparsehist.workload.queries.linear_queries import Workload
from sparsehist.workload.strategies.invertible import Invertible
from sparsehist.workload.strategies.strategy import Kept, Sensitivity, Strategy, along


def squares_in_runs(keys: int, run: int) -> int:
    """The greatest sum of squared counts when `keys` cells fall into runs of `run` cells."""
    full, rest = divmod(keys, run)
    return full * run * run + rest * rest


class Hierarchical(Invertible):
    """A tree with at least two children per node; least-squares answers from all nodes, in time linear in n.

    Source: Hay, Rastogi, Miklau and Suciu 2010, section 4, here for trees of any number of leaves.
    """

    word = "hierarchical"
    one_column = True
    integral = True
    overlapping = True

    def __init__(self, workload: Workload, *, branching: int = 16) -> None:
        super().__init__(workload)
        if isinstance(branching, bool) or not isinstance(branching, int) or not 2 <= branching <= 2**31:
            raise DeclarationError(f"branching is a number of children, at least 2, got {branching!r}")
        self.branching = branching
        self.sizes = [workload.n_cells]
        while self.sizes[-1] > 1:
            self.sizes.append(-(-self.sizes[-1] // branching))

    @property
    def name(self) -> str:
        return f"{self.word}(branching={self.branching})"

    @property
    def n_noise(self) -> int:
        return sum(self.sizes)

    def sensitivity(self, max_keys: int) -> Sensitivity:
        """Exact."""
        keys = min(max_keys, self.sizes[0])
        square = sum(squares_in_runs(keys, self.branching**level) for level in range(len(self.sizes)))
        return Sensitivity(square**0.5, square**0.5)

    def l1_sensitivity(self, max_keys: int) -> float:
        """Exact."""
        return float(min(max_keys, self.sizes[0]) * len(self.sizes))

    def apply(self, x: ArrayLike) -> FloatArray:
        levels = [np.asarray(x, np.float64)]
        for _ in self.sizes[1:]:
            levels.append(self._totals(levels[-1]))
        return np.concatenate(levels)

    def solve(self, z: FloatArray) -> FloatArray:
        """Up: the best estimate of each node from its own subtree. Down: what the nodes above add to it."""
        noise, variances = self._split(z), self._variances()
        below = [noise[0]]
        for level, variance in enumerate(variances[1:], 1):
            weight = variance  # σ/(1 + σ), the share of the node's own noise
            below.append(noise[level] * along(weight, z) + self._totals(below[-1]) * along(1 - weight, z))
        above = below[-1]
        for level in range(len(self.sizes) - 2, -1, -1):
            missing = above - self._totals(below[level])
            above = below[level] + self._spread(missing, level) * along(self._shares(level, variances), z)
        return above

    def roundings(self) -> float:
        """On each level a weighed sum of `branching` nodes: up, where errors add up, and down, where shares end them.

        The proof is in docs/mathematics.md.
        """
        return 4.0 * len(self.sizes) * (math.sqrt(min(self.branching, self.sizes[0])) + 5)

    def cell_variance(self) -> float:
        """At most this: the noise of a leaf is an estimate, too."""
        return 1.0

    def solve_transposed(self, a: FloatArray) -> FloatArray:
        variances = self._variances()
        above, below = np.asarray(a, np.float64), []
        for level in range(len(self.sizes) - 1):
            to_parent = self._totals(above * along(self._shares(level, variances), a))
            below.append(above - self._spread(to_parent, level))
            above = to_parent
        noise = [above]
        for level in range(len(self.sizes) - 1, 0, -1):
            weight = variances[level]
            to_children = self._spread(noise[-1] * along(1 - weight, a), level - 1)
            noise[-1] = noise[-1] * along(weight, a)
            noise.append(below[level - 1] + to_children)
        return np.concatenate(noise[::-1])

    def prefix_variances(self) -> FloatArray:
        high = np.arange(self.sizes[0])
        return self._edge_variances(high)

    def _edge_variances(self, high: IntArray) -> FloatArray:
        """Variance of the sums of cells 0, …, high.

        Given the total t of a node, its cells are independent of the rest: the part of them up to `high` has
        mean slope·t and a variance, which are carried up level by level.
        """
        variances = self._variances()
        node, slope, variance = high, np.ones(high.size), np.zeros(high.size)
        for level in range(len(self.sizes) - 1):
            alpha = variances[level]
            sums = np.concatenate([np.zeros(1), np.cumsum(alpha)])
            parent = node // self.branching
            first = parent * self.branching
            last = np.minimum(first + self.branching, self.sizes[level])
            left, total = sums[node] - sums[first], sums[last] - sums[first]
            through = left + slope * alpha[node]
            variance = variance + left + slope**2 * alpha[node] - through**2 / total
            node, slope = parent, through / total
        return np.asarray(variance + slope**2 * variances[-1][0])

    def _variances(self) -> list[FloatArray]:
        """Of the best estimate of each node from its own subtree, with unit noise: σ/(1 + σ)."""
        variances = [np.ones(self.sizes[0])]
        for _ in self.sizes[1:]:
            total = self._totals(variances[-1])
            variances.append(total / (1 + total))
        return variances

    def _shares(self, level: int, variances: list[FloatArray]) -> FloatArray:
        return np.asarray(variances[level] / self._spread(self._totals(variances[level]), level))

    def _totals(self, values: FloatArray) -> FloatArray:
        starts = np.arange(0, len(values), self.branching)
        return np.asarray(np.add.reduceat(values, starts, axis=0))

    def _spread(self, values: FloatArray, level: int) -> FloatArray:
        """The value of its parent for each node of a level."""
        return np.repeat(values, self.branching, axis=0)[: self.sizes[level]]

    def _split(self, z: FloatArray) -> list[FloatArray]:
        return np.split(z, np.cumsum(self.sizes)[:-1])


class Tree(Hierarchical):
    """The binary tree as it is used for streams: a range is the sum of the fewest nodes that make it up.

    L has no left inverse, so under Gaussian noise the answers of the listed queries are kept.

    Source: Dwork, Naor, Pitassi and Rothblum 2010; Chan, Shi and Song 2011.
    """

    word = "tree"
    keeps: Kept = "answers"

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload, branching=2)
        if set(workload.queries() or ()) != {"low", "high"}:
            raise DeclarationError(f"{self.word} answers lists of ranges, which {workload.describe()} is not")

    @property
    def name(self) -> str:
        return self.word

    to_cells = Strategy.to_cells  # which refuses

    def noise_answers(self, z: ArrayLike) -> FloatArray:
        noise = self._split(np.asarray(z, np.float64))
        answers = np.zeros((self.workload.n_queries, *noise[0].shape[1:]))
        for level, chosen, nodes in self._nodes():
            answers[chosen] += noise[level][nodes]
        return answers

    def query_variance(self) -> FloatArray:
        counts = np.zeros(self.workload.n_queries)
        for _, chosen, _ in self._nodes():
            counts[chosen] += 1
        return counts

    def roundings(self) -> float:
        """Sums of at most two nodes per level."""
        return 2.0 * len(self.sizes)

    def _nodes(self) -> list[tuple[int, IntArray, IntArray]]:
        """For each level: some queries, and a node that each of them takes in; at most twice a level."""
        described = present(self.workload.queries())
        low, end = described["low"].copy(), described["high"] + 1
        # Where the column ends, its last node on each level ends too, however short it is.
        taken: list[tuple[int, IntArray, IntArray]] = []
        for level, size in enumerate(self.sizes):
            to_the_end = end == size
            odd_low = np.flatnonzero((low < end) & (low % 2 == 1))
            taken.append((level, odd_low, low[odd_low]))
            low[odd_low] += 1
            odd_end = np.flatnonzero((low < end) & (end % 2 == 1) & ~(to_the_end & (size > 1)))
            taken.append((level, odd_end, end[odd_end] - 1))
            end[odd_end] -= 1
            low, end = low // 2, np.where(to_the_end & (low < end), (end + 1) // 2, end // 2)
        return taken
