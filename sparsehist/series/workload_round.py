"""One release of a workload: choose the path, draw the state of the level, commit it, then make what is published."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from sparsehist.accounting.spending import check_spending
from sparsehist.errors import DeclarationError, LevelError, NameTakenError, NotFoundError
from sparsehist.histogram import dense_slack, grid_step
from sparsehist.noise import Family
from sparsehist.noise.family import NoiseArray
from sparsehist.planning.workload_plan import chosen_strategy
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.series.cell_parameters import NEIGHBOURS
from sparsehist.series.cell_round import adjacent
from sparsehist.series.declaration import Declaration, checked_name
from sparsehist.series.workload_answers import (
    cell_grid,
    check_spread,
    measured_grid,
    noisy_answers,
    noisy_cells,
)
from sparsehist.series.workload_data import cells_of, column_sizes, key_domains, numbers_of, queries_frame
from sparsehist.series.workload_noise import check_noise, family_for
from sparsehist.series.workload_post_processing import (
    check_possible,
    checked_steps,
    post_process,
    post_process_cells,
)
from sparsehist.store import NewPath, NewRound, PathRecord, ReleaseRecord, SeriesFiles, SeriesRecord, State
from sparsehist.workload import Strategy, Workload, next_state, strategy_named
from sparsehist.workload.of_keys import with_cells

AUTO = "auto"
_COLUMNS = ("noisy_answer", "std")
Published = tuple[pl.DataFrame, dict[str, Any]]
# Answers on the grid fit into the 53 bits of a double as long as the noise does not dwarf any count.
_LARGEST_STD = 2.0**40
_LONG = 2**20


@dataclass(frozen=True)
class WorkloadRequest:
    """What a caller asked of a release of a workload; what is None stands as the release of that name has it."""

    name: str
    workload: Workload | None
    strategy: str
    level: Fraction | None
    post_processing: tuple[str, ...] | None

    def as_json(self) -> dict[str, Any]:
        """The request as it is stored; levels as exact text."""
        return {
            "workload": None if self.workload is None else str(self.workload),
            "strategy": self.strategy,
            "level": None if self.level is None else level_text(self.level),
            "post_processing": None if self.post_processing is None else list(self.post_processing),
        }


@dataclass(frozen=True)
class _Path:
    """A noise path of a workload, opened already or about to be."""

    record: PathRecord | None
    workload: Workload
    strategy: Strategy


def requested(
    declaration: Declaration,
    name: str,
    workload: Workload | str | None,
    *,
    level: Level | None,
    strategy: str | Strategy,
    post_processing: str | Iterable[str] | None,
) -> WorkloadRequest:
    """Check what can be checked without a store.

    Raises:
        DeclarationError: If a parameter is wrong, or the workload does not fit the domain.
        LevelError: If the level is no level.
    """
    if declaration.domain.is_open:
        raise DeclarationError(
            "a series with an open domain has no workloads: queries ask about all cells, and those cannot be listed"
        )
    asked = Workload.parse(workload) if isinstance(workload, str) else workload
    if asked is not None and not isinstance(asked, Workload):
        raise DeclarationError(
            f"workload must be a Workload or its text, got {type(workload).__name__}; a matrix is sh.Workload(matrix)"
        )
    check_noise(declaration.noise)
    taken = [name for name in declaration.key if name in _COLUMNS]
    if taken:
        raise DeclarationError(
            f"a key column is called {taken[0]!r}, as releases of workloads call theirs: rename it"
        )
    steps = None if post_processing is None else checked_steps(post_processing)
    if asked is not None:
        numbers = list(map(numbers_of, key_domains(declaration.domain), declaration.key))
        asked = with_cells(asked.with_names(declaration.key), numbers).for_domain(column_sizes(declaration.domain))
        check_possible(asked, steps or ())
    return WorkloadRequest(
        checked_name("release", name),
        asked,
        strategy.name if isinstance(strategy, Strategy) else strategy,
        None if level is None else as_level(level),
        steps,
    )


def existing(
    state: State, record: SeriesRecord, files: SeriesFiles, declaration: Declaration, request: WorkloadRequest
) -> Published | None:
    """The release of that name, made again from the state; None if there is none.

    Raises:
        NameTakenError: If it was asked for with other parameters, or is one of cells.
        NotFoundError: If there is none, and no workload or no level to make one.
    """
    found = _release_named(state, record, request.name)
    if found is None:
        if request.level is None or request.workload is None:
            raise NotFoundError(
                f"the series {record.name!r} has no release {request.name!r}; give a workload and level= to make one"
            )
        return None
    path, made = found
    if path.kind != "workload":
        raise NameTakenError(
            f"{request.name!r} is a release of the cells of {record.name!r}, not of a workload; "
            "release gives it again"
        )
    stored = {**made.request, "strategy": path.strategy}
    asked = request.as_json()
    free = (None, AUTO)
    differing = [f"{field}={stored[field]!r}" for field in asked if asked[field] not in (*free, stored[field])]
    if differing:
        raise NameTakenError(
            f"the release {request.name!r} of {record.name!r} was made with {', '.join(differing)}; "
            "use another name for another request"
        )
    workload, strategy = _opened(record, path, request.workload)
    noise = state.noise(path.path_id, made.level, _state_size(strategy, declaration))
    return _published(declaration, files, workload, strategy, noise, made.metadata), dict(made.metadata)


def release(
    state: State,
    record: SeriesRecord,
    files: SeriesFiles,
    declaration: Declaration,
    request: WorkloadRequest,
    *,
    who: str | None,
    rng: np.random.Generator,
) -> Published:
    """Draw the state of a level, commit it, and only then make what is published."""
    assert request.level is not None and request.workload is not None
    path, level = _path_for(record, declaration, request, rng=rng), request.level
    workload, strategy = path.workload, path.strategy
    family = family_for(declaration.noise, strategy, declaration.max_keys)
    path_id = None if path.record is None else path.record.path_id
    earlier = None if path_id is None else state.releases(path_id)[0].metadata
    metadata = _public_parameters(declaration, family, strategy, request, earlier)
    check_spending(
        state, record, declaration, path_id=path_id, level=level, family=declaration.noise, name=request.name,
        numerical_slack=metadata["numerical_slack"], who=who,
    )  # fmt: skip
    spent = set() if path_id is None else set(state.levels(path_id))
    size = _state_size(strategy, declaration)
    neighbours = {at: state.noise(path_id, at, size) for at in adjacent(spent, level)} if path_id is not None else {}
    metadata |= {
        "store": state.store_id,
        "round": secrets.token_hex(8),
        "released_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "generation": state.generation + 1,
    }
    noise = neighbours[level] if level in spent else next_state(family, strategy, neighbours, level, rng=rng)
    attached = [] if path_id is not None else list(workload.attachments().values())
    state.commit_round(
        NewRound(
            path_id=_new_path(record, declaration, path, family) if path_id is None else path_id,
            name=request.name,
            level=level,
            request=request.as_json() | {"post_processing": metadata["post_processing"]},
            metadata=metadata,
            level_noise=None if level in spent else noise,
            attachments=[state.write_attachment(record, ".bin", content) for content in attached],
            who=who,
        )
    )
    return _published(declaration, files, workload, strategy, noise, metadata), metadata


def _release_named(state: State, record: SeriesRecord, name: str) -> tuple[PathRecord, ReleaseRecord] | None:
    for path in record.paths:
        for made in state.releases(path.path_id):
            if made.name == name:
                return path, made
    return None


def _path_for(
    record: SeriesRecord, declaration: Declaration, request: WorkloadRequest, *, rng: np.random.Generator
) -> _Path:
    """The path of this workload and strategy; `auto` keeps to the one that was chosen before."""
    workload = request.workload
    assert workload is not None
    strategy = None if request.strategy == AUTO else strategy_named(request.strategy, workload)
    for path in record.paths:
        same = path.kind == "workload" and path.workload == str(workload)
        if same and (strategy is None or path.strategy == strategy.name):
            return _Path(path, workload, strategy_named(str(path.strategy), workload))
    if strategy is None:
        strategy = chosen_strategy(declaration, workload)
    strategy.check(rng=rng, probes=3 if workload.n_cells < _LONG else 1)
    return _Path(None, workload, strategy)


def _opened(record: SeriesRecord, path: PathRecord, given: Workload | None) -> tuple[Workload, Strategy]:
    """What a stored path answers, and how; a given workload is the stored one, its text says so."""
    workload = given
    if workload is None:
        content = {file.digest: (record.directory / file.name).read_bytes() for file in path.files}
        workload = Workload.parse(str(path.workload), attachments=content)
    return workload, strategy_named(str(path.strategy), workload)


def _new_path(record: SeriesRecord, declaration: Declaration, path: _Path, family: Family) -> NewPath:
    return NewPath(
        kind="workload",
        series_id=record.series_id,
        workload=str(path.workload),
        strategy=path.strategy.name,
        family=declaration.noise,
        integer_noise=family.integer,
        cap=None if declaration.cap is None else level_text(declaration.cap),
    )


def _state_size(strategy: Strategy, declaration: Declaration) -> int:
    return strategy.state_size if declaration.noise == "gaussian" else strategy.n_noise


def _public_parameters(
    declaration: Declaration,
    family: Family,
    strategy: Strategy,
    request: WorkloadRequest,
    earlier: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Everything about a release that is known before anything is drawn; `earlier` is of the same path."""
    assert request.level is not None
    workload, level = strategy.workload, request.level
    sensitivity = strategy.sensitivity(declaration.max_keys)
    noise_std = family.std(level)
    least, mean = _variances(strategy) if earlier is None else _variances_known(earlier)
    std = noise_std * math.sqrt(least)
    by_cell = cell_grid(strategy, noise_std)
    added = (std,) if by_cell is None else (std, noise_std)  # what counts get: the noise of a cell, too
    if std < 2.0**-8 or max(added) > _LARGEST_STD:
        raise LevelError(
            f"level {level_text(level)} gives answers a standard deviation of {std:.3g} counts, at {noise_std:.3g} a "
            "unit of noise; "
            f"answers and noise share one grid only where that is from {2.0**-8:.3g} to {_LARGEST_STD:.3g}"
        )
    return {
        "kind": "workload",
        "series": declaration.name,
        "name": request.name,
        "population": declaration.population,
        "workload": str(workload),
        "strategy": strategy.name,
        "queries": str(workload.n_queries),
        "level": level_text(level),
        "noise": declaration.noise,
        "noise_std": noise_std,
        "std": noise_std * math.sqrt(mean),
        "least_std": std,
        "sensitivity": sensitivity.l2 if declaration.noise == "gaussian" else sensitivity.l1,
        "sensitivity_lower": sensitivity.l2_lower if declaration.noise == "gaussian" else None,
        "grid": grid_step(std),
        "cell_grid": by_cell,
        "measured_grid": measured_grid(
            strategy, sensitivity.l2 if declaration.noise == "gaussian" else sensitivity.l1
        ),
        "threshold": None,
        "numerical_slack": dense_slack(
            family,
            level,
            strategy.n_noise,
            workload.n_queries if workload.explicit else workload.n_cells,
            noise_std * math.sqrt(mean),
            grid_step(std),
        ),
        "post_processing": list(request.post_processing or ()),
        "guarantee": family.statement(level),
        "neighbours": NEIGHBOURS,
        "max_keys": declaration.max_keys,
        "key": list(declaration.key),
        "domain": declaration.domain.describe(),
        "domain_size": str(declaration.domain.size),
        "cap": None if declaration.cap is None else level_text(declaration.cap),
        **declaration.remarks,
    }


