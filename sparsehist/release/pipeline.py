"""Make or return a release of any kind: check the request, fix public parameters, draw and commit the noise.

Each kind of release (cells, workloads, running counts, …) has two classes: a `Request` with the caller's parameters,
and a `NoisePath` that draws and reads noise. Plans, dry runs and releases compute levels and costs with the same
functions, and only from public parameters. Therefore, a plan refuses the same requests as a release.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sparsehist.declaration import Declaration
from sparsehist.declaration.recurring import USER
from sparsehist.errors import BudgetExceededError, NameTakenError, NotFoundError, StoreError, present
from sparsehist.ledger.budgets import OPEN_SHARE, Budget, Limits, Split
from sparsehist.ledger.ledger import Ledger, check_release
from sparsehist.ledger.spent import Account, PathName, Spending, law_of
from sparsehist.noise.family import NoiseArray
from sparsehist.privacy import level_text
from sparsehist.privacy.filters import POISSON_ROUTE, PURE_ROUTE, RHO_ROUTE, filter_on, level_within
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.privacy.levels import in_prose
from sparsehist.release.home import Home
from sparsehist.release.metadata import Metadata, Request, read_metadata
from sparsehist.store import NewRound, PathRecord, ReleaseRecord, SeriesRecord, State

if TYPE_CHECKING:
    import polars as pl

    from sparsehist.release.releases import Release, WorkloadRelease
    from sparsehist.store.series_files import SeriesFiles

AUTO = "auto"
_Request = TypeVar("_Request", bound=Request)
_Metadata = TypeVar("_Metadata", bound=Metadata)


@dataclass(frozen=True, repr=False)
class LockedSeries:
    """A series in a locked store: the state of the store, and the record and the declaration of the series."""

    home: Home
    state: State
    record: SeriesRecord
    declaration: Declaration

    @cached_property
    def files(self) -> SeriesFiles:
        """The files with the counts and keys of the series. A running series has no such files: see `StepFiles`."""
        return self.state.series_files(self.record)


@dataclass(frozen=True, repr=False)
class NoisePath:
    """A noise path of a series. The first release on the path adds the path to the store."""

    locked: LockedSeries

    @property
    def name(self) -> PathName:
        """Name of the path in the ledger."""
        raise NotImplementedError

    @property
    def record(self) -> PathRecord | None:
        """Record of the path in the store; None before the first release on it."""
        paths = self.locked.state.paths(self.locked.record)
        return next((path for path in paths if path.name == self.name), None)

    @property
    def path_id(self) -> int | None:
        """Id of the path in the store; None before the first release on it."""
        return None if (record := self.record) is None else record.path_id

    @property
    def spent(self) -> list[Fraction]:
        """Levels released on the path, in the order of their first releases."""
        return [] if (path_id := self.path_id) is None else [level for level, _ in self.locked.state.past(path_id)]

    def neighbours(self, level: Fraction, size: int) -> dict[Fraction, NoiseArray]:
        """Return the stored noise that is needed to draw noise at `level`, as a dict from level to noise.

        If `level` was released, return the noise at this level. Otherwise, return the noise at the next coarser and
        the next finer level that were released. `size` is the number of noise values at each level.
        """
        spent = self.spent
        coarser, finer = [at for at in spent if at <= level], [at for at in spent if at >= level]
        near = {*([max(coarser)] if coarser else []), *([min(finer)] if finer else [])}
        return {at: self.locked.state.noise(present(self.path_id), at, size) for at in near}

    def new_round(
        self, request: Request, metadata: Metadata, stored: dict[str, Any] | None = None, **drawn: Any
    ) -> NewRound:
        """Return the round that a release adds to the store. The first round on a path adds the path, too."""
        path_id: int | PathRecord | None = self.path_id
        if path_id is None:
            integer = drawn["level_noise"].dtype.kind == "i"
            path_id = PathRecord(self.locked.record.series_id, *self.name, integer)
        public = (stored or request.as_json(), metadata.as_dict())
        return NewRound(path_id, request.name, present(request.level), *public, **drawn)

    def metadata(self, request: Any) -> Metadata:
        """Return the public metadata of a release without its guarantee. Raise an error if the request is invalid."""
        raise NotImplementedError

    def statement(self, request: Any, metadata: Any) -> str:
        """Return the guarantee of the release, in words."""
        raise NotImplementedError

    def draw(self, request: Any, metadata: Any, *, rng: np.random.Generator) -> NewRound:
        """Draw the noise of a release, and return it as a round to be committed."""
        raise NotImplementedError

    def rows(self, level: Fraction, metadata: Any) -> pl.DataFrame:
        """Return the rows of a committed release."""
        raise NotImplementedError


ANSWER = "/"
"""Separator in names of answers (session/1) and of sums of measures (release/price). Users' names cannot have it."""


def published(state: State, record: SeriesRecord) -> list[ReleaseRecord]:
    """Return the releases of a series, oldest first; leave out answers of query sessions and sums of measures."""
    return [release for release in state.releases(record) if ANSWER not in release.name]


