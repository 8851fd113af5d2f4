"""Noisy answers about the same cells made consistent: weighted by the inverse of their covariance.

Source: generalised least squares (Aitken 1935). For Gaussian noise the estimates are the most likely, for any noise
the best linear unbiased ones; cells that nothing was measured of on their own are unknowns like the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sparsehist.typing import FloatArray
from sparsehist.workload.strategies.strategy import Strategy

# Of the largest one: directions of the covariance that hold nothing but rounding, and of the cells nobody measured.
_NEGLIGIBLE = 1e-10


class Measured(NamedTuple):
    """Noisy answers rows·x + noise: weights (queries, cells), values (queries,), covariance of the noise."""

    rows: FloatArray
    values: FloatArray
    covariance: FloatArray


class Agreed(NamedTuple):
    """The estimate of each answer from all of them together, and its standard deviation; shape (queries,) each."""

    values: FloatArray
    errors: FloatArray


def measured(strategy: Strategy, values: FloatArray, noise_std: float) -> Measured:
    """A release as measured: one value per listed query, else per cell; L·Z has the covariance noise_std²·L·Lᵀ."""
    rows, unit = np.eye(strategy.workload.n_cells), np.eye(strategy.n_noise)
    if strategy.workload.explicit:
        rows, spread = strategy.workload.apply(rows), strategy.noise_answers(unit)
    else:
        spread = strategy.to_cells(unit)
    return Measured(rows, values, noise_std**2 * (spread @ spread.T))


def agree(answers: Sequence[Measured]) -> list[Agreed]:
    """Estimate the cells from all answers, whose noises are independent of each other, and answer each query again.

    Example:
        >>> one = Measured(np.array([[1.0, 1.0]]), np.array([10.0]), np.array([[3.0]]))
        >>> both = Measured(np.eye(2), np.array([2.0, 5.0]), np.eye(2))
        >>> agree([one, both])[1].values.round(2).tolist()
        [2.6, 5.6]
    """
    whitened, targets = zip(*map(_whitened, answers), strict=True)
    left, sizes, right = np.linalg.svd(np.concatenate(whitened), full_matrices=False)
    known = sizes > _NEGLIGIBLE * sizes[0]
    inverse = right[known].T / sizes[known]
    cells = inverse @ (left[:, known].T @ np.concatenate(targets))
    return [Agreed(each.rows @ cells, np.sqrt(np.sum((each.rows @ inverse) ** 2, axis=1))) for each in answers]


def _whitened(answers: Measured) -> tuple[FloatArray, FloatArray]:
    """Rows and values with noise of variance 1, without what has none: 0 = 0, where answers agree already."""
    variances, directions = np.linalg.eigh(answers.covariance)
    noisy = variances > _NEGLIGIBLE * variances.max(initial=0.0)
    turned = directions[:, noisy].T / np.sqrt(variances[noisy])[:, np.newaxis]
    return turned @ answers.rows, turned @ answers.values
