"""Requests and metadata of releases: frozen records of public values, fixed before noise is drawn.

Terminals and notebooks show metadata as a table with the columns name and value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from fractions import Fraction
from typing import Any, ClassVar

from sparsehist.declaration import Declaration
from sparsehist.declaration.parameters import rows as parameter_rows
from sparsehist.errors import DeclarationError, InputError, LevelError, raise_alone, read_each
from sparsehist.ledger.spent import PathName
from sparsehist.noise import Family, Gaussian
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.privacy.guarantees import EpsilonDelta, level_or_goal
from sparsehist.privacy.levels import in_prose

Levels = Level | EpsilonDelta | Iterable[Level | EpsilonDelta] | None
LEVELS = ("0.001", "0.01", "0.1", "1")
"""Candidate levels of a plan, by default."""


@dataclass(frozen=True)
class Request:
    """The parameters of a release, as a caller requested them.

    If the release exists already, parameters that are None are not compared with it. `goal` is an (epsilon, delta)
    that was requested instead of a level. `open_room` is the delta that a release of an open domain may still spend,
    given the budget and the goal; None if neither limits it.
    """

    kind: ClassVar[str]

    name: str
    level: Fraction | None = None
    goal: EpsilonDelta | None = field(default=None, kw_only=True)
    open_room: float | None = field(default=None, kw_only=True)

    @property
    def beside(self) -> tuple[tuple[PathName, Fraction], ...]:
        """Noise paths that a release uses besides its own, such as paths of measures, with the level on each path."""
        return ()

    @property
    def missing(self) -> list[str]:
        """Names of parameters that a new release needs but that were not given, such as "level="."""
        return ["level="] if self.level is None and self.goal is None else []

    def as_json(self) -> dict[str, Any]:
        """Return the parameters as JSON, to store and compare them. Comparisons ignore the values None and "auto"."""
        level = None if self.level is None else level_text(self.level)
        return {"level": level, "epsilon_delta": None if self.goal is None else self.goal.text}


def level_fields(
    level: Level | EpsilonDelta | None, epsilon: Level | None = None, delta: Level | None = None
) -> dict[str, Any]:
    """Return the fields `level` and `goal` of a request for a level or for an (epsilon, delta) pair.

    A level sets only `level`, and (epsilon, delta) sets only `goal`; the other field is None.
    """
    if epsilon is not None or delta is not None:
        if level is not None or epsilon is None:
            wrong = "give level= or epsilon= with delta=, not both" if level is not None else "delta= needs epsilon="
            raise DeclarationError(wrong, parameter="epsilon")
        level = EpsilonDelta(epsilon, 0 if delta is None else delta)
    read = None if level is None else level_or_goal(level)
    return {"level": None, "goal": read} if isinstance(read, EpsilonDelta) else {"level": read, "goal": None}


def checked_levels(
    levels: Levels, epsilon: Level | None = None, delta: Level | None = None
) -> list[Fraction | EpsilonDelta]:
    """Check the candidate levels of a plan. Return them without duplicates, or [] if none were given.

    A candidate is a level or an (epsilon, delta) pair; `epsilon` and `delta` together give one candidate.
    """
    if epsilon is not None or delta is not None:
        return [level_fields(levels, epsilon, delta)["goal"]]  # type: ignore[arg-type]
    if levels is None:
        return []
    rule = "a positive, finite number (such as 0.1, '1/3' or 2)"
    exact = list(dict.fromkeys(read_each("levels", levels, level_or_goal, rule)))
    if not exact:
        raise DeclarationError("plan needs at least one level")
    return exact


def check_std(std: float, least: float, largest: float, unit: str, where: str = "") -> None:
    """Raise a LevelError if noise with this standard deviation cannot be added exactly in double precision."""
    if not least <= std <= largest:
        wrong, right = ("fine", "smaller") if std < least else ("coarse", "larger")
        raise LevelError(
            f"the standard deviation of the noise must be from {least:.3g} to {largest:.3g} {unit}, got {std:.3g}: "
            f"the level is too {wrong}{where}; give a {right} level"
        )


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """The public parameters of a release of any kind, with the declaration of its series.

    Levels and costs are exact numbers as text. `guarantee` and the optional fields of this class are filled in just
    before noise is drawn. `as_dict` omits optional fields that are None.
    """

    kind: ClassVar[str]

    name: str
    level: str
    std: float  # standard deviation of a cell's noise (for workloads, root mean square over answers), in counts
    grid: float  # spacing of the grid, in counts; published numbers are multiples of this spacing
    threshold: float | None  # threshold in counts; None if every cell or answer is published
    numerical_slack: float  # bound on the total variation distance of the release from its stated distribution
    guarantee: str = ""  # in words
    declaration: Declaration  # for a running series, its `source` describes all steps up to the released step
    epsilon_delta: str | None = None  # the (epsilon, delta) that was requested instead of a level
    # Only in a periodic series: total cost of all releases so far, as a rho. `per_period` is the cost if only the
    # rows of a unit in one period are protected, and `per_user` is the cost if all its rows are protected.
    per_period: str | None = None
    per_user: str | None = None
    store: str | None = None
    round: str | None = None  # random id of the release, because names and generations may repeat
    released_at: str | None = None  # time in UTC, read before noise is drawn
    generation: int | None = None  # generation (number of commits) of the store after this release

    @property
    def series(self) -> str:
        """Name of the series."""
        return self.declaration.name

    @property
    def noise(self) -> str:
        """Name of the noise family."""
        return self.declaration.noise

    @property
    def delta_spent(self) -> float:
        """Delta spent on the noise path so far, including this release; 0 unless the domain is open."""
        return 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the metadata as a dict of JSON values, in the order of the fields."""
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
    effective_threshold: float  # a cell is published if its count plus unrounded noise is above this threshold
    false_keys: float | None  # target for `expected_false_keys`; None in open domains, or if a threshold was given
    expected_false_keys: float  # expected number of empty cells that are published
    delta_share: float | None = None  # delta that this release may spend in an open domain (requested or default)
    delta_infinity: float | None = None  # delta spent so far in an open domain, including this release
    delta_remaining: float | None = None
    counts: str | None = None  # what a count means, in words; None if it is a number of units
    measure_levels: dict[str, str] | None = None  # level of each measure, charged in addition to the level of counts
    measure_stds: dict[str, float] | None = None  # standard deviation of each measure's sums, in units of its column

    @property
    def delta_spent(self) -> float:
        return self.delta_infinity or 0.0

    @property
    def family(self) -> Family:
        """The noise family of one cell, in counts."""
        return self.declaration.family


