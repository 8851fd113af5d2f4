"""The pipeline of every release: find it, or check, fix the public parameters, draw, commit and then publish.

Two classes differ between kinds of releases (cells, workloads, running counts, …): a `Request` holds the caller's
parameters, a `NoisePath` draws and reads one noise path of a series.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sparsehist.declaration import Declaration
from sparsehist.domain.base import key_names
from sparsehist.errors import NameTakenError, NotFoundError, StoreError, present
from sparsehist.ledger.ledger import check_release
from sparsehist.ledger.spent import PathName
from sparsehist.privacy.levels import in_prose
from sparsehist.release.home import Home
from sparsehist.release.metadata import Metadata, Request, read_metadata
from sparsehist.release.spending import ledger_for, of_all_periods, prepared
from sparsehist.store import NewRound, PathRecord, ReleaseRecord, SeriesRecord, State, Tracked

if TYPE_CHECKING:
    import polars as pl

    from sparsehist.release.releases import Release, WorkloadRelease
    from sparsehist.store.series_files import SeriesFiles

AUTO = "auto"


@dataclass(frozen=True, repr=False)
class Held:
    """A series of a store that is held: all that a release reads and changes."""

    home: Home
    state: State
    record: SeriesRecord
    declaration: Declaration

    @cached_property
    def files(self) -> SeriesFiles:
        """Counts and keys, where the log was counted once."""
        return self.state.series_files(self.record)

    def empty_keys(self, path_id: int | None, tracked: Tracked) -> pl.DataFrame:
        """Keys of the tracked empty cells of a path, by cell number."""
        if path_id is not None and (tracked.position < 0).any():
            return self.state.empty_keys(path_id)
        import polars as pl

        domain = self.declaration.domain
        return pl.DataFrame(schema=dict(zip(key_names(domain.columns), domain.dtypes, strict=True)))

    def new_round(
        self,
        path: NoisePath,
        request: Request,
        metadata: Metadata,
        *,
        stored: dict[str, Any] | None = None,
        **drawn: Any,
    ) -> NewRound:
        """Describe a round to commit, which opens its path if it is the first."""
        path_id: int | PathRecord | None = path.path_id
        if path_id is None:
            integer = drawn["level_noise"].dtype.kind == "i"
            path_id = PathRecord(self.record.series_id, *path.name, integer)
        said = (stored or request.as_json(), metadata.as_dict())
        return NewRound(path_id, request.name, present(request.level), *said, **drawn, who=self.home.who)


def path_named(state: State, record: SeriesRecord, name: PathName) -> PathRecord | None:
    """Return the noise path of a series with this name in the ledger, if it is open."""
    paths = (path for path in state.paths(record) if (path.kind, path.workload, path.strategy) == name)
    return next(paths, None)


class NoisePath(Protocol):
    """A noise path of a series: opened before, or to be opened by the round that is about to be drawn."""

    @property
    def path_id(self) -> int | None:
        """In the store; None before the first round."""

    @property
    def name(self) -> PathName:
        """In the ledger."""

    def metadata(self, request: Any) -> Metadata:
        """Return the public metadata of a release, without the guarantee; refuses an impossible request."""

    def statement(self, request: Any, metadata: Any) -> str:
        """Its guarantee in words."""

    def draw(self, request: Any, metadata: Any, *, rng: np.random.Generator) -> NewRound:
        """Draw the round that is to be committed."""

    def rows(self, level: Fraction, metadata: Any) -> pl.DataFrame:
        """Return the rows of a release that is committed."""


def published(state: State, record: SeriesRecord) -> list[ReleaseRecord]:
    """Return the releases of a series, in order, without the answers of its sessions of queries."""
    return [release for release in state.series_releases(record) if ANSWER not in release.name]


def published_metadata(state: State, record: SeriesRecord) -> list[Metadata]:
    """Return the metadata of the releases of a series, in order."""
    return [read_metadata(release.metadata) for release in published(state, record)]


RELEASES = {
    **dict.fromkeys(("name", "workload", "level"), str),
    **dict.fromkeys(("std", "threshold", "expected_false_keys"), float),
    "released_at": str,
}
"""Columns of a table of releases."""


def rows_of_releases(state: State, record: SeriesRecord) -> list[dict[str, Any]]:
    """Return the releases of a series in order, as rows of `RELEASES`."""
    made = [release.metadata for release in published(state, record)]
    return [{name: about.get(name) for name in RELEASES} for about in made]


Opener = Callable[[Held, Any, PathRecord | None], NoisePath]
"""Finds the path of the release that exists, or the one that a new release, of such a request, is drawn on."""

_KINDS = {"cells": "its cells", "workload": "a workload", "interactive": "interactive queries"}
ANSWER = "/"
"""Stands between the name of a session of queries and the number of an answer; names of releases have none."""


def release(held: Held, request: Request, open_path: Opener) -> Release | WorkloadRelease:
    """Give the release of that name, or make it: the store is locked once for all of it."""
    from sparsehist.release.releases import release_of  # and with it Polars

    state, record, declaration = held.state, held.record, held.declaration
    found = find(state, record, request)
    if found is not None:
        known, made = found
        committed = read_metadata(made.metadata)
        rows = open_path(held, request, known).rows(made.level, committed)
        return release_of(held.home, state.publications, rows, committed, repeated=True)
    if not request.complete:
        raise NotFoundError(
            f"the series {record.name!r} has no release {request.name!r}; give {request.needs} to make one"
        )
    path = open_path(held, request, None)
    ledger = ledger_for(state, record, declaration, whole=request.goal is not None)
    request, metadata, spends = prepared(ledger, record.series_id, declaration, path.name, request, path.metadata)
    check_release(state, ledger, *spends, path_id=path.path_id, name=request.name, who=held.home.who)
    # Only after all checks, since computing the guarantee may take longer than they do.
    periods, of_periods = of_all_periods(ledger, declaration, spends)
    about = metadata.declaration  # whose source is that of the steps released, where there are some
    told = (_guarantee(path, request, metadata), periods, about.rests_on, about.neighbours)
    # Read the clock before drawing, because the duration of drawing depends on secrets.
    metadata = replace(
        metadata,
        guarantee="; ".join(filter(None, told)),
        **of_periods,
        epsilon_delta=None if request.goal is None else request.goal.text,
        store=state.store_id,
        round=secrets.token_hex(8),
        released_at=datetime.now(UTC).isoformat(timespec="seconds"),
        generation=state.generation + 1,
    )
    state.commit_round(path.draw(request, metadata, rng=held.home.generator()))
    try:
        rows = path.rows(spends[0].level, metadata)
    except StoreError as error:
        spent = f"the release {request.name!r} is committed and spent: asked for again then, it gives its rows"
        raise type(error)(f"{error}; {spent}") from None
    return release_of(held.home, state.publications, rows, metadata)


def _guarantee(path: NoisePath, request: Request, metadata: Metadata) -> str:
    """Return the guarantee of a release at its level, and the (epsilon, delta) that was asked for."""
    if request.goal is None:
        return path.statement(request, metadata)
    # Rounded up, the level states a weaker guarantee, which still holds; other laws name their parameters.
    level = present(request.level)
    rounded = in_prose(level) if metadata.declaration.family.currency != "none" else level
    counts = " of the counts" if request.beside else ""
    stated = path.statement(replace(request, level=rounded), metadata)
    return f"{request.goal.in_words} was asked for{counts}: {stated}"


def adjacent(spent: set[Fraction], level: Fraction) -> list[Fraction]:
    """Return the level itself if it was spent, else its nearest coarser and finer ones."""
    if level in spent:
        return [level]
    coarser = max((known for known in spent if known < level), default=None)
    finer = min((known for known in spent if known > level), default=None)
    return [known for known in (coarser, finer) if known is not None]


def find(state: State, record: SeriesRecord, request: Request) -> tuple[PathRecord, ReleaseRecord] | None:
    """Return the release that was asked for and its noise path, if it was made."""
    made = state.release_named(record, request.name)
    if made is None:
        return None
    path = next(path for path in record.paths if path.path_id == made.path_id)
    if path.kind != request.kind:
        raise NameTakenError(
            f"{request.name!r} is a release of {_KINDS[path.kind]} of {record.name!r}, not of {_KINDS[request.kind]}"
        )
    stored = made.request
    differing = [name for name, value in request.as_json().items() if value not in (None, AUTO, stored.get(name))]
    if differing:
        told = (f"no {name}" if stored.get(name) is None else f"{name}={stored[name]!r}" for name in differing)
        raise NameTakenError(
            f"the release {request.name!r} of {record.name!r} was made with {', '.join(told)}; "
            "use another name for another request"
        )
    return path, made


def kind_of(held: Held, name: str) -> str | None:
    """Return the kind of the noise path of a release; None if there is no release of that name."""
    made = held.state.release_named(held.record, name)
    return next((path.kind for path in held.record.paths if made and path.path_id == made.path_id), None)
