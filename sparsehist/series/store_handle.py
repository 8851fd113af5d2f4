"""Stores and series: count, commit, draw a round, commit, publish. The only place where core and shell meet."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl

from sparsehist import entropy
from sparsehist.accounting.limits import Limits, checked_text
from sparsehist.accounting.store_accounts import StoreAccounts
from sparsehist.errors import DeclarationError, NotFoundError
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.series import cell_round
from sparsehist.series.catalogue_files import catalogue_copies
from sparsehist.series.declaration import Declaration, checked_name, from_json
from sparsehist.series.forking import refuse_in_broken_child
from sparsehist.series.memory import directory_in_memory
from sparsehist.series.planned_series import PlannedSeries
from sparsehist.series.publication import StoreOnDisk
from sparsehist.series.release import Release, read
from sparsehist.series.request import requested
from sparsehist.series.series_handle import WorkloadSeries
from sparsehist.store import (
    SeriesRecord,
    State,
    adopt,
    backup,
    create_store,
    is_store,
    open_state,
)

if TYPE_CHECKING:
    from sparsehist.sqlfront.results import SqlResult

__all__ = ["Release", "Series", "Store", "adopt", "open", "read"]

_MEMORY = ":memory:"


class Store(StoreAccounts):
    """A directory that holds series: their counts, what was released from them, and at what cost.

    Nothing is held open between calls, so a store survives forks and may be used from several threads and
    processes; a call that finds it in use waits `wait` seconds and then says so.

    Example:
        >>> import polars as pl
        >>> import sparsehist as sh
        >>> log = pl.DataFrame({"user": range(500), "url": ["/home"] * 500})
        >>> with sh.open(":memory:") as store:
        ...     _ = sh.create(store, log, name="visits", unit="user", key="url", max_keys=1,
        ...                   domain=sh.Strings(max_bytes=8))
        ...     store.series_names()
        ['visits']
    """

    def __init__(self, path: str | os.PathLike[str], *, wait: float = 0.0, seed: int | None = None) -> None:
        """Use `open` or `create` instead."""
        self.wait = _checked_wait(wait)
        if not isinstance(path, str | os.PathLike):
            raise DeclarationError(f'a store is a directory\'s path or ":memory:", got {path!r}')
        self._memory = os.fspath(path) == _MEMORY
        if seed is not None and not self._memory:
            raise DeclarationError('seed is for ":memory:" stores only: a store on disk never repeats its noise')
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0):
            raise DeclarationError(f"seed must be a whole number from 0 up, got {seed!r}")
        self._seeded = None if seed is None else entropy.seeded(seed)
        # A declaration never changes, so what was read once need not be read again.
        self._known: dict[str, SeriesRecord] = {}
        self.path = directory_in_memory(self) if self._memory else Path(path).absolute()

    def __repr__(self) -> str:
        """Where it is."""
        return f"Store({_MEMORY if self._memory else str(self.path)!r})"

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the store."""
        self.close()

    def close(self) -> None:
        """Forget a store in memory; one on disk holds nothing open."""
        if self._memory:
            shutil.rmtree(self.path.parent, ignore_errors=True)

    def series(self, name: str) -> Series:
        """Return a series by name.

        Raises:
            NotFoundError: If there is none.
        """
        if checked_name("series", name) not in self._known:
            with self.state() as state:
                self.remember(state)
                if name not in self._known:
                    raise NotFoundError(f"{self!r} holds no series {name!r}; it holds {_listed(state)}")
        record = self._known[name]
        return Series(self, record.series_id, declaration_of(record))

    def series_names(self) -> list[str]:
        """Names of the series, sorted."""
        with self.state() as state:
            return sorted(record.name for record in state.all_series())

    def sql(
        self,
        script: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        tables: Mapping[str, object] | None = None,
    ) -> SqlResult:
        """Run SQL on this store; see `sparsehist.sql`.

        Args:
            script: Statements with semicolons between them.
            parameters: Values for $name.
            tables: Frames or Arrow tables the statements see, by name.
        """
        from sparsehist.sqlfront.running import sql

        return sql(script, store=self, parameters=parameters, tables=tables)

    def drop(self, name: str, *, who: str | None = None, reason: str | None = None) -> None:
        """Erase a series: its counts, keys and noise. What it has cost stays in the ledger.

        Args:
            name: Of the series.
            who: Asks for it; the user of the operating system by default.
            reason: Kept in the ledger.

        Raises:
            NotFoundError: If there is no such series.
        """
        said = {"who": checked_text("who", who), "reason": checked_text("reason", reason)}
        with self.state() as state:
            if state.series(checked_name("series", name)) is None:
                raise NotFoundError(f"{self!r} holds no series {name!r}; it holds {_listed(state)}")
            state.drop_series(name, **said)
            self.remember(state)

    def backup(self, destination: str | os.PathLike[str]) -> None:
        """Copy the store, consistently. A copy must be adopted before use, and must not run beside this one."""
        backup(self.path, Path(destination), wait=self.wait)

    def remember(self, state: State) -> None:
        """Note which series there are; for the package's own use."""
        self._known = {record.name: record for record in state.all_series()}

    @contextmanager
    def state(self, wait: float | None = None) -> Iterator[State]:
        """Hold the store: lock, check, connect; for the package's own use."""
        refuse_in_broken_child()
        with open_state(
            self.path, wait=self.wait if wait is None else _checked_wait(wait), durable=not self._memory
        ) as state:
            yield state

    @property
    def reproducible(self) -> bool:
        """Whether a seed was given."""
        return self._seeded is not None

    def generator(self) -> np.random.Generator:
        """A generator for one piece of work."""
        return entropy.generator() if self._seeded is None else self._seeded

    def origin(self, state: State) -> StoreOnDisk | None:
        """What a release remembers of this store; nothing if it is in memory."""
        return None if self._memory else StoreOnDisk(self.path, state.publications, self.wait)


