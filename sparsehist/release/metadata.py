"""Requests and metadata of releases: frozen records of public values, fixed before anything is drawn.

Terminals and notebooks show them as rows of a name and a value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from fractions import Fraction
from typing import Any, ClassVar

from sparsehist.declaration import Declaration
from sparsehist.declaration.parameters import rows as parameter_rows
from sparsehist.errors import DeclarationError, InputError, LevelError, raise_alone
from sparsehist.ledger.spent import PathName
from sparsehist.noise import Family, Gaussian
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.privacy.guarantees import EpsilonDelta, level_or_goal
from sparsehist.privacy.levels import in_prose


@dataclass(frozen=True)
class Request:
    """The parameters of a release. A parameter that is None agrees with any existing release of that name.

    `goal` is an (epsilon, delta) in place of a level. `open_room` is the delta that budget and goal leave for open
    domains, or None if neither limits it.
    """

    kind: ClassVar[str]

    name: str
    level: Fraction | None = None
    goal: EpsilonDelta | None = field(default=None, kw_only=True)
    open_room: float | None = field(default=None, kw_only=True)

    @property
    def beside(self) -> tuple[tuple[PathName, Fraction], ...]:
        """Further noise paths on which this release spends a level, each with its level."""
        return ()

    @property
    def missing(self) -> list[str]:
        """Required parameters of a new release that are missing, such as "level="."""
        return ["level="] if self.level is None and self.goal is None else []

    def as_json(self) -> dict[str, Any]:
        """Return the parameters as they are stored and compared; None and "auto" agree with any stored value."""
        level = None if self.level is None else level_text(self.level)
        return {"level": level, "epsilon_delta": None if self.goal is None else self.goal.text}


def level_fields(
    level: Level | EpsilonDelta | None, epsilon: Level | None = None, delta: Level | None = None
) -> dict[str, Any]:
    """Return the fields `level` and `goal` of a request from the caller's parameters; at most one is set."""
    if epsilon is not None or delta is not None:
        if level is not None or epsilon is None:
            wrong = "give level= or epsilon= with delta=, not both" if level is not None else "delta= needs epsilon="
            raise DeclarationError(wrong, parameter="epsilon")
        level = EpsilonDelta(epsilon, 0 if delta is None else delta)
    read = None if level is None else level_or_goal(level)
    return {"level": None, "goal": read} if isinstance(read, EpsilonDelta) else {"level": read, "goal": None}


