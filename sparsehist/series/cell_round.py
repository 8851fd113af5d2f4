"""One release of a series: check the request, draw the round, commit it, and make what is published."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sparsehist.accounting.spending import check_spending
from sparsehist.domain import Domain, draw_free
from sparsehist.errors import NameTakenError, NotFoundError
from sparsehist.histogram import NewlyTracked, draw_round
from sparsehist.noise.family import NoiseArray
from sparsehist.series.cell_parameters import public_parameters
from sparsehist.series.declaration import Declaration
from sparsehist.series.published_rows import published_frame, shown_cells
from sparsehist.series.request import Request
from sparsehist.store import NewRound, ReleaseRecord, SeriesFiles, SeriesRecord, State, Tracked

Published = tuple[pl.DataFrame, dict[str, Any]]


def existing(
    state: State, record: SeriesRecord, files: SeriesFiles, declaration: Declaration, request: Request
) -> Published | None:
    """The release of that name, made again from the state; None if there is none.

    Raises:
        NameTakenError: If it was asked for with other parameters, or is one of a workload.
        NotFoundError: If there is none and no level to make one at.
    """
    made = next((known for known in state.releases(record.path_id) if known.name == request.name), None)
    if made is None:
        others = (known for path in record.paths[1:] for known in state.releases(path.path_id))
        if any(known.name == request.name for known in others):
            raise NameTakenError(
                f"{request.name!r} is a release of a workload of {record.name!r}, not of its cells; "
                "release_workload gives it again"
            )
        if request.level is None:
            raise NotFoundError(
                f"the series {record.name!r} has no release {request.name!r}; give level= to make one"
            )
        return None
    differing = request.differs(made.request)
    if differing:
        raise NameTakenError(
            f"the release {request.name!r} of {record.name!r} was made with {', '.join(differing)}; "
            "use another name for another request"
        )
    tracked = state.tracked(record.path_id)
    noise = state.noise(record.path_id, made.level, tracked.position.size)
    grid = None if declaration.family.integer else made.metadata["grid"]
    shown = shown_cells(tracked, noise, made.threshold, grid)
    frame = published_frame(declaration, files, _empty_keys(state, record, tracked, declaration), shown)
    return frame, dict(made.metadata)


def release(
    state: State,
    record: SeriesRecord,
    files: SeriesFiles,
    declaration: Declaration,
    request: Request,
    max_false_keys: float,
    *,
    who: str | None = None,
    rng: np.random.Generator,
) -> Published:
    """Draw a round, commit it, and only then make what is published."""
    assert request.level is not None
    family, level = declaration.family, request.level
    made = state.releases(record.path_id)
    metadata = public_parameters(declaration, request, made, max_false_keys)
    check_spending(
        state, record, declaration, path_id=record.path_id, level=level, family=declaration.noise, name=request.name,
        delta_infinity=metadata.get("delta_infinity") or 0.0, numerical_slack=metadata["numerical_slack"], who=who,
    )  # fmt: skip
    # Before anything is drawn: how long drawing takes depends on secrets, and so would the time after it.
    metadata |= {
        "store": state.store_id,
        "round": secrets.token_hex(8),
        "released_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "generation": state.generation + 1,
    }
    threshold: float = metadata["effective_threshold"]
    tracked = state.tracked(record.path_id)
    n_tracked = tracked.position.size
    spent = {known.level for known in made}
    neighbours = {at: state.noise(record.path_id, at, n_tracked) for at in adjacent(spent, level)}
    counts, sizes = untracked_groups(files, tracked, declaration.domain)
    drawn = draw_round(
        family,
        [(known.level, known.threshold) for known in made],
        level,
        threshold,
        neighbours=neighbours,
        n_tracked=n_tracked,
        n_untracked=sizes,
        counts=counts,
        rng=rng,
    )
    positions, new_counts = assign_cells(files, tracked, drawn.new, counts)
    new_noise = drawn.new.values
    known_empties = _empty_keys(state, record, tracked, declaration)
    empties = _draw_empty_keys(
        declaration.domain, files, known_empties, int(np.count_nonzero(positions < 0)), rng=rng
    )
    state.commit_round(
        NewRound(
            path_id=record.path_id,
            name=request.name,
            level=level,
            request=request.as_json()
            | {asked: metadata.get(asked) for asked in ("threshold", "false_keys", "delta_share")},
            threshold=threshold,
            metadata=metadata,
            level_noise=None if level in spent else drawn.tracked,
            positions=positions,
            counts=new_counts,
            empty_keys=empties,
            paths=_paths(made, level, drawn.new),
            who=who,
        )
    )
    noise = drawn.tracked
    del drawn, neighbours
    if positions.size:
        tracked = Tracked(np.append(tracked.position, positions), np.append(tracked.count, new_counts))
        noise = np.append(noise, new_noise)
    shown = shown_cells(tracked, noise, threshold, None if family.integer else metadata["grid"])
    del tracked, noise  # before the rows take their place
    return published_frame(declaration, files, pl.concat([known_empties, empties]), shown), metadata


def adjacent(spent: set[Fraction], level: Fraction) -> list[Fraction]:
    """The level itself if it was spent, else its nearest coarser and finer ones."""
    if level in spent:
        return [level]
    coarser = max((known for known in spent if known < level), default=None)
    finer = min((known for known in spent if known > level), default=None)
    return [known for known in (coarser, finer) if known is not None]


def untracked_groups(files: SeriesFiles, tracked: Tracked, domain: Domain) -> tuple[NDArray[np.int64], list[int]]:
    """Counts and sizes of the groups of untracked cells; the empty ones (none if open) come first."""
    count, start, size = files.groups
    nonzero = tracked.position[tracked.position >= 0]
    taken = np.bincount(np.searchsorted(start, nonzero, side="right") - 1, minlength=count.size)
    empty = 0 if domain.is_open else domain.size - files.n_nonzero - (tracked.position.size - nonzero.size)
    left = size - taken
    open_groups = np.flatnonzero(left)
    return np.append(0, count[open_groups]), [empty, *left[open_groups].tolist()]


def assign_cells(
    files: SeriesFiles, tracked: Tracked, new: NewlyTracked, counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions and counts of the cells that become tracked: the next ones of each group, -1 for empty cells.

    Within a group the file holds the cells in uniformly random order and the tracked ones are a prefix, so
    the next ones are a uniform choice.
    """
    count, start, _ = files.groups
    of_group = counts[new.group]
    file_group = np.searchsorted(count, of_group)
    nonzero = tracked.position[tracked.position >= 0]
    taken = np.bincount(np.searchsorted(start, nonzero, side="right") - 1, minlength=count.size)
    first = np.searchsorted(new.group, new.group, side="left")
    rank = np.arange(new.group.size) - first
    inside = of_group > 0
    positions = np.full(new.group.size, -1, np.int64)
    chosen = file_group[inside]
    positions[inside] = start[chosen] + taken[chosen] + rank[inside]
    return positions, of_group


