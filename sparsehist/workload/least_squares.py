"""Noisy answers about the same cells made consistent by generalised least squares (Aitken 1935).

The estimates are maximum likelihood for Gaussian noise, and the best linear unbiased ones for any noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sparsehist.typing import FloatArray
from sparsehist.workload.strategies.strategy import Strategy

# Variances and singular values below this share of the largest are rounding errors.
_NEGLIGIBLE = 1e-10


class Measured(NamedTuple):
    """Noisy answers rows·x + noise: weights (queries, cells), values (queries,), covariance of the noise."""

    rows: FloatArray
    values: FloatArray
    covariance: FloatArray


def measured(strategy: Strategy, values: FloatArray, noise_std: float) -> Measured:
    """Describe a release: one value per listed query, or else per cell, with the covariance noise_std²·L·Lᵀ."""
    rows, unit = np.eye(strategy.workload.n_cells), np.eye(strategy.n_noise)
    if strategy.workload.explicit:
        rows, spread = strategy.workload.apply(rows), strategy.noise_answers(unit)
    else:
        spread = strategy.to_cells(unit)
    return Measured(rows, values, noise_std**2 * (spread @ spread.T))


def agree(answers: Sequence[Measured]) -> list[tuple[FloatArray, FloatArray]]:
    """Estimate every answer from all, of independent noises: values and standard deviations; shape (queries,)."""
    whitened, targets = zip(*map(_whitened, answers), strict=True)
    left, sizes, right = np.linalg.svd(np.concatenate(whitened), full_matrices=False)
    known = sizes > _NEGLIGIBLE * sizes[0]
    inverse = right[known].T / sizes[known]
    cells = inverse @ (left[:, known].T @ np.concatenate(targets))
    return [(each.rows @ cells, np.sqrt(np.sum((each.rows @ inverse) ** 2, axis=1))) for each in answers]


def _whitened(answers: Measured) -> tuple[FloatArray, FloatArray]:
    """Rows and values in coordinates with noise of variance 1; coordinates without noise are left out."""
    variances, directions = np.linalg.eigh(answers.covariance)
    noisy = variances > _NEGLIGIBLE * variances.max(initial=0.0)
    turned = directions[:, noisy].T / np.sqrt(variances[noisy])[:, np.newaxis]
    return turned @ answers.rows, turned @ answers.values
