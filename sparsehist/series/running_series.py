"""A series whose log goes on: steps are appended in order, and running counts released at any of them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from sparsehist.counting.contract import Choice, Counts
from sparsehist.counting.count import list_pairs
from sparsehist.declaration import Declaration, Steps
from sparsehist.declaration.checks import checked_choice, checked_text, checked_whole
from sparsehist.domain import Domain
from sparsehist.errors import DeclarationError, NameTakenError, NotFoundError, RefusedError, present
from sparsehist.ledger.ledger import Ledger
from sparsehist.privacy import Level
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.release import running_round
from sparsehist.release.cell_parameters import requested
from sparsehist.release.creation import checked_source, counting_of
from sparsehist.release.metadata import level_asked
from sparsehist.release.planning import COUNTS, LEVELS, Plan, checked_levels, plan_of
from sparsehist.release.releases import Release
from sparsehist.release.spending import settled, spending
from sparsehist.release.stored_declaration import check_alike, declaration_of, declare, write_catalogues
from sparsehist.release.totals import RUNNING
from sparsehist.running.appending import Day, added, kind_of_all
from sparsehist.running.step_files import StepFiles
from sparsehist.series.series_handle import StoredSeries
from sparsehist.series.store_handle import Progress, Store, reporting
from sparsehist.store import (
    NewSeries,
    NewStep,
    SeriesRecord,
    State,
    StepRecord,
    ensure_store,
)
from sparsehist.store.layout import spill_directory

_PATIENCE = 60.0


class RunningSeries(StoredSeries):
    """A series to which steps are appended, and from which the running count of any of them is released.

    A unit counts once per key over all steps, at the first one in which it has the key, and towards at most max_keys
    keys: first come, first kept. All releases together, over all steps and levels and in any order, are as private as
    the finest of them, rho-zCDP with rho their largest level: the noise of all steps is one path.

    The store keeps who counted for what, as secret as the log, until `finish` erases it.
    """

    @property
    def steps(self) -> int:
        """How many steps the series is declared for."""
        return present(self.declaration.n_steps)

    def __repr__(self) -> str:
        """Name, domain and steps: public parameters only."""
        return (
            f"RunningSeries({self.name!r}, domain={self.declaration.domain.describe()}, steps={self.steps}, "
            f"in {self.store!r})"
        )

    def appended(self) -> int:
        """How many steps were appended so far."""
        with self._hold(None) as (state, record):
            return len(state.steps(record))

    def append(
        self,
        source: object,
        *,
        step: int,
        memory_limit: str | int | None = None,
        threads: int | None = None,
        progress: Progress = None,
        who: str | None = None,
        wait: float | None = None,
    ) -> bool:
        """Append the log of the next step, all or nothing.

        The same pairs of units and keys again, for a step that was appended, change nothing; other pairs are refused:
        counts of a step never change once it is appended, as noise that was drawn for them could not follow.

        Steps are appended in order, from 1; the log of one may be empty, and no counts made elsewhere are taken.
        All else is as for `create`.

        Returns:
            Whether this call appended it: False if it was appended with the same pairs before.

        Raises:
            DeclarationError: If the series has no such step, or it is not the next one.
            DataError: If the log breaks a rule; never quotes a key or a unit.
            NameTakenError: If the step was appended with other pairs.
            RefusedError: If the series is finished.
        """
        declaration = self.declaration
        checked_whole("step", step, 1, self.steps)
        checked_text("who", who)
        if isinstance(source, Counts):
            raise DeclarationError(
                "a running series has to know which units counted before: append the log, not counts made elsewhere"
            )
        origin = counting_of(source, declaration).source
        with ExitStack() as spills, reporting(progress) as report:
            with self._hold(wait) as (state, record):
                self._check_is_next(state, record, step)
                spill = spills.enter_context(spill_directory(state.spill))
            source = checked_source(source, declaration)
            # The store is not held meanwhile: others may release.
            pairs = list_pairs(
                source, unit=present(declaration.unit), key=declaration.key, domain=declaration.domain,
                salt=record.salt,
                on_null=declaration.on_null, on_outside=declaration.on_outside,
                key_types=dict(declaration.key_types), memory_limit=memory_limit, threads=threads,
                temporary_directory=spill, progress=report,
            )  # fmt: skip
            report("appending")
            day = Day.of_pairs(pairs, present(declaration.unit), record.salt)
            kind, digest = day.unit_kind, day.digest(record.salt)
            # A log that was counted is not thrown away because somebody releases at this moment.
            with self._hold(max(wait or 0.0, self.store.wait, _PATIENCE)) as (state, record):
                before = self._check_is_next(state, record, step)
                if step <= len(before):
                    if before[step - 1].digest != digest:
                        raise NameTakenError(
                            f"step {step} of {self.name!r} was appended with other rows; its counts never change"
                        )
                    return False
                kind = kind_of_all(before[-1].unit_kind if before else "", kind, "steps")
                self._commit(state, record, day, NewStep(step - 1, digest, kind, origin, (), who))
        return True

    def _check_is_next(self, state: State, record: SeriesRecord, step: int) -> list[StepRecord]:
        """The steps that were appended; refuses one that leaves others out, or any once the series is finished."""
        before = state.steps(record)
        if state.is_finished(record):
            raise RefusedError(f"the series {self.name!r} is finished: nothing more can be appended")
        if step > len(before) + 1:
            raise DeclarationError(f"steps are appended in order, and step {len(before) + 1} comes next, not {step}")
        return before

    def _commit(self, state: State, record: SeriesRecord, day: Day, made: NewStep) -> None:
        files = StepFiles(state, record, self.declaration.domain.dtypes)
        written, replaced = files.write(state, record, added(day, files, self.declaration.max_keys, record.salt))
        state.commit_step(record, replace(made, files=written, replaced=replaced))

    def release(
        self,
        name: str,
        *,
        step: int | None = None,
        what: str | None = None,
        level: Level | EpsilonDelta | None = None,
        threshold: float | None = None,
        false_keys: float | None = None,
        delta: float | None = None,
        max_false_keys: float = 1e7,
        who: str | None = None,
        wait: float | None = None,
    ) -> Release:
        """Release the running counts of a step at a level, or give back the release of that name.

        Any step that was appended, at any level, in any order; levels are equal or a relative 1e-6 apart. The cost
        of all of them is the finest level, once. New units of single steps, and of blocks of steps, are noise paths
        of their own: each costs its own finest level, and costs add up.

        `step` says up to which units are counted, from 1. `what` is "running" for running counts, as by default;
        "new" for units that have the key first in this step; "blocks(7)" for those of a block of so many steps, of
        which this is the last. All else, errors too, is as for `Series.release`.

        Raises:
            DeclarationError: If the series has no such step, no block ends there, or the domain is open and something
                else than running counts is asked.
            NotFoundError: If the step was not appended yet, or nothing is given and there is no release of that name.
            LevelError: If the level cannot be served, or nearly is one that was released.
        """
        request = running_round.at_step(
            requested(
                name, level=level, threshold=threshold, false_keys=false_keys, delta=delta,
                max_false_keys=max_false_keys,
            ),
            step,
            what,
            self.steps,
        )  # fmt: skip
        return self._released(Release, request, running_round.open_path, who, wait)

    def plan(
        self,
        levels: Level | EpsilonDelta | Iterable[Level | EpsilonDelta] = LEVELS,
        *,
        step: int,
        what: str | None = None,
        false_keys: float | None = None,
        threshold: float | None = None,
        delta: float | None = None,
        counts: Sequence[int] = COUNTS,
        wait: float | None = None,
    ) -> Plan:
        """Say what releases of a step would publish at candidate levels, each on its own; spends and draws nothing.

        Depends on the declaration and on what was released before, never on the counts: the step need not have been
        appended. `step` and `what` are those of `release`; all else is as for `Series.plan`.
        """
        chosen = running_round.at_step(
            requested("plan", level=None, threshold=threshold, false_keys=false_keys, delta=delta),
            step,
            RUNNING if what is None else what,
            self.steps,
        )
        totals = present(chosen.what)
        with self._hold(wait) as (state, record):
            ledger, past = Ledger.of(state), running_round.past_of(state, record, totals)
        releases = []
        for level in checked_levels(levels):
            request = settled(ledger, self.declaration, replace(chosen, **level_asked(level)))
            about = running_round.running_metadata(self.declaration, request, past)
            spends = spending(ledger, record.series_id, self.declaration, totals.path, request, about)
            releases.append((about, spends))
        return plan_of(ledger, self.declaration, releases, counts)

    def finish(self, *, who: str | None = None, wait: float | None = None) -> None:
        """Erase which pairs of units and keys counted; nothing can be appended afterwards, releases go on.

        Args:
            who: Asks for it, kept in the ledger; the user of the operating system by default.
            wait: Seconds to wait for the store; the store's own by default.
        """
        checked_text("who", who)
        with self._hold(wait) as (state, record):
            if not state.is_finished(record):
                files = StepFiles(state, record, self.declaration.domain.dtypes)
                state.finish_series(record, files.unit_files, who=who)


def create_running(
    store: str | os.PathLike[str] | Store,
    *,
    name: str,
    unit: str | Sequence[str],
    key: str | Sequence[str],
    max_keys: int,
    domain: Domain | str,
    steps: int = 365,
    cap: Level | None = None,
    population: str = "default",
    on_null: Choice = "error",
    on_outside: Choice = "error",
    key_types: Mapping[str, str] | None = None,
    unverified: bool = False,
    if_exists: str = "error",
    who: str | None = None,
    wait: float = 0.0,
    seed: int | None = None,
) -> RunningSeries:
    """Declare a series to which steps will be appended; Gaussian noise.

    Parameters are those of `create`, but for two. `max_keys` bounds the keys that a unit may count towards over all
    steps: the first ones, and within a step those that an order of its own puts first. `steps` is how many there
    will be at most: days of a year, say. The noise of all of them is made for so many, and grows with their
    logarithm: 1.46, 1.87 and 2.64 times that of a single release of the same level at 7, 30 and 365 (root mean
    square over the steps). With `if_exists="reuse"` a series of this name and declaration is returned. Errors are
    those of `create`.

    Example:
        >>> import polars as pl
        >>> import sparsehist as sh
        >>> visits = sh.create_running(":memory:", name="visits", unit="user", key="url", max_keys=5,
        ...                            domain=sh.Strings(max_bytes=8), steps=7, seed=1)
        >>> visits.append(pl.DataFrame({"user": range(500), "url": ["/home"] * 500}), step=1)
        True
        >>> visits.append(pl.DataFrame({"user": range(250, 900), "url": ["/home"] * 650}), step=2)
        True
        >>> second, first = (visits.release(f"day_{day}", step=day, level="0.5") for day in (2, 1))
        >>> [880 < second.frame["noisy_count"].item() < 920, 480 < first.frame["noisy_count"].item() < 520]
        [True, True]
    """
    declaration = declare_running(
        name=name, unit=unit, key=key, max_keys=max_keys, domain=domain, steps=steps, cap=cap, population=population,
        on_null=on_null, on_outside=on_outside, key_types=key_types, unverified=unverified,
    )  # fmt: skip
    checked_choice("if_exists", if_exists, ("error", "reuse"))
    checked_text("who", who)
    home = store if isinstance(store, Store) else Store(store, wait=wait, seed=seed)
    ensure_store(home.path)
    with home._hold(wait or None) as state:
        record = state.series(name)
        if record is not None:
            known = declaration_of(record)
            check_alike(f"{home!r} has a series {name!r} already", known, declaration, if_exists)
            return RunningSeries(home, record.series_id, declaration)
        Ledger.of(state).check_series(name, population, declaration.noise, is_open=declaration.domain.is_open)
        salt, series_id = home._generator().bytes(16), secrets.token_hex(8)
        with spill_directory(state.spill) as spill:
            written = spill / "series"
            written.mkdir(mode=0o700)
            files = write_catalogues(written, declaration.domain, durable=state.durable)
            state.take_series_directory(written, series_id)
        state.commit_series(NewSeries(series_id, name, declaration.as_json(), salt, files, who=who))
        home._remember(state)
    return RunningSeries(home, series_id, declaration)


def declare_running(*, steps: int, **declared: Any) -> Declaration:
    """Check the parameters of a running series."""
    if declared.get("unit") is None:
        raise DeclarationError("a running series needs the column of its unit: it has to know who counted before")
    return replace(declare(**declared, noise="gaussian"), steps=Steps(steps))


def open_running(store: str | os.PathLike[str] | Store, name: str, *, wait: float = 0.0) -> RunningSeries:
    """Give a running series of a store by its name, as `open` gives a store.

    Raises:
        NotFoundError: If there is no store, or no running series of that name in it.
    """
    home = store if isinstance(store, Store) else Store(store, wait=wait)
    with home._hold() as state:
        record = state.series(name)
    declaration = None if record is None else declaration_of(record)
    if record is None or declaration is None or declaration.steps is None:
        raise NotFoundError(f"{home!r} holds no running series {name!r}")
    return RunningSeries(home, record.series_id, declaration)
