"""A release of cells and releases of workloads of one series made to agree; what a reader can do, without a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from sparsehist.domain import Domain
from sparsehist.errors import DeclarationError, InputError, of_kind
from sparsehist.series.metadata import CellMetadata, WorkloadMetadata, read_metadata
from sparsehist.series.workload_keys import column_sizes, key_domains
from sparsehist.workload import Workload, strategy_named
from sparsehist.workload.agreed import Measured, agree, measured

if TYPE_CHECKING:
    from sparsehist.series.release import Release, WorkloadRelease

_MOST = 2048
_ADDED = ("consistent", "consistent_error")


def consistent(cells: Release, workloads: Sequence[WorkloadRelease], domain: Domain | None) -> list[pl.DataFrame]:
    """See `Release.consistent`."""
    about = read_metadata(cells.metadata)
    if not isinstance(about, CellMetadata):
        raise DeclarationError(f"{cells.name!r} is no release of cells: call consistent of one, with workloads")
    found = [of_kind(read_metadata(one.metadata), WorkloadMetadata) for one in workloads]
    if not found:
        raise DeclarationError("consistent takes the releases of workloads that are to agree with this one")
    if {(one.store, one.series) for one in found} != {(about.store, about.series)}:
        raise InputError("only releases of one series have counts in common")
    if any(one.post_processing for one in found):
        raise DeclarationError("answers that were post-processed have no covariance any more: release them without")
    if len({(one.workload, one.strategy) for one in found}) < len(found):
        raise DeclarationError("of each workload and strategy one release, the finest: others add nothing but noise")
    domain = Domain.parse(about.domain) if domain is None else domain
    if domain.is_open or domain.size > _MOST:
        raise DeclarationError(f"cells and answers are weighed together up to {_MOST} of them: {domain.describe()}")
    strategies = [strategy_named(one.strategy, Workload.parse(one.workload)) for one in found]
    if max(strategy.n_noise for strategy in strategies) > _MOST or max(map(len, workloads)) > _MOST:
        raise DeclarationError(f"answers are weighed together up to {_MOST} of a workload")
    estimates = cells.estimates()
    rows = np.eye(domain.size)[_numbers(domain, cells.frame.select(about.key))]
    own = Measured(rows, estimates["estimate"].to_numpy(), np.diag(estimates["estimate_error"].to_numpy() ** 2))
    answered = [
        measured(strategy, one.frame["noisy_count" if one.implicit else "noisy_answer"].to_numpy(), said.noise_std)
        for strategy, one, said in zip(strategies, workloads, found, strict=True)
    ]
    shown = [*([own] if len(cells) else []), *answered]
    made = agree(shown)
    frames = [cells.frame, *(one.frame for one in workloads)]
    if not len(cells):
        made = [made[0]._replace(values=np.empty(0), errors=np.empty(0)), *made]
    for frame in frames:
        if set(_ADDED) & set(frame.columns):
            raise InputError(
                f"a key column is called as one to be added, {' or '.join(_ADDED)}: rename it in the log"
            )
    return [
        frame.with_columns(pl.Series(name, column) for name, column in zip(_ADDED, one, strict=True))
        for frame, one in zip(frames, made, strict=True)
    ]


def _numbers(domain: Domain, keys: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The cell of each key, in the order of workloads: the last column runs fastest."""
    columns = zip(key_domains(domain), keys.get_columns(), strict=True)
    coordinates = tuple(column.index(pl.DataFrame({"key_0": values})) for column, values in columns)
    return np.asarray(np.ravel_multi_index(coordinates, column_sizes(domain)), np.int64)
