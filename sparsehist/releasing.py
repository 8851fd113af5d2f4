"""One release of a series: check the request, draw the round, commit it, and make what is published."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sparsehist.declaration import Declaration, checked_name
from sparsehist.domain import Domain, draw_free
from sparsehist.errors import (
    CapExceededError,
    DeclarationError,
    LevelError,
    NameTakenError,
    NotFoundError,
    ThresholdError,
)
from sparsehist.histogram import (
    draw_round,
    effective_threshold,
    expected_false_keys,
    grid_step,
    numerical_slack,
    round_to_grid,
    threshold_for_false_keys,
)
from sparsehist.histogram.exceeding import Exceeding
from sparsehist.noise import Family
from sparsehist.noise.family import NoiseArray, noise_mean
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.store import NewRound, ReleaseRecord, SeriesFiles, SeriesRecord, State, Tracked

Published = tuple[pl.DataFrame, dict[str, Any]]
_LAZILY = "each group of equal count within numerical_slack"
_NEIGHBOURS = "logs that differ by all rows of one unit"
# The grid is 2**-10 of the standard deviation. Beyond these a count and its noise on the grid do not fit into the 53
# bits of a double, and rounding would tell counts apart.
LARGEST_COUNT = 2**34
_LEAST_STD, _LARGEST_STD = 2.0**-8, 2.0**32
_LARGEST_THRESHOLD = 2.0**48
# Half of what a round can draw at all, so that no refusal ever depends on the counts.
_MOST_FALSE_KEYS = 2.0**30


@dataclass(frozen=True)
class Request:
    """What a caller asked of a release."""

    name: str
    level: Fraction | None
    threshold: float | None
    false_keys: float | None

    def differs(self, made: Mapping[str, Any]) -> list[str]:
        """What of this request is not what the release of that name was asked for."""
        asked = self.as_json()
        differing = [field for field in asked if asked[field] not in (None, made[field])]
        return [f"no {field}" if made[field] is None else f"{field}={made[field]!r}" for field in differing]

    def as_json(self) -> dict[str, Any]:
        """The request as it is stored; levels as exact text."""
        level = None if self.level is None else level_text(self.level)
        return {"level": level, "threshold": self.threshold, "false_keys": self.false_keys}


def requested(name: str, *, level: Level | None, threshold: float | None, false_keys: float | None) -> Request:
    """Check what can be checked without a store.

    Raises:
        DeclarationError: If a parameter is wrong; the message carries its value.
    """
    if threshold is not None and false_keys is not None:
        raise DeclarationError("give threshold= or false_keys=, not both")
    return Request(
        checked_name("release", name),
        None if level is None else as_level(level),
        None if threshold is None else _checked_threshold(threshold),
        None if false_keys is None else _finite("false_keys", false_keys),
    )


def existing(
    state: State, record: SeriesRecord, files: SeriesFiles, declaration: Declaration, request: Request
) -> Published | None:
    """The release of that name, made again from the state; None if there is none.

    Raises:
        NameTakenError: If it was asked for with other parameters.
        NotFoundError: If there is none and no level to make one at.
    """
    made = next((known for known in state.releases(record.path_id) if known.name == request.name), None)
    if made is None:
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
    frame = published_frame(
        declaration,
        files,
        tracked,
        _empty_keys(state, record, tracked, declaration),
        noise,
        made.metadata,
        made.threshold,
    )
    return frame, dict(made.metadata)


def release(
    state: State,
    record: SeriesRecord,
    files: SeriesFiles,
    declaration: Declaration,
    request: Request,
    max_false_keys: float,
    *,
    rng: np.random.Generator,
) -> Published:
    """Draw a round, commit it, and only then make what is published."""
    assert request.level is not None
    family, level = declaration.family, request.level
    _check_cap(declaration, level)
    metadata = _public_parameters(declaration, family, request, max_false_keys)
    threshold: float = metadata["effective_threshold"]
    made = state.releases(record.path_id)
    tracked = state.tracked(record.path_id)
    n_tracked = tracked.position.size
    spent = {known.level for known in made}
    neighbours = {at: state.noise(record.path_id, at, n_tracked) for at in adjacent(spent, level)}
    counts, sizes = untracked_groups(files, tracked, declaration.domain.size)
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
    known_empties = _empty_keys(state, record, tracked, declaration)
    empties = _draw_empty_keys(
        declaration.domain, files, known_empties, int(np.count_nonzero(positions < 0)), rng=rng
    )
    metadata |= {
        "store": state.store_id,
        "round": secrets.token_hex(8),
        "released_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "generation": state.generation + 1,
    }
    state.commit_round(
        NewRound(
            path_id=record.path_id,
            name=request.name,
            level=level,
            request={**request.as_json(), "threshold": metadata["threshold"], "false_keys": metadata["false_keys"]},
            threshold=threshold,
            metadata=metadata,
            level_noise=None if level in spent else drawn.tracked,
            positions=positions,
            counts=new_counts,
            empty_keys=empties,
            paths=_paths(made, level, drawn.new),
        )
    )
    everything = Tracked(np.append(tracked.position, positions), np.append(tracked.count, new_counts))
    noise = np.append(drawn.tracked, drawn.new.values)
    all_empties = pl.concat([known_empties, empties])
    return published_frame(declaration, files, everything, all_empties, noise, metadata, threshold), metadata


def adjacent(spent: set[Fraction], level: Fraction) -> list[Fraction]:
    """The level itself if it was spent, else its nearest coarser and finer ones."""
    if level in spent:
        return [level]
    coarser = max((known for known in spent if known < level), default=None)
    finer = min((known for known in spent if known > level), default=None)
    return [known for known in (coarser, finer) if known is not None]


def untracked_groups(files: SeriesFiles, tracked: Tracked, domain_size: int) -> tuple[NDArray[np.int64], list[int]]:
    """Counts and sizes of the groups of cells never published; the empty cells come first."""
    count, start, size = files.groups
    nonzero = tracked.position[tracked.position >= 0]
    taken = np.bincount(np.searchsorted(start, nonzero, side="right") - 1, minlength=count.size)
    empty = domain_size - files.n_nonzero - (tracked.position.size - nonzero.size)
    left = size - taken
    open_groups = np.flatnonzero(left)
    return np.append(0, count[open_groups]), [empty, *left[open_groups].tolist()]


def assign_cells(
    files: SeriesFiles, tracked: Tracked, new: Exceeding, counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions and counts of the newly exceeding cells: the next ones of each group, -1 for empty cells.

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


def published_frame(
    declaration: Declaration,
    files: SeriesFiles,
    tracked: Tracked,
    empty_keys: pl.DataFrame,
    noise: NoiseArray,
    metadata: Mapping[str, Any],
    threshold: float,
) -> pl.DataFrame:
    """The rows of a release: every tracked cell above the threshold, largest first, then by key."""
    above = noise > threshold - tracked.count
    position, count, shown = tracked.position[above], tracked.count[above], noise[above]
    rounded = shown if declaration.family.integer else round_to_grid(shown, metadata["grid"])
    from_file = position >= 0
    empty_above = above[tracked.position < 0]
    keys = pl.concat([files.keys(position[from_file]), empty_keys.filter(pl.Series(empty_above))])
    noisy = np.concatenate([(count + rounded)[from_file], (count + rounded)[~from_file]])
    names = dict(zip(keys.columns, declaration.key, strict=True))
    frame = keys.rename(names).with_columns(pl.Series("noisy_count", noisy))
    ordered = frame.select(*declaration.key, "noisy_count")[_order(frame, list(declaration.key))]
    return _in_own_buffers(ordered)


def _order(frame: pl.DataFrame, keys: list[str]) -> NDArray[np.int64]:
    """Rows by noisy count, largest first, then by key; keys are compared only where counts are equal."""
    noisy = frame["noisy_count"].to_numpy()
    order = np.argsort(-noisy, kind="stable")
    falling = noisy[order]
    same_as_next = np.append(falling[1:] == falling[:-1], False) if falling.size else np.empty(0, bool)
    tied = np.flatnonzero(same_as_next | np.roll(same_as_next, 1))
    if tied.size:
        by = pl.arg_sort_by("noisy_count", *keys, descending=[True] + [False] * len(keys))
        order[tied] = order[tied][frame[order[tied]].select(by).to_series().to_numpy()]
    return order


def _in_own_buffers(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows in fresh memory, strings laid out in row order.

    Polars strings are views into the buffers they were read from: those hold keys that are not published, and
    lie in the order of the counts file, which is that of the true counts.
    """
    return pl.DataFrame(pl.from_arrow(frame.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())))