class Series(PlannedSeries, WorkloadSeries):
    """One histogram, fixed at creation, from which any number of releases can be made.

    All releases of a series together are as private as the finest of them: for Gaussian noise, rho-zCDP
    with rho their largest level, for neighbouring logs that differ by all rows of one unit.
    """

    def __init__(self, store: Store, series_id: str, declaration: Declaration) -> None:
        """Use `create` or `Store.series` instead."""
        self.store = store
        self.declaration = declaration
        self._series_id = series_id

    @property
    def name(self) -> str:
        """Name of the series."""
        return self.declaration.name

    def __repr__(self) -> str:
        """Name and domain: public parameters only."""
        return f"Series({self.name!r}, domain={self.declaration.domain.describe()}, in {self.store!r})"

    @contextmanager
    def held(self, wait: float | None = None) -> Iterator[tuple[State, SeriesRecord]]:
        """Hold the store and find the series in it; for the package's own use."""
        with self.store.state(wait) as state:
            record = state.series(self.name)
            if record is None or record.series_id != self._series_id:
                self.store.remember(state)
                raise NotFoundError(f"the series {self.name!r} was dropped from {self.store!r}")
            yield state, record

    def release(
        self,
        name: str,
        *,
        level: Level | None = None,
        threshold: float | None = None,
        false_keys: float | None = None,
        delta: float | None = None,
        max_false_keys: float = 1e7,
        who: str | None = None,
        wait: float | None = None,
    ) -> Release:
        """Release the histogram at a level, or give back the release of that name.

        Committed before it is returned: after a crash it is either whole or was never drawn. A name that
        exists stands for the same numbers for ever.

        Args:
            name: Of the release; a-z, 0-9 and _.
            level: Privacy level, exact; larger is finer. rho for Gaussian noise.
            threshold: A cell is published when its rounded noisy count is above it, in counts.
            false_keys: Instead of `threshold`: how many empty cells to expect among the published; the lowest
                threshold that keeps to it is taken. 1 when neither is given.
            delta: For an open domain, instead of `threshold`: what this release may add to the delta of the series;
                the lowest threshold that keeps to it is taken. Half of what remains when neither is given.
            max_false_keys: Refuse a threshold that would publish more empty cells than this.
            who: Asks for it, kept in the ledger; the user of the operating system by default.
            wait: Seconds to wait for the store; the store's own by default.

        Returns:
            The release.

        Raises:
            LevelError: If the level is no positive, finite number.
            CapExceededError: If the sum over the paths of the series would exceed its cap.
            BudgetExceededError: If the population would exceed its budget, or the delta of an open domain has no
                room for it; says which threshold would do.
            ThresholdError: If the threshold cannot be served; says which would do.
            NameTakenError: If the name stands for another request.
            NotFoundError: If no level is given and there is no release of that name.
            StoreInUseError: If another process or thread holds the store.
        """
        request = requested(name, level=level, threshold=threshold, false_keys=false_keys, delta=delta)
        checked_text("who", who)
        with self.held(wait) as (state, record):
            files = state.series_files(record)
            released = cell_round.existing(state, record, files, self.declaration, request)
            if released is None:
                released = cell_round.release(
                    state, record, files, self.declaration, request, max_false_keys,
                    who=who, rng=self.store.generator(),
                )  # fmt: skip
            origin = self.store.origin(state)
        frame, metadata = released
        return Release(frame, metadata, origin=origin)

    def raise_cap(self, level: Level, *, reason: str, who: str | None = None) -> None:
        """Raise the cap of the series; from then on it holds ex post.

        The cap it was created with still shows in the ledger: nothing beyond it was a promise made in advance.

        Args:
            level: The new cap, exact; above the one in force.
            reason: Why; kept in the ledger.
            who: Asks for it, kept in the ledger; the user of the operating system by default.

        Raises:
            DeclarationError: If the series has no cap, the level is not above it, or there is no reason.
            NotFoundError: If the series was dropped.
        """
        wanted = as_level(level)
        said = {"reason": checked_text("reason", reason, needed=True), "who": checked_text("who", who)}
        with self.held() as (state, record):
            declared = None if self.declaration.cap is None else level_text(self.declaration.cap)
            cap = Limits(state.events()).cap(record.series_id, declared, None).now
            if cap is None:
                raise DeclarationError(f"the series {self.name!r} has no cap: there is nothing to raise")
            if wanted <= cap:
                raise DeclarationError(f"the cap is {level_text(cap)}: it can be raised only, got {level!r}")
            state.declare("raise cap", series_id=record.series_id, level=level_text(wanted), **said)

    def releases(self) -> pl.DataFrame:
        """Name, workload, level, threshold and time of each release, in the order they were made.

        Returns:
            A row a release: name, workload (null for one of cells), level, std, threshold and expected_false_keys
            (both null for a workload), released_at.
        """
        with self.store.state() as state:
            record = state.series(self.name)
            made = [] if record is None else state.series_releases(record)
            rows = [{column: release.metadata.get(column) for column in _RELEASES} for release in made]
            return pl.DataFrame(rows, schema=_RELEASES)