def _variances(strategy: Strategy) -> tuple[float, float]:
    """The least variance of a query that asks anything, and the mean over all queries, for Z of variance 1."""
    if not strategy.workload.explicit:
        ends = (0, strategy.workload.n_cells // 2)  # a column is scaled least in the middle and most at its ends
        return min(strategy.range_variance(i, i) for i in ends), strategy.mean_variance()
    variance = strategy.query_variance()
    asking = variance[variance > 0]
    if not asking.size:
        raise DeclarationError(f"{strategy.workload.describe()} asks nothing: its matrix is zero")
    check_spread(strategy, float(asking.min()), float(asking.max()))
    return float(asking.min()), float(variance.mean())


def _variances_known(earlier: Mapping[str, Any]) -> tuple[float, float]:
    """The same from a release of the path: they depend on its strategy alone."""
    least, mean = (float(earlier[name]) / float(earlier["noise_std"]) for name in ("least_std", "std"))
    return least**2, mean**2


def _published(
    declaration: Declaration,
    files: SeriesFiles,
    workload: Workload,
    strategy: Strategy,
    noise: NoiseArray,
    metadata: Mapping[str, Any],
) -> pl.DataFrame:
    """The frame of a release: a row a query, or a row a cell where queries are not listed."""
    cells = cells_of(files, declaration.domain)
    family = family_for(declaration.noise, strategy, declaration.max_keys)
    grid, steps = float(metadata["grid"]), tuple(metadata["post_processing"])
    if not workload.explicit:
        counts = noisy_cells(family, strategy, noise, cells, grid=grid)
        keys = declaration.domain.keys(np.arange(workload.n_cells, dtype=np.int64))
        noisy = pl.Series("noisy_count", post_process_cells(counts, steps))
        return keys.rename({"key_0": declaration.key[0]}).with_columns(noisy)
    # A release made before noise was rounded cell by cell stays what it was.
    by_cell, measured = metadata.get("cell_grid"), metadata.get("measured_grid")
    answers = noisy_answers(family, strategy, noise, cells, grid=grid, by_cell=by_cell, measured=measured)
    std = float(metadata["noise_std"]) * np.sqrt(strategy.query_variance())
    queries = workload.queries()
    assert queries is not None
    return queries_frame(queries, declaration.domain, declaration.key).with_columns(
        pl.Series("noisy_answer", post_process(workload, answers, std, steps)), pl.Series("std", std)
    )