def _check_cap(declaration: Declaration, level: Fraction) -> None:
    if declaration.cap is not None and level > declaration.cap:
        requested_text, cap = level_text(level), level_text(declaration.cap)
        raise CapExceededError(
            f"requested level {requested_text}, cap of the series {cap}, "
            f"difference {level_text(level - declaration.cap)}; nothing was spent"
        )


def _public_parameters(
    declaration: Declaration, family: Family, request: Request, max_false_keys: float
) -> dict[str, Any]:
    """Everything about a release that is known before anything is drawn."""
    assert request.level is not None
    size, level = declaration.domain.size, request.level
    std = family.std(level)
    if not _LEAST_STD <= std <= _LARGEST_STD:
        raise LevelError(
            f"level {level_text(level)} is too {'fine' if std < _LEAST_STD else 'coarse'} at "
            f"max_keys={declaration.max_keys}: the standard deviation of its noise is {std:.3g} counts, and counts "
            f"and noise share one grid only where that is from {_LEAST_STD:.3g} to {_LARGEST_STD:.3g}"
        )
    false_keys, threshold = request.false_keys, request.threshold
    if threshold is None:
        false_keys = 1.0 if false_keys is None else false_keys
        threshold = threshold_for_false_keys(family, level, size, false_keys)
    step = 1.0 if family.integer else grid_step(std)
    effective = effective_threshold(threshold, step)
    expected = expected_false_keys(family, level, effective, size)
    if not 0 < _finite("max_false_keys", max_false_keys) <= _MOST_FALSE_KEYS:
        raise DeclarationError(
            f"max_false_keys must be above 0 and at most {_MOST_FALSE_KEYS:.3g}, got {max_false_keys!r}"
        )
    if expected > max_false_keys:
        enough = threshold_for_false_keys(family, level, size, max_false_keys)
        raise ThresholdError(
            f"threshold {threshold!r} would publish about {expected:.3g} empty cells of the domain's {size}; "
            f"the limit is max_false_keys={max_false_keys:.3g}, which a threshold of {enough!r} keeps"
        )
    return {
        "series": declaration.name,
        "name": request.name,
        "population": declaration.population,
        "level": level_text(level),
        "noise": declaration.noise,
        "std": std,
        "noise_mean": noise_mean(family, level),
        "threshold": threshold,
        "false_keys": false_keys,
        "expected_false_keys": expected,
        "grid": step,
        "effective_threshold": effective,
        "numerical_slack": numerical_slack(family, level, effective, size),
        "guarantee": f"{family.statement(level)}; cells are drawn lazily, {_LAZILY}",
        "neighbours": _NEIGHBOURS,
        "max_keys": declaration.max_keys,
        "key": list(declaration.key),
        "domain": declaration.domain.describe(),
        "domain_size": str(size),
        "cap": None if declaration.cap is None else level_text(declaration.cap),
    }


def _draw_empty_keys(
    domain: Domain, files: SeriesFiles, known: pl.DataFrame, n: int, *, rng: np.random.Generator
) -> pl.DataFrame:
    """Keys for newly exceeding empty cells: uniform among those neither counted nor tracked."""
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


def _paths(made: list[ReleaseRecord], level: Fraction, new: Exceeding) -> dict[Fraction, NoiseArray]:
    """Noise of the new cells at every level of the path."""
    paths = {known.level: new.paths[:, i] for i, known in enumerate(made)}
    paths[level] = new.values
    return paths


def _checked_threshold(threshold: float) -> float:
    value = _finite("threshold", threshold)
    if abs(value) > _LARGEST_THRESHOLD:
        raise ThresholdError(f"threshold must lie within {_LARGEST_THRESHOLD:.3g} counts of zero, got {threshold!r}")
    return value


def _finite(what: str, value: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool | str | bytes) or not math.isfinite(number):
        raise DeclarationError(f"{what} must be a finite number, got {value!r}")
    return number
