"""The base of all strategies: a factorization A = L·R of a workload, released as A·x + L·Z.

Z is noise with one entry per row of R, scaled to the sensitivity of R·x. Releases at several levels are functions of
the releases of R·x at these levels, so together they cost what the finest costs, whatever L is.

Source: [ARNP Lemma 5.1], which asks for an L with a left inverse; without one a coarser R·x + Z is still a finer one
plus independent noise W, so L times it is L times the finer one plus L·W.
"""

from __future__ import annotations

import abc
from typing import ClassVar

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import ArrayLike, FloatArray, IntArray
from sparsehist.workload.queries.workload import Workload
from sparsehist.workload.sensitivity import LARGEST_GRAM, worst_row


class Strategy(abc.ABC):
    """A factorization A = L·R of a workload. Immutable; public parameters only.

    A subclass defines `word`, `n_noise`, `apply`, `l2`, `l1`, `variance` and either `to_cells` (with
    `invertible = True`) or `noise_answers`.
    """

    word: ClassVar[str]
    """The name in the textual form."""

    invertible: bool = False
    """Whether R has a left inverse. Then R⁻¹·Z, one number per cell, serves every query: L·Z = A·(R⁻¹·Z)."""

    integral: bool = False
    """Whether every entry of R is an integer, as integer noise needs."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload

    @property
    def name(self) -> str:
        """The textual form, such as ``spectral(blend=4)``."""
        return self.word

    @property
    @abc.abstractmethod
    def n_noise(self) -> int:
        """Number of rows of R: entries of Z."""

    @property
    def terms(self) -> int:
        """Number of entries of Z that one published number sums up; the numerical slack grows with its root."""
        return self.n_noise

    @abc.abstractmethod
    def apply(self, x: ArrayLike) -> FloatArray:
        """R·x; shape (cells,) or (cells, m) to (n_noise,) or (n_noise, m)."""

    def to_cells(self, z: FloatArray) -> FloatArray:  # noqa: ARG002  for those that can
        """R⁻¹·z where `invertible`; shape (n_noise,) or (n_noise, m) to (cells,) or (cells, m)."""
        raise DeclarationError(f"the strategy {self.name} has no left inverse: it answers the listed queries only")

    def noise_answers(self, z: FloatArray) -> FloatArray:
        """L·z, where queries are listed; shape (n_noise,) or (n_noise, m) to (queries,) or (queries, m)."""
        return self.workload.apply(self.to_cells(z))

    @abc.abstractmethod
    def l2(self, max_keys: int) -> float:
        """Upper bound of how far a unit with at most `max_keys` cells, each counted once, moves R·x in L2."""

    @abc.abstractmethod
    def l1(self, max_keys: int) -> float:
        """The same in L1, for noise of a pure guarantee."""

    @abc.abstractmethod
    def variance(self) -> FloatArray:
        """Variance of each listed query when the entries of Z have variance 1: the diagonal of L·Lᵀ."""

    def mean_variance(self) -> float:
        """Mean of the variance over all queries, listed or not."""
        return float(self.variance().mean())

    def range_variances(self, low: IntArray, high: IntArray) -> FloatArray:  # noqa: ARG002  for those that can
        """Variance of the sums of cells low, …, high of one column, for Z of variance 1; shape (queries,)."""
        raise DeclarationError(f"the strategy {self.name} answers the listed queries only")

    def cell_variance(self) -> float:
        """Mean variance of R⁻¹·Z over the cells, for Z of variance 1, where `invertible`."""
        cells = np.arange(self.workload.n_cells)
        return float(self.range_variances(cells, cells).mean())

    def gram_row(self, max_keys: int) -> FloatArray:
        """Entries that bound, in sums of the largest, every row of abs(RᵀR); shape (at most max_keys,)."""
        if self.workload.n_cells > LARGEST_GRAM:
            return np.full(max_keys, self.l2(1) ** 2)
        rows = self.apply(np.eye(self.workload.n_cells))
        return worst_row(rows.T @ rows, max_keys)

    def largest_eigenvalue(self) -> float:
        """At least the largest eigenvalue of RᵀR; may be infinite."""
        if self.workload.n_cells > LARGEST_GRAM:
            return float("inf")
        return float(np.linalg.norm(self.apply(np.eye(self.workload.n_cells)), 2)) ** 2

    def __repr__(self) -> str:
        return f"<strategy {self.name} for {self.workload.describe()}>"


def along(factor: FloatArray, values: FloatArray) -> FloatArray:
    """One factor a row, in a shape that multiplies values with columns or without."""
    return factor if values.ndim == 1 else factor[:, np.newaxis]
