"""Requests and metadata of releases: frozen records of public values, fixed before anything is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar, Self, get_args, get_origin, get_type_hints

from sparsehist.declaration import Declaration
from sparsehist.errors import DeclarationError, InputError, raise_alone
from sparsehist.ledger.spent import PathName
from sparsehist.noise import Family, Gaussian
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.privacy.guarantees import EpsilonDelta, level_or_goal


@dataclass(frozen=True)
class Request:
    """What a caller asked of a release of some kind; what is None stands as the release of that name has it.

    `needs` says what a new release needs to be told; `goal` is the (epsilon, delta) that stands for a level.
    """

    kind: ClassVar[str]
    needs: ClassVar[str]

    name: str
    level: Fraction | None = None
    goal: EpsilonDelta | None = field(default=None, kw_only=True)

    @property
    def beside(self) -> tuple[tuple[PathName, Fraction], ...]:
        """Noise paths that are released with it, and their levels."""
        return ()

    @property
    def complete(self) -> bool:
        """Whether it has everything that a new release needs."""
        return self.level is not None or self.goal is not None

    def at(self, level: Fraction | None, open_room: float | None) -> Self:
        """Return the request at a level, with the delta that remains for open domains."""
        del open_room
        return replace(self, level=level)

    def as_json(self) -> dict[str, Any]:
        """What was asked, as it is stored and compared; None and "auto" agree with anything."""
        level = None if self.level is None else level_text(self.level)
        return {"level": level, "epsilon_delta": None if self.goal is None else self.goal.text}


def level_asked(
    level: Level | EpsilonDelta | None, epsilon: Level | None = None, delta: Level | None = None
) -> dict[str, Any]:
    """Return a level, or the (epsilon, delta) that stands for one, as fields of a request."""
    if epsilon is not None or delta is not None:
        if level is not None or epsilon is None:
            wrong = "give level=, or epsilon= with delta=, not both" if level is not None else "delta= needs epsilon="
            raise DeclarationError(wrong, parameter="epsilon")
        level = EpsilonDelta(epsilon, 0 if delta is None else delta)
    read = None if level is None else level_or_goal(level)
    return {"level": None, "goal": read} if isinstance(read, EpsilonDelta) else {"level": read, "goal": None}


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """The public parameters of a release: the declaration of its series, and what every kind of release adds.

    Fields with a default are left out of the dict where they are None. A store fills in the guarantee and the last
    four. Levels and costs are exact text.
    """

    kind: ClassVar[str]

    name: str
    level: str
    std: float  # of the noise of a cell, or the root mean square over the answers; in counts
    grid: float  # every published number is a multiple of it
    threshold: float | None  # as chosen; None where everything is published
    numerical_slack: float  # by how much the law may differ from the one stated, in total variation
    guarantee: str = ""  # in words
    declaration: Declaration  # its source is that of the steps released, where there are some
    epsilon_delta: str | None = None  # what the level stands for, as it was asked
    protects: str | None = None  # what the budget of all periods counts for: "user", or "user-week" and the like
    most_periods: int | None = None  # in how many periods a unit counts at most
    per_period: str | None = None  # cost of all periods released so far, this one included, to one unit in one
    per_user: str | None = None  # and to one unit over all of them
    store: str | None = None
    round: str | None = None  # random; tells two rounds apart that share a name or a generation
    released_at: str | None = None  # UTC, fixed before anything is drawn
    generation: int | None = None  # of the store, once this release is in it

    @property
    def series(self) -> str:
        """Name of the series."""
        return self.declaration.name

    @property
    def noise(self) -> str:
        """Name of the family of noise."""
        return self.declaration.noise

    @property
    def delta_spent(self) -> float:
        """What this and all earlier releases of the path may have spent of the delta of an open domain."""
        return 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return a plain dict for people and files: keys in the order of the fields, values that JSON has."""
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        absent = {each.name for each in fields(self) if each.default is None and known[each.name] is None}
        known["declaration"] = self.declaration.as_json()
        head = {"kind": self.kind, "series": self.series, "noise": self.noise}
        return head | {name: value for name, value in known.items() if name not in absent}


