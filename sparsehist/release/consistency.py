"""Make cells and workloads of one series consistent by generalised least squares (Aitken 1935): post-processing.

The estimates are maximum likelihood for Gaussian noise, and the best linear unbiased ones for any noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from sparsehist.domain import Domain
from sparsehist.errors import DeclarationError, InputError, of_kind
from sparsehist.release.metadata import CellMetadata, WorkloadMetadata, read_metadata
from sparsehist.release.workload_answers import column_sizes, key_domains
from sparsehist.typing import FloatArray
from sparsehist.workload import Strategy, Workload, strategy_named

if TYPE_CHECKING:
    from sparsehist.release.releases import Release, WorkloadRelease

_MOST_WEIGHED = 2048
_ADDED = ("consistent", "consistent_error")
# Variances and singular values below this share of the largest are rounding errors.
_NEGLIGIBLE = 1e-10


class Measured(NamedTuple):
    """Noisy answers rows·x + noise: weights (queries, cells), values (queries,), covariance of the noise."""

    rows: FloatArray
    values: FloatArray
    covariance: FloatArray


def consistent(cells: Release, workloads: Sequence[WorkloadRelease], domain: Domain | None) -> list[pl.DataFrame]:
    """See `Release.consistent`."""
    about = read_metadata(cells.metadata)
    if not isinstance(about, CellMetadata):
        raise DeclarationError(f"{cells.name!r} is a workload release; call consistent() on a cell release")
    found = [of_kind(read_metadata(one.metadata), WorkloadMetadata) for one in workloads]
    if not found:
        raise DeclarationError("consistent takes the releases of workloads that are to agree with this one")
    if {(one.store, one.series) for one in found} != {(about.store, about.series)}:
        raise InputError("all releases must be of one series")
    if len({(one.workload, one.strategy) for one in found}) < len(found):
        raise DeclarationError("give one release of each workload and strategy: the finest")
    frames = [one.frame for one in (cells, *workloads)]
    if any(set(_ADDED) & set(frame.columns) for frame in frames):
        raise InputError(f"a key column has the name of one to be added, {' or '.join(_ADDED)}: rename it in the log")
    domain = about.declaration.domain if domain is None else domain
    strategies = [strategy_named(one.strategy, Workload.parse(one.workload)) for one in found]
    largest = max(*(strategy.n_noise for strategy in strategies), *map(len, workloads))
    if domain.is_open or max(domain.size, largest) > _MOST_WEIGHED:
        raise DeclarationError(
            f"consistent() takes at most {_MOST_WEIGHED} cells and answers together: {domain.describe()}"
        )
    estimates = cells.estimates()
    columns = zip(key_domains(domain), cells.frame.select(about.declaration.key).get_columns(), strict=True)
    coordinates = tuple(column.index(pl.DataFrame({"key_0": values})) for column, values in columns)
    rows = np.eye(domain.size)[np.ravel_multi_index(coordinates, column_sizes(domain))]
    answers = [Measured(rows, estimates["estimate"].to_numpy(), np.diag(estimates["estimate_error"].to_numpy() ** 2))]
    for strategy, one, said in zip(strategies, workloads, found, strict=True):
        values = one.frame["noisy_count" if one.implicit else "noisy_answer"].to_numpy()
        answers.append(measured(strategy, values, said.noise_std))
    return [
        frame.with_columns(pl.Series(name, column) for name, column in zip(_ADDED, one, strict=True))
        for frame, one in zip(frames, agree(answers), strict=True)
    ]


def measured(strategy: Strategy, values: FloatArray, noise_std: float) -> Measured:
    """Describe a release: one value per listed query, else one per cell, with covariance noise_std²·L·Lᵀ."""
    rows, unit = np.eye(strategy.workload.n_cells), np.eye(strategy.n_noise)
    if strategy.workload.explicit:
        rows, spread = strategy.workload.apply(rows), strategy.noise_answers(unit)
    else:
        spread = strategy.to_cells(unit)
    return Measured(rows, values, noise_std**2 * (spread @ spread.T))


def agree(answers: Sequence[Measured]) -> list[tuple[FloatArray, FloatArray]]:
    """Estimate each answer from all measurements, whose noise is independent: values and standard deviations."""
    whitened, targets = zip(*map(_whitened, answers), strict=True)
    left, sizes, right = np.linalg.svd(np.concatenate(whitened), full_matrices=False)
    known = sizes > _NEGLIGIBLE * sizes[0]
    inverse = right[known].T / sizes[known]
    cells = inverse @ (left[:, known].T @ np.concatenate(targets))
    return [(each.rows @ cells, np.sqrt(np.sum((each.rows @ inverse) ** 2, axis=1))) for each in answers]


def _whitened(answers: Measured) -> tuple[FloatArray, FloatArray]:
    """Return rows and values in coordinates where the noise has variance 1; drop coordinates without noise."""
    variances, directions = np.linalg.eigh(answers.covariance)
    noisy = variances > _NEGLIGIBLE * variances.max(initial=0.0)
    turned = directions[:, noisy].T / np.sqrt(variances[noisy])[:, np.newaxis]
    return turned @ answers.rows, turned @ answers.values
