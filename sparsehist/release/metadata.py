"""Requests and metadata of releases: frozen records of public values, fixed before anything is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

from sparsehist.declaration import Declaration, Measure
from sparsehist.errors import DeclarationError, InputError
from sparsehist.ledger.spent import PathName
from sparsehist.noise import Family, Gaussian, family_named
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.privacy.guarantees import EpsilonDelta, level_or_goal

NEIGHBOURS = "logs that differ by all rows of one {}"


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
        """The request at a level, with the delta that remains for open domains."""
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
    """The public parameters that releases of every kind have.

    Fields with a default are left out of the dict where they are None. A store fills in the guarantee and the last
    four. What the series was declared with is as `create` has it; levels and costs are exact text.
    """

    kind: ClassVar[str]

    series: str
    name: str
    population: str
    level: str
    noise: str
    std: float  # of the noise of a cell, or the root mean square over the answers; in counts
    grid: float  # every published number is a multiple of it
    threshold: float | None  # as chosen; None where everything is published
    numerical_slack: float  # by how much the law may differ from the one stated, in total variation
    guarantee: str = ""  # in words
    neighbours: str = NEIGHBOURS.format("unit")  # for which logs it holds
    max_keys: int
    key: tuple[str, ...]
    domain: str
    domain_size: str | None  # as text, since it may have any number of digits; None for an open domain
    cap: str | None
    bounding: str | None = None  # "share" where a unit with more than max_keys keys counts towards all of them
    most_keys: int | None = None
    portable: bool | None = None  # True where units keep their keys in the order that every engine knows
    epsilon_delta: str | None = None  # what the level stands for, as it was asked
    verified: bool | None = None  # False where nobody checked whether the query of the log keeps units apart
    source: str | None = None  # of `Declaration`; None for files
    period: str | None = None  # which one of a log that is cut into periods, such as "2026-W12"
    protects: str | None = None  # what the budget of all periods counts for: "user", or "user-week" and the like
    most_periods: int | None = None  # in how many periods a unit counts at most
    per_period: str | None = None  # cost of all periods released so far, this one included, to one unit in one
    per_user: str | None = None  # and to one unit over all of them
    store: str | None = None
    round: str | None = None  # random; tells two rounds apart that share a name or a generation
    released_at: str | None = None  # UTC, fixed before anything is drawn
    generation: int | None = None  # of the store, once this release is in it

    @property
    def delta_spent(self) -> float:
        """What this and all earlier releases of the path may have spent of the delta of an open domain."""
        return 0.0

    def as_dict(self) -> dict[str, Any]:
        """A plain dict for people and files: keys in the order of the fields, values that JSON has."""
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        absent = {each.name for each in fields(self) if each.default is None and known[each.name] is None}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in known.items()}
        return {"kind": self.kind} | {name: value for name, value in plain.items() if name not in absent}


@dataclass(frozen=True, kw_only=True)
class CellMetadata(Metadata):
    """What a release of cells says."""

    kind = "cells"

    noise_mean: float  # in counts
    effective_threshold: float  # on the grid: a cell is published when its rounded count is above it
    false_keys: float | None  # the expected number that the threshold was chosen for
    expected_false_keys: float  # empty cells to expect among the published (spurious keys)
    delta: str | None = None  # of an open domain, exact text
    delta_share: float | None = None  # what was asked of it
    delta_infinity: float | None = None  # spent of it by this and all earlier releases, at most
    delta_remaining: float | None = None
    counts: str | None = None  # what a count is, where it is not the number of units
    measures: tuple[str, ...] | None = None  # texts of the measures whose sums stand beside the counts
    measure_levels: tuple[str, ...] | None = None  # exact text; these add to the cost of the cells
    measure_stds: tuple[float, ...] | None = None  # of the noise of each, in units of its column

    @property
    def delta_spent(self) -> float:
        return self.delta_infinity or 0.0

    @property
    def sums(self) -> list[tuple[Measure, str, float]]:
        """Measure, level and standard deviation of each column of sums."""
        columns = (self.measures or (), self.measure_levels or (), self.measure_stds or ())
        return [(Measure.parse(text), level, std) for text, level, std in zip(*columns, strict=True)]

    @property
    def family(self) -> Family:
        """The law of the noise of one cell."""
        return family_named(self.noise, self.max_keys)


@dataclass(frozen=True, kw_only=True)
class RunningMetadata(CellMetadata):
    """What a release of running counts says."""

    kind = "running"

    step: int  # from 1: units up to it are counted, each once per key
    steps: int  # of the whole series; the noise is made for all of them
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


def shared(declaration: Declaration) -> dict[str, Any]:
    """The fields that a declaration fixes for every release of its series."""
    domain, same = declaration.domain, ("population", "noise", "max_keys", "key", "most_keys", "period")
    return {name: getattr(declaration, name) for name in same} | {
        "series": declaration.name,
        "domain": domain.describe(),
        "domain_size": None if domain.is_open else str(domain.size),
        "cap": declaration.cap_text,
        "bounding": None if declaration.most_keys is None else "share",
        "portable": declaration.portable or None,
        "verified": False if declaration.unverified else None,
        "source": declaration.source or None,
        "neighbours": NEIGHBOURS.format(declaration.unit_text if isinstance(declaration.unit, tuple) else "unit"),
    }


def read_metadata(stored: Mapping[str, Any]) -> CellMetadata | WorkloadMetadata | InteractiveMetadata:
    """Read what `as_dict` gave."""
    record = _RECORDS.get(str(stored.get("kind")), CellMetadata)
    given: dict[str, Any] = {}
    for each in fields(record):
        if each.name in stored:
            value = stored[each.name]
            given[each.name] = tuple(value) if isinstance(value, list) else value
            if not _fits(given[each.name], str(each.type)):
                raise InputError(f"the metadata of a release has a {each.name!r} that is not of type {each.type}")
        elif each.default is MISSING:
            raise InputError(f"the metadata of a release has no {each.name!r}: another version wrote it")
    return record(**given)


_RECORDS: dict[str, type[CellMetadata | WorkloadMetadata | InteractiveMetadata]] = {
    record.kind: record for record in (CellMetadata, RunningMetadata, WorkloadMetadata, InteractiveMetadata)
}
_KINDS: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "bool": bool,
    "float": (float, int),
    "tuple[str, ...]": tuple,
    "tuple[float, ...]": tuple,
    "None": type(None),
}


def _fits(value: object, declared: str) -> bool:
    """Whether a value is of the type a field declares; True is not a number here."""
    kinds = [_KINDS[kind] for kind in declared.split(" | ")]
    if isinstance(value, bool):
        return bool in kinds
    parts = (float, int) if declared.startswith("tuple[float") else str
    return any(isinstance(value, kind) for kind in kinds) and all(
        isinstance(part, parts) for part in (value if isinstance(value, tuple) else ())
    )