@dataclass(frozen=True, kw_only=True)
class CellMetadata(Metadata):
    """What a release of cells says."""

    kind = "cells"

    noise_mean: float  # in counts
    effective_threshold: float  # on the grid: a cell is published when its rounded count is above it
    false_keys: float | None  # the expected number that the threshold was chosen for
    expected_false_keys: float  # empty cells to expect among the published (spurious keys)
    delta_share: float | None = None  # what was asked of the delta of an open domain
    delta_infinity: float | None = None  # spent of it by this and all earlier releases, at most
    delta_remaining: float | None = None
    counts: str | None = None  # what a count is, where it is not the number of units
    measure_levels: dict[str, str] | None = None  # of the measures; their costs add to that of the counts
    measure_stds: dict[str, float] | None = None  # of the noise of each, in units of its column

    @property
    def delta_spent(self) -> float:
        return self.delta_infinity or 0.0

    @property
    def family(self) -> Family:
        """The law of the noise of one cell."""
        return self.declaration.family


@dataclass(frozen=True, kw_only=True)
class RunningMetadata(CellMetadata):
    """What a release of running counts says."""

    kind = "running"

    step: int  # from 1: units up to it are counted, each once per key
    strategy: str  # by which running counts share their noise

    @property
    def family(self) -> Family:
        return Gaussian(self.std * math.sqrt(2 * as_level(self.level)))


@dataclass(frozen=True, kw_only=True)
class WorkloadMetadata(Metadata):
    """What a release of a workload says."""

    kind = "workload"

    workload: str
    strategy: str
    queries: str  # how many
    noise_std: float  # of each entry of Z, in counts
    least_std: float  # of the answer with the least noise, in counts
    sensitivity: float  # of R·x, in the norm of the noise
    cell_grid: float | None  # to which the noise of each cell was rounded before it was summed or weighed, if it was
    counts: str | None = None  # what an answer counts: units, or units once per cell they are in


@dataclass(frozen=True, kw_only=True)
class InteractiveMetadata(Metadata):
    """What a session of interactive queries says when it is opened, and again of each measured answer."""

    kind = "interactive"

    queries: str  # in words
    accuracy: str  # largest error wanted, as a share of the mass; exact text
    most_updates: int  # answers measured before the session is used up
    mass: int | None  # sum of all bounded counts as declared; None where it is measured at a part of the level
    watch_level: str  # epsilon that watches until one update, exact text
    answer_level: str  # epsilon of one measured answer, exact text
    start: str | None = None  # the release that the hypothesis began from
    update: int | None = None  # the number of this answer; None of the session itself


_Known = CellMetadata | WorkloadMetadata | InteractiveMetadata
_RECORDS: dict[str, type[_Known]] = {
    record.kind: record for record in (CellMetadata, RunningMetadata, WorkloadMetadata, InteractiveMetadata)
}


@cache
def _types(kind: str) -> dict[str, tuple[type, ...]]:
    """Return the classes of the values that each field of a kind of metadata takes."""
    found = {}
    for name, hint in get_type_hints(_RECORDS[kind]).items():
        kinds = tuple(get_origin(kind) or kind for kind in get_args(hint) or (hint,))
        found[name] = (*kinds, int) if float in kinds else kinds
    return found


def read_metadata(stored: Mapping[str, Any]) -> _Known:
    """Read what `as_dict` gave, which anybody may have written: nothing that it names is opened or imported."""
    record = _RECORDS.get(str(stored.get("kind")), CellMetadata)
    given: dict[str, Any] = {}
    types = _types(record.kind)
    for each in fields(record):
        if each.name not in stored:
            if each.default is MISSING:
                raise InputError(f"the metadata of a release has no {each.name!r}: another version wrote it")
            continue
        value = given[each.name] = stored[each.name]
        if each.name == "declaration":
            given[each.name] = _read_declaration(value)
            continue
        fits = isinstance(value, types[each.name]) and not isinstance(value, bool)
        if not fits or (isinstance(value, float) and not math.isfinite(value)):
            raise InputError(f"the metadata of a release has a {each.name!r} that is not of type {each.type}")
    return record(**given)


def _read_declaration(stored: Any) -> Declaration:
    try:
        return Declaration.from_json(stored)
    except (InputError, KeyError, TypeError, AttributeError, RecursionError):
        raise_alone(InputError("the metadata of a release has a declaration that cannot be read"))