_RELEASES = {
    "name": pl.String,
    "workload": pl.String,
    "level": pl.String,
    "std": pl.Float64,
    "threshold": pl.Float64,
    "expected_false_keys": pl.Float64,
    "released_at": pl.String,
}


def open(path: str | os.PathLike[str], *, create: bool = False, wait: float = 0.0, seed: int | None = None) -> Store:
    """Open a store.

    Args:
        path: Its directory, or ":memory:" for experiments.
        create: Make an empty store if there is none.
        wait: Seconds every call waits for a store in use before it gives up.
        seed: Makes a ":memory:" store reproducible.

    Returns:
        The store; a context manager.

    Raises:
        NotFoundError: If there is no store at `path`.
        StoreError: If it is damaged, of another version, a copy, or older than what was published from it.
    """
    store = Store(path, wait=wait, seed=seed)
    if create and not is_store(store.path):
        create_store(store.path)
    with store.state() as state:
        store.remember(state)
        return store


def _checked_wait(wait: float) -> float:
    if not (isinstance(wait, int | float) and wait >= 0):
        raise DeclarationError(f"wait must be a number of seconds, 0 or more, got {wait!r}")
    return wait


def declaration_of(record: SeriesRecord) -> Declaration:
    """The declaration of a stored series; for the package's own use."""
    return from_json(record.name, record.declaration, files=catalogue_copies(record))


def _listed(state: State) -> str:
    return ", ".join(sorted(record.name for record in state.all_series())) or "none"