def _draw_empty_keys(
    domain: Domain, files: SeriesFiles, known: pl.DataFrame, n: int, *, rng: np.random.Generator
) -> pl.DataFrame:
    """Keys for empty cells that become tracked: uniform among those neither counted nor tracked."""
    if n == 0:
        return known.clear()

    def taken(keys: pl.DataFrame) -> NDArray[np.bool_]:
        tracked_empty = _is_in(keys, known) if known.height else np.zeros(keys.height, bool)
        return files.contains(keys) | tracked_empty

    return draw_free(
        domain,
        n,
        n_taken=files.n_nonzero + known.height,
        taken=taken,
        taken_keys=lambda: pl.concat([files.all_keys(), known]),
        rng=rng,
    )


def _empty_keys(state: State, record: SeriesRecord, tracked: Tracked, declaration: Declaration) -> pl.DataFrame:
    """Keys of the tracked empty cells, by cell number."""
    if (tracked.position < 0).any():
        return state.empty_keys(record.path_id).drop("cell")
    dtypes = declaration.domain.dtypes
    return pl.DataFrame(schema={f"key_{i}": dtype for i, dtype in enumerate(dtypes)})


def _is_in(keys: pl.DataFrame, among: pl.DataFrame) -> NDArray[np.bool_]:
    marked = among.with_columns(pl.lit(value=True).alias("known")).unique(among.columns)
    joined = keys.join(marked, on=among.columns, how="left", maintain_order="left")
    return joined["known"].fill_null(value=False).to_numpy()


def _paths(made: list[ReleaseRecord], level: Fraction, new: NewlyTracked) -> dict[Fraction, NoiseArray]:
    """Noise of the new cells at every level of the path."""
    paths = {known.level: new.paths[:, i] for i, known in enumerate(made)}
    paths[level] = new.values
    return paths
