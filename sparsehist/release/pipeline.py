"""The pipeline of every release: return an existing one, or check, fix public parameters, draw, commit, publish.

Each kind of release (cells, workloads, running counts, …) has two classes: a `Request` holds the caller's parameters,
a `NoisePath` draws and reads one noise path of a series.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

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
    """A series in a locked store: everything that a release reads and changes."""

    home: Home
    state: State
    record: SeriesRecord
    declaration: Declaration

    @cached_property
    def files(self) -> SeriesFiles:
        """Counts and keys of a series whose log was counted once (not a running series)."""
        return self.state.series_files(self.record)

    def empty_keys(self, path_id: int | None, tracked: Tracked) -> pl.DataFrame:
        """Return the keys of the tracked empty cells of a path, by cell number."""
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
        """Return the round to be committed; it opens the path if it is the first."""
        path_id: int | PathRecord | None = path.path_id
        if path_id is None:
            integer = drawn["level_noise"].dtype.kind == "i"
            path_id = PathRecord(self.record.series_id, *path.name, integer)
        said = (stored or request.as_json(), metadata.as_dict())
        return NewRound(path_id, request.name, present(request.level), *said, **drawn, who=self.home.who)


@dataclass(frozen=True, repr=False)
class NoisePath:
    """A noise path of a series: open, or opened by its first round."""

    held: Held

    @property
    def name(self) -> PathName:
        """Name in the ledger."""
        raise NotImplementedError

    @property
    def record(self) -> PathRecord | None:
        """Record in the store; None before the first round."""
        paths = self.held.state.paths(self.held.record)
        return next((path for path in paths if path.name == self.name), None)

    @property
    def path_id(self) -> int | None:
        """Id in the store; None before the first round."""
        return None if (record := self.record) is None else record.path_id

    @property
    def spent(self) -> list[Fraction]:
        """Levels released on the path, in order."""
        return [] if (path_id := self.path_id) is None else [level for level, _ in self.held.state.past(path_id)]

    def metadata(self, request: Any) -> Metadata:
        """Return the public metadata of a release, without the guarantee; refuses an impossible request."""
        raise NotImplementedError

    def statement(self, request: Any, metadata: Any) -> str:
        """Return the guarantee of the release, in words."""
        raise NotImplementedError

    def draw(self, request: Any, metadata: Any, *, rng: np.random.Generator) -> NewRound:
        """Draw the round that is to be committed."""
        raise NotImplementedError

    def rows(self, level: Fraction, metadata: Any) -> pl.DataFrame:
        """Return the rows of a committed release."""
        raise NotImplementedError


def published(state: State, record: SeriesRecord) -> list[ReleaseRecord]:
    """Return the releases of a series, in order, except the single answers of interactive sessions."""
    return [release for release in state.releases(record) if ANSWER not in release.name]


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
"""A function that returns the noise path of an existing release, or the path to draw a new one on."""

_KINDS = {"cells": "its cells", "workload": "a workload", "interactive": "interactive queries"}
ANSWER = "/"
"""Separates the name of an interactive session from the number of an answer; release names do not contain it."""


def release(held: Held, request: Request, open_path: Opener) -> Release | WorkloadRelease:
    """Return the release of that name, or make it, under one lock of the store."""
    from sparsehist.release.releases import release_of  # imports Polars

    state, record, declaration = held.state, held.record, held.declaration
    home = None if held.home.in_memory else held.home
    found = find(state, record, request)
    if found is not None:
        known, made = found
        committed = read_metadata(made.metadata)
        rows = open_path(held, request, known).rows(made.level, committed)
        return release_of(rows, committed.as_dict(), home=home)
    if not request.complete:
        raise NotFoundError(
            f"the series {record.name!r} has no release {request.name!r}; give {request.needs} to make one"
        )
    path = open_path(held, request, None)
    ledger = ledger_for(state, record, declaration, whole=request.goal is not None)
    request, metadata, spends = prepared(ledger, record.series_id, declaration, path.name, request, path.metadata)
    check_release(state, ledger, *spends, path_id=path.path_id, name=request.name, who=held.home.who)
    # Compute the guarantee after all checks, because it may take longer than they do.
    periods, of_periods = of_all_periods(ledger, declaration, spends)
    about = metadata.declaration  # for a running series, with the source of the steps released
    told = (_guarantee(path, request, metadata), periods, about.rests_on, about.neighbours)
    # Read the clock before drawing: how long drawing takes depends on secrets.
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
        spent = f"the release {request.name!r} is committed and spent: ask for it again to get its rows"
        raise type(error)(f"{error}; {spent}") from None
    return release_of(rows, metadata.as_dict(), home=home, repeated=False)


def _guarantee(path: NoisePath, request: Request, metadata: Metadata) -> str:
    """Return the guarantee of a release at its level, with the (epsilon, delta) asked for, if any."""
    if request.goal is None:
        return path.statement(request, metadata)
    # A level rounded up states a weaker guarantee, which also holds. Noise without a currency needs the exact level.
    level = present(request.level)
    rounded = in_prose(level) if metadata.declaration.family.currency != "none" else level
    counts = " of the counts" if request.beside else ""
    stated = path.statement(replace(request, level=rounded), metadata)
    return f"{request.goal.in_words} was asked for{counts}: {stated}"


def adjacent(spent: set[Fraction], level: Fraction) -> list[Fraction]:
    """Return the level itself if it was spent, else the nearest coarser and finer spent levels."""
    if level in spent:
        return [level]
    coarser = max((known for known in spent if known < level), default=None)
    finer = min((known for known in spent if known > level), default=None)
    return [known for known in (coarser, finer) if known is not None]


def find(state: State, record: SeriesRecord, request: Request) -> tuple[PathRecord, ReleaseRecord] | None:
    """Return the existing release of this request, with its noise path; None if there is none."""
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
    """Return the kind of noise path of a release; None if no release has this name."""
    made = held.state.release_named(held.record, name)
    return next((path.kind for path in held.record.paths if made and path.path_id == made.path_id), None)