RELEASES = {
    **dict.fromkeys(("name", "workload", "level"), str),
    **dict.fromkeys(("std", "threshold", "expected_false_keys"), float),
    "released_at": str,
}
"""Columns of a table of releases."""


def rows_of_releases(state: State, record: SeriesRecord) -> list[dict[str, Any]]:
    """Return the rows of the table `Series.releases`: one for each release of a series, oldest first."""
    return [{name: release.metadata.get(name) for name in RELEASES} for release in published(state, record)]


def ledger_for(state: State, record: SeriesRecord, declaration: Declaration, *, whole: bool = False) -> Ledger:
    """Return the ledger against which the releases of a series are checked.

    If the series has no cap, budget or periods, a ledger without earlier releases is enough, and faster to make.
    If `whole` is true, the complete ledger is always returned.
    """
    limits = Limits(state.events(limits=True))
    limited = (limits.cap(record.series_id, declaration.cap).now, limits.budget(record.population).now)
    if not whole and declaration.period is None and limited == (None, None):
        return Ledger({record.series_id: Account(record.series_id, declaration)}, limits)
    return Ledger.of(state)


def of_all_periods(
    ledger: Ledger, declaration: Declaration, spends: Sequence[Spending]
) -> tuple[str, dict[str, Any]]:
    """Return the cost of a periodic series up to and including a release, as text and as a dict of metadata.

    The text and the dict are empty if the series is not periodic.
    """
    population = declaration.population
    after, rule = ledger.with_release(*spends), ledger.limits.periods.get(population)
    if rule is None:
        return "", {}
    costs = (after.cost_per_period(population, rule), after.cost_of(after.of_population(population)))
    each = [level_text(cost.amount) if cost.amount else "0" for cost in costs]
    opens = [f"{cost.delta_infinity:.3g}-approximate " if cost.delta_infinity else "" for cost in costs]
    words = (
        f"all {rule.period}s of {population} released so far, this one included: {opens[0]}{each[0]}-zCDP per "
        f"{rule.unit_period}, {opens[1]}{each[1]}-zCDP per {USER}"
    )
    return words, {"per_period": each[0], "per_user": each[1]}


def prepared(
    ledger: Ledger,
    series_id: str,
    declaration: Declaration,
    path: PathName,
    request: _Request,
    metadata: Callable[[_Request], _Metadata],
) -> tuple[_Request, _Metadata, tuple[Spending, ...]]:
    """Prepare a release without drawing noise. Return its request (now with a level), its metadata and its charges.

    The function `metadata` computes the metadata of a request. The first charge to the ledger is for the noise of
    counts or answers, and includes the numerical slack of the whole release. The charges for measures follow.
    """
    goal, budget, opens = request.goal, ledger.budget_of(declaration.population), declaration.domain.is_open
    room, split = ledger.open_room(declaration), None
    level = request.level if goal is None else level_for(goal, ledger, declaration)
    if goal is not None and opens:
        split = _split(goal, budget, opens=True)
        # A release in an open domain may spend at most the delta set aside for open domains (`split.open`). By
        # default, it spends half of `open_room`. So limit `open_room` to twice `split.open`.
        share = 2 * float(split.open)
        room = share if room is None else min(room, share)
    request = replace(request, level=level, open_room=room)
    public = metadata(request)
    release = Spending(series_id, present(level), path, public.delta_spent, public.numerical_slack)
    if split is not None:
        added = release.delta_infinity - max(
            spent.delta_infinity for spent in ledger.accounts[series_id].paths.values()
        )
        if added > float(split.open) * (1 + 1e-9):
            raise BudgetExceededError(
                "this release needs more delta than is set aside for open domains: raise threshold=, lower "
                f"open_delta= or omit both. Nothing was spent; {added:.6g} exceeds {float(split.open):.6g} of {goal}"
            )
    return request, public, (release, *(Spending(series_id, at, name) for name, at in request.beside))


def level_for(goal: EpsilonDelta, ledger: Ledger, declaration: Declaration) -> Fraction:
    """Return the largest level, rounded down to 12 digits, that satisfies the requested (epsilon, delta).

    In an open domain, part of delta is set aside for publishing keys, and the noise gets the rest. If the population
    has a budget, its route and its split of delta are used, so that a request for the entire (epsilon, delta) of the
    budget is accepted as long as nothing has been spent.
    """
    law, budget = law_of(declaration.noise), ledger.budget_of(declaration.population)
    share = _split(goal, budget, opens=declaration.domain.is_open).noise
    charges = None if budget is None else budget.filter_for(law)
    if charges is not None and charges.route != RHO_ROUTE:
        alike = filter_on(charges.route, goal.epsilon, share, charges.order)
        return alike.largest(alike.limit, law, declaration.most_touched)
    return level_within(EpsilonDelta(goal.epsilon, share), law, declaration.most_touched)