@dataclass(frozen=True, kw_only=True)
class RunningMetadata(CellMetadata):
    """Metadata of a release of running counts."""

    kind = "running"

    step: int  # number of the released step, from 1; a count covers all steps up to this step

    @property
    def family(self) -> Family:
        return Gaussian(self.std * math.sqrt(2 * as_level(self.level)))


@dataclass(frozen=True, kw_only=True)
class WorkloadMetadata(Metadata):
    """Metadata of a release of a workload."""

    kind = "workload"

    workload: str
    strategy: str
    noise_std: float  # standard deviation of the noise Z of each entry of R·x, in counts
    least_std: float  # standard deviation of the answer with the least noise, in counts
    sensitivity: float  # sensitivity of R·x: in L2 for Gaussian noise, otherwise in L1
    cell_grid: float | None  # grid to which the noise of cells was rounded; None if answers were rounded instead
    counts: str | None = None  # what an answer counts: distinct units, or pairs of a unit and a cell that it touched


@dataclass(frozen=True, kw_only=True)
class InteractiveMetadata(Metadata):
    """Metadata of a session of interactive queries, and of each measured answer."""

    kind = "interactive"

    accuracy: str  # declared bound on an answer's error, as a fraction of the sum of all counts; exact number as text
    most_updates: int  # largest number of answers that the session can measure
    mass: int | None  # declared sum of all bounded counts; None if the session measured this sum
    start: str | None = None  # release whose counts are the session's first estimates; None if there is none
    update: int | None = None  # number of this measured answer; None for the session as a whole


_Known = CellMetadata | WorkloadMetadata | InteractiveMetadata
_RECORDS: dict[str, type[_Known]] = {
    record.kind: record for record in (CellMetadata, RunningMetadata, WorkloadMetadata, InteractiveMetadata)
}

_TYPES: dict[str, Any] = {"str": str, "int": int, "float": float | int, "None": type(None), "dict": dict}


def read_metadata(stored: Mapping[str, Any]) -> _Known:
    """Read metadata that `as_dict` wrote. Open no file and import nothing, because the metadata may be forged."""
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
            raise InputError(f"a release's metadata has a field of the wrong type: {each.name!r} must be {each.type}")
        values[each.name] = value
    return record(**values)


def _read_declaration(stored: Any) -> Declaration:
    try:
        return Declaration.from_json(stored)
    except (InputError, KeyError, TypeError, AttributeError, RecursionError):
        raise_alone(InputError("the metadata of a release has a declaration that cannot be read"))


def declaration_rows(declared: Declaration) -> list[tuple[str, str]]:
    """Return the public parameters of a series as (name, value) rows for display."""
    counts = [] if declared.unit else [("unit", "counts bounded elsewhere")]
    return [*counts, *parameter_rows(declared), *([("guarantee", declared.rests_on)] if declared.rests_on else [])]


def level_in_words(metadata: Metadata) -> str:
    """Return the requested level, or the requested (epsilon, delta) with the level that was chosen for it."""
    if metadata.epsilon_delta is None:
        return metadata.level
    goal = EpsilonDelta.parse(metadata.epsilon_delta).in_words
    return f"{goal} (level {level_text(in_prose(as_level(metadata.level)))})"


def release_rows(metadata: Metadata) -> list[tuple[str, str]]:
    """Return the parameters needed to interpret a count or an answer, as (name, value) rows."""
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
