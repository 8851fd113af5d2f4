"""Sums of measures beside a release of cells: levels, noise and cost, from public parameters alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sparsehist.declaration import Declaration
from sparsehist.declaration.measures import Measure
from sparsehist.errors import DeclarationError, LevelError, shown
from sparsehist.histogram import numerical_slack
from sparsehist.noise.family import Family
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.release.metadata import CellMetadata

_LEAST_STD, _LARGEST_STD = 2.0**-2, 2.0**46
"""In steps: within these a sum, its noise and their grid fit into a double."""
_BITS_BELOW_STD = 4


@dataclass(frozen=True)
class SumsAsked:
    """The sums of one measure at a level.

    Attributes:
        measure: What is added up.
        family: Noise of a sum, in steps.
        level: Of its noise path.
    """

    measure: Measure
    family: Family
    level: Fraction

    def __post_init__(self) -> None:
        """Refuse a level whose noise does not fit into a double with the sums."""
        std = self.family.std(self.level)
        if not _LEAST_STD <= std <= _LARGEST_STD:
            fine = std < _LEAST_STD
            raise LevelError(
                f"level {level_text(self.level)} is too {'fine' if fine else 'coarse'} for the measure "
                f"{self.measure.name!r}: the standard deviation of its noise is {std:.3g} steps, and must be from "
                f"{_LEAST_STD:.3g} to {_LARGEST_STD:.3g}: ask for a {'smaller' if fine else 'larger'} level"
            )

    @property
    def std(self) -> float:
        """Standard deviation of the noise, in units of the column."""
        return self.family.std(self.level) * float(self.measure.step)

    @property
    def grid(self) -> float:
        """The grid of published sums, in steps: a power of two near a sixteenth of the standard deviation.

        Unlike that of counts it may be above 1: truth and noise are rounded together.
        """
        if self.family.integer:
            return 1.0
        return math.ldexp(1.0, math.frexp(self.family.std(self.level))[1] - 1 - _BITS_BELOW_STD)

    @property
    def statement(self) -> str:
        """What the sums add to the guarantee of the counts, in words."""
        return f"; {self.measure.sum_column}, on a noise path of its own, adds {self.family.statement(self.level)}"


def levels_by_name(measures: Sequence[Measure], asked: Level | Mapping[str, Level]) -> dict[str, Level]:
    """Read measures=: a level for all measures, or a level by name, also as text: price=0.5, events=1/3."""
    if isinstance(asked, str) and "=" in asked:
        pairs = [part.partition("=") for part in asked.split(",")]
        asked = {name.strip(): level.strip() for name, _, level in pairs}
        if len(asked) < len(pairs):
            raise DeclarationError("measures= names a measure twice: give one level for each", parameter="measures")
    names = [measure.name for measure in measures]
    if not names:
        raise DeclarationError(
            "the series has no measures: declare them when it is created, measures=[sh.Measure(…)]",
            parameter="measures",
        )
    given = asked if isinstance(asked, Mapping) else dict.fromkeys(names, asked)
    if not given or not set(given) <= set(names):
        raise DeclarationError(
            f"measures= names measures of the series with their levels, or gives one level for all of "
            f"{', '.join(names)}, got {shown(asked)}",
            parameter="measures",
        )
    return dict(given)


def sums_asked(declaration: Declaration, asked: Level | Mapping[str, Level] | None) -> tuple[SumsAsked, ...]:
    """The sums of the measures of a series at the levels that measures= names."""
    levels = {} if asked is None else levels_by_name(declaration.measures, asked)
    return tuple(
        SumsAsked(each, each.noise(declaration.family), _level(each.name, levels[each.name]))
        for each in declaration.measures
        if each.name in levels
    )


def _level(name: str, value: Level) -> Fraction:
    if isinstance(value, EpsilonDelta):
        raise LevelError(
            f"the measure {name} takes a level, such as 0.5: epsilon with delta stands for the level of the counts"
        )
    return as_level(value, f"the level of the measure {name}")


def measure_metadata(asked: Sequence[SumsAsked]) -> dict[str, Any]:
    """Return the metadata about the measures of a release; empty without measures."""
    if not asked:
        return {}
    return {
        "measure_levels": {sums.measure.name: level_text(sums.level) for sums in asked},
        "measure_stds": {sums.measure.name: sums.std for sums in asked},
    }


def sums_published(about: CellMetadata) -> tuple[SumsAsked, ...]:
    """The measures of a release, read off its metadata."""
    return sums_asked(about.declaration, about.measure_levels)


def measure_slack(declaration: Declaration, asked: Sequence[SumsAsked]) -> float:
    """What the sums of a release add to its numerical slack."""
    return math.fsum(
        numerical_slack(declaration.most_touched, sums.family.std(sums.level), sums.grid) for sums in asked
    )