def check_std(std: float, least: float, largest: float, unit: str, where: str = "") -> None:
    """Refuse a level whose noise, added to a count or sum, would not fit in a double on the grid."""
    if not least <= std <= largest:
        wrong, right = ("fine", "smaller") if std < least else ("coarse", "larger")
        raise LevelError(
            f"the level is too {wrong}{where}: the standard deviation of its noise is {std:.3g} {unit}, and must be "
            f"from {least:.3g} to {largest:.3g}: give a {right} level"
        )


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """The public parameters of a release of any kind, with the declaration of its series.

    `as_dict` omits fields with the default None. The store fills in `guarantee` and the last four fields. Levels and
    costs are exact text.
    """

    kind: ClassVar[str]

    name: str
    level: str
    std: float  # std of the noise of a cell, or the root mean square over all answers; in counts
    grid: float  # step of the grid: every published number is a multiple
    threshold: float | None  # declared or chosen threshold; None if everything is published
    numerical_slack: float  # bound on the total variation distance from the stated law
    guarantee: str = ""  # in words
    declaration: Declaration  # for a running series, `source` covers the steps up to the released one
    epsilon_delta: str | None = None  # the requested (epsilon, delta), if a level was not requested
    per_period: str | None = None  # cost to one unit and period of all releases of periods so far
    per_user: str | None = None  # cost to one unit of all releases of all periods so far
    store: str | None = None
    round: str | None = None  # random id: two rounds may share a name or a generation
    released_at: str | None = None  # UTC, fixed before anything is drawn
    generation: int | None = None  # generation of the store after this release

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
        """Delta of an open domain that this and all earlier releases of the noise path spent."""
        return 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return a dict of JSON values for people and files, with keys in the order of the fields."""
        values = {"kind": self.kind, "series": self.series, "noise": self.noise}
        for each in fields(self):
            if each.default is not None or getattr(self, each.name) is not None:
                values[each.name] = getattr(self, each.name)
        return values | {"declaration": self.declaration.as_json()}


@dataclass(frozen=True, kw_only=True)
class CellMetadata(Metadata):
    """Metadata of a release of cells."""

    kind = "cells"

    noise_mean: float  # in counts
    effective_threshold: float  # threshold on the grid: a cell is published if its rounded noisy count is above
    false_keys: float | None  # the expected number of false keys that was requested
    expected_false_keys: float  # expected number of empty cells published (spurious keys)
    delta_share: float | None = None  # the requested delta of the open domain
    delta_infinity: float | None = None  # bound on the delta of this and all earlier releases
    delta_remaining: float | None = None
    counts: str | None = None  # meaning of a count, unless it is the number of units
    measure_levels: dict[str, str] | None = None  # level by measure; its cost is added to the cost of the counts
    measure_stds: dict[str, float] | None = None  # std of the noise by measure, in units of its column

    @property
    def delta_spent(self) -> float:
        return self.delta_infinity or 0.0

    @property
    def family(self) -> Family:
        """The law of the noise of one cell."""
        return self.declaration.family


@dataclass(frozen=True, kw_only=True)
class RunningMetadata(CellMetadata):
    """Metadata of a release of running counts."""

    kind = "running"

    step: int  # from 1; each unit up to this step counts once per key

    @property
    def family(self) -> Family:
        return Gaussian(self.std * math.sqrt(2 * as_level(self.level)))


@dataclass(frozen=True, kw_only=True)
class WorkloadMetadata(Metadata):
    """Metadata of a release of a workload."""

    kind = "workload"

    workload: str
    strategy: str
    noise_std: float  # std of the noise added to each measurement of the strategy, in counts
    least_std: float  # std of the answer with the least noise, in counts
    sensitivity: float  # sensitivity of the measurements, in the norm that the noise needs
    cell_grid: float | None  # grid of the noise of each cell; None if answers were rounded instead
    counts: str | None = None  # meaning of an answer: units, or units counted once per cell


@dataclass(frozen=True, kw_only=True)
class InteractiveMetadata(Metadata):
    """Metadata of a session of interactive queries, and of each measured answer."""

    kind = "interactive"

    accuracy: str  # largest error as a share of the mass; exact text
    most_updates: int  # number of answers that the session can measure
    mass: int | None  # declared sum of all bounded counts; None if measured with part of the level
    start: str | None = None  # the release that gave the first hypothesis
    update: int | None = None  # number of this answer; None for the session itself


_Known = CellMetadata | WorkloadMetadata | InteractiveMetadata
_RECORDS: dict[str, type[_Known]] = {
    record.kind: record for record in (CellMetadata, RunningMetadata, WorkloadMetadata, InteractiveMetadata)
}

_TYPES: dict[str, Any] = {"str": str, "int": int, "float": float | int, "None": type(None), "dict": dict}


def read_metadata(stored: Mapping[str, Any]) -> _Known:
    """Read the result of `as_dict`, which anybody may have written: open and import nothing that it names."""
    record = _RECORDS.get(str(stored.get("kind")), CellMetadata)
    values: dict[str, Any] = {}
    for each in fields(record):
        value = stored.get(each.name, each.default)
        if value is MISSING:
            raise InputError(f"the metadata of a release has no {each.name!r}: another version wrote it")
        if each.name == "declaration":
            values[each.name] = _read_declaration(value)
            continue
        fits = any(isinstance(value, _TYPES[kind.partition("[")[0]]) for kind in str(each.type).split(" | "))
        if not fits or isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
            raise InputError(f"the metadata of a release has a {each.name!r} that is not of type {each.type}")
        values[each.name] = value
    return record(**values)


def _read_declaration(stored: Any) -> Declaration:
    try:
        return Declaration.from_json(stored)
    except (InputError, KeyError, TypeError, AttributeError, RecursionError):
        raise_alone(InputError("the metadata of a release has a declaration that cannot be read"))


def declaration_rows(declared: Declaration) -> list[tuple[str, str]]:
    """Return the public parameters of a series as rows for people."""
    counts = [] if declared.unit else [("unit", "counts bounded elsewhere")]
    return [*counts, *parameter_rows(declared), *([("guarantee", declared.rests_on)] if declared.rests_on else [])]


def level_in_words(metadata: Metadata) -> str:
    """Return the requested level; or the requested (epsilon, delta), and the level chosen for it."""
    if metadata.epsilon_delta is None:
        return metadata.level
    goal = EpsilonDelta.parse(metadata.epsilon_delta).in_words
    return f"{goal} (level {level_text(in_prose(as_level(metadata.level)))})"


def release_rows(metadata: Metadata) -> list[tuple[str, str]]:
    """Return the parameters needed to interpret a count or an answer, as rows."""
    guarantee = metadata.guarantee.replace("numerical_slack", f"a numerical slack of {metadata.numerical_slack:.1g}")
    rows = [("level", level_in_words(metadata)), ("guarantee", guarantee)]
    std = f"{metadata.noise}, standard deviation{{}} {metadata.std:.4g} units"
    if isinstance(metadata, WorkloadMetadata):
        noise = f"{std.format(' of an answer')} (root mean square)"
        rows.insert(0, ("workload", f"{metadata.workload}, by {metadata.strategy}"))
        return [*rows, ("noise", noise), ("counts", metadata.counts or "units")]
    rows.append(("noise", std.format("")))
    if isinstance(metadata, RunningMetadata):
        rows.insert(0, ("step", f"{metadata.step} of {metadata.declaration.n_steps}"))
    if isinstance(metadata, CellMetadata):
        for name, level in (metadata.measure_levels or {}).items():
            std = f"{(metadata.measure_stds or {})[name]:.4g}"
            rows.append((f"{name}_sum", f"level {level}, standard deviation {std}"))
        rows.append(("threshold", f"{metadata.threshold:,.4f} units"))
        rows.append(("expected false keys", f"{metadata.expected_false_keys:.3g}"))
        if metadata.delta_infinity is not None:
            spent = f"{metadata.delta_infinity:.4g} spent so far, {metadata.delta_remaining:.4g} left"
            rows.append(("delta of the series", spent))
    return rows
