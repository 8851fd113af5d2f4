"""Parameters of logs that grow: the steps of a running series and the periods of a periodic series."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import Any

from sparsehist.declaration.checks import checked, checked_choice, checked_whole
from sparsehist.declaration.parameters import Record, parameter, reader
from sparsehist.errors import DeclarationError, shown
from sparsehist.privacy import Level
from sparsehist.privacy.guarantees import EpsilonDelta, level_or_goal

MOST_STEPS = 2000
"""Largest number of steps. Each process computes a matrix for the noise of all steps, in one second for 2,000."""

USER = "user"
_DAYS = {"day": 1, "week": 7}
_PER_YEAR = {"day": 365, "week": 52, "month": 12}
_MOST_PERIODS = 10_000


def _day(what: str, day: Any) -> date:
    """Return a date, which may be given as a string such as '2026-01-31'."""
    if type(day) is date:
        return day
    with suppress(TypeError, ValueError):
        return date.fromisoformat(day)
    raise DeclarationError(f"{what} must be a day such as '2026-01-31', got {shown(day)}", parameter=what)


@dataclass(frozen=True)
class Steps(Record):
    """The steps of a running series.

    Attributes:
        number: Largest number of steps, from 2 to 2,000. The noise is designed for this number of steps and grows
            with its logarithm.
        start: First day of the first step, a date or a string. Without it, steps can be given only by number.
        every: Length of a step: "day" or "week".

    Example:
        >>> days = Steps(365, start="2026-01-01")
        >>> days.step_of("2026-01-03"), days.step_of(3), str(days)
        (3, 3, "steps(365, start='2026-01-01')")
    """

    number: int = parameter(read=partial(checked_whole, "steps", least=2, most=MOST_STEPS))
    start: date | str | None = parameter(default=None, read=partial(_day, "start"))
    every: str = parameter(default="day", choices=tuple(_DAYS))

    def step_of(self, step: int | str | date) -> int:
        """Return the number of a step, counted from 1. `step` is this number, or a day within the step.

        Raises:
            DeclarationError: If there is no such step.
        """
        if isinstance(step, int) and not isinstance(step, bool):
            return checked_whole("step", step, 1, self.number)
        rule = f"step must be a number from 1 to {self.number}, or a day if steps were declared with start="
        checked(self.start is not None, rule, step, "step")
        day, first, width = _day("step", step), _day("start", self.start), _DAYS[self.every]
        number = (day - first).days // width + 1
        if not 1 <= number <= self.number:
            last = first + timedelta(self.number * width - 1)
            raise DeclarationError(f"the day of a step must be from {first} to {last}, got {day}", parameter="step")
        return number


@dataclass(frozen=True)
class Every(Record):
    """The periods of a periodic series. Each period has its own histogram, and all periods share one budget.

    Attributes:
        period: "day", "week" (ISO) or "month".
        periods: Largest number of periods; by default the number of periods in a year.
        protects: Privacy unit of the budget. "user": all rows of a unit; the costs of all periods add up. "user-week"
            (or "user-day", …): the rows of a unit in one period; the cost is that of the costliest period.
        most_periods: Largest number of periods in which a unit counts, in the order appended; by default all. If set,
            the budget adds up this number of costliest periods for "user", and two periods for "user-week".
        budget: Limit on the cost of all releases together: rho or `sh.EpsilonDelta(8, 1e-6)`; by default no limit.
            The budget may change later, so the text form of the record omits it.

    Example:
        >>> str(Every("week", periods=10)), Every("month").n_periods
        ("every('week', periods=10)", 12)
    """

    period: str = parameter(choices=tuple(_PER_YEAR))
    periods: int | None = parameter(default=None, least=1, most=_MOST_PERIODS)
    protects: str = parameter(default=USER)
    most_periods: int | None = parameter(default=None, least=1, most=_MOST_PERIODS)
    budget: Level | EpsilonDelta | None = parameter(default=None, read=level_or_goal, compared=False)

    def __post_init__(self) -> None:
        """Check each parameter. Store the default of `periods` as None, so that equal records have equal texts."""
        super().__post_init__()
        checked_choice("protects", self.protects, (USER, self.unit_period))
        if self.periods == _PER_YEAR[self.period]:
            self._fix("periods", None)

    @property
    def n_periods(self) -> int:
        """Largest number of periods."""
        return self.periods or _PER_YEAR[self.period]

    @property
    def unit_period(self) -> str:
        """Name of the privacy unit "all rows of one unit in one period", such as "user-week"."""
        return f"{USER}-{self.period}"

    def per_period(self, n_periods: int) -> int:
        """Return the number of periods that can change if the rows of one unit in one period are removed: 1 or 2.

        Two periods can change if `most_periods` is set, because the unit may then count in a later period instead
        (docs/mathematics.md, Periods).
        """
        return 1 if self.most_periods is None or n_periods <= self.most_periods else 2

    def protected(self, n_periods: int) -> int | None:
        """Return n if the budget adds up the costs of the n costliest periods, or None if it adds up all costs."""
        return self.most_periods if self.protects == USER else self.per_period(n_periods)

    def names(self, log: str, series: str) -> bool:
        """Return whether a series called `series` could be one period of the periodic series called `log`."""
        name = r"\d{4}w\d\d" if self.period == "week" else r"\d+"
        return re.fullmatch(f"{log}_{name}", series) is not None


steps_of = reader("steps", "write steps(365, start='2026-01-01')", Steps)
every_of = reader("every", "write every('week', periods=52)", Every)