def _split(goal: EpsilonDelta, budget: Budget | None, *, opens: bool) -> Split:
    """Split the delta of `goal` into a part for noise and a part for the keys of open domains.

    If `budget` is an (epsilon, delta), the parts have the same proportion as in the budget. Otherwise, open domains
    get the fraction `OPEN_SHARE` if the domain of the series is open (`opens`), and nothing if it is closed.
    """
    if budget is not None and budget.epsilon is not None and budget.delta and budget.noise.route != PURE_ROUTE:
        of_delta = goal.delta / budget.delta
        noise = budget.noise.delta if budget.noise.route == POISSON_ROUTE else budget.split.noise
        return Split(noise * of_delta, budget.split.open * of_delta)
    apart = goal.delta * OPEN_SHARE if opens else Fraction(0)
    return Split(goal.delta - apart, apart)


Opener = Callable[[LockedSeries, Any], NoisePath]
"""A function that returns the noise path of a requested release, whether this release exists already or is new."""


def release(locked: LockedSeries, request: Request, open_path: Opener) -> Release | WorkloadRelease:
    """Return the existing release with the requested name, or make it if there is none."""
    from sparsehist.release.releases import release_of  # imports Polars

    state, record, declaration = locked.state, locked.record, locked.declaration
    home = None if locked.home.in_memory else locked.home
    existing = find(locked, request)
    if existing is not None:
        committed = read_metadata(existing.metadata)
        return release_of(open_path(locked, request).rows(existing.level, committed), committed.as_dict(), home=home)
    if missing := request.missing:
        needs = " and ".join(missing)
        raise NotFoundError(f"the series {record.name!r} has no release {request.name!r}; give {needs} to make one")
    path = open_path(locked, request)
    ledger = ledger_for(state, record, declaration, whole=request.goal is not None)
    request, metadata, spends = prepared(ledger, record.series_id, declaration, path.name, request, path.metadata)
    check_release(state, ledger, *spends, path_id=path.path_id, name=request.name)
    # Compute the guarantee only after all checks have passed, because it may take longer to compute than the checks.
    periods, of_periods = of_all_periods(ledger, declaration, spends)
    declared = metadata.declaration  # for a running series, `source` describes the steps up to the released step
    guarantee = (_guarantee(path, request, metadata), periods, declared.rests_on, declared.neighbours)
    # Read the clock before drawing, because the duration of drawing depends on secrets.
    metadata = replace(
        metadata,
        guarantee="; ".join(filter(None, guarantee)),
        **of_periods,
        epsilon_delta=None if request.goal is None else request.goal.text,
        store=state.store_id,
        round=secrets.token_hex(8),
        released_at=datetime.now(UTC).isoformat(timespec="seconds"),
        generation=state.generation + 1,
    )
    state.commit_round(path.draw(request, metadata, rng=locked.home.generator()))
    try:
        rows = path.rows(spends[0].level, metadata)
    except StoreError as error:
        spent = f"the release {request.name!r} is committed and spent: request it again to get its rows"
        raise type(error)(f"{error}; {spent}") from None
    return release_of(rows, metadata.as_dict(), home=home, repeated=False)


def _guarantee(path: NoisePath, request: Request, metadata: Metadata) -> str:
    """Return the guarantee of a release in words, with the (epsilon, delta) that was requested, if any."""
    if request.goal is None:
        return path.statement(request, metadata)
    # Levels that were computed from an (epsilon, delta) have many digits. State such a level rounded up, which only
    # weakens the guarantee; but state it exactly if the guarantee of the noise is neither a rho nor an epsilon.
    level = present(request.level)
    rounded = in_prose(level) if metadata.declaration.family.currency != "none" else level
    counts = " of the counts" if request.beside else ""
    stated = path.statement(replace(request, level=rounded), metadata)
    return f"{request.goal.in_words} was asked for{counts}: {stated}"


def kind_of(locked: LockedSeries, name: str) -> str | None:
    """Return the kind of the release with this name, such as "workload", or None if there is no such release."""
    record = locked.state.release_named(locked.record, name)
    return next((path.kind for path in locked.record.paths if record and path.path_id == record.path_id), None)


def find(locked: LockedSeries, request: Request) -> ReleaseRecord | None:
    """Return the existing release with the requested name, or None. Raise an error if its parameters differ."""
    name, series = request.name, locked.record.name
    record, kind = locked.state.release_named(locked.record, name), kind_of(locked, name)
    if record is None or kind is None:
        return None
    if kind != request.kind:
        raise NameTakenError(f"{name!r} of {series!r} is a release of kind {kind!r}, not {request.kind!r}")
    stored, requested = record.request, request.as_json()
    if differing := [word for word, value in requested.items() if value not in (None, AUTO, stored.get(word))]:
        was = (f"no {word}" if stored.get(word) is None else f"{word}={stored[word]!r}" for word in differing)
        raise NameTakenError(
            f"the release {name!r} of {series!r} was made with {', '.join(was)}; use another name "
            "for a release with other parameters"
        )
    return record
