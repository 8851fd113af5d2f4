"""Growing logs: a running series has steps, a periodic series has one histogram per day, week or month."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

from sparsehist.declaration.checks import checked_choice, checked_whole
from sparsehist.errors import DeclarationError, shown
from sparsehist.privacy import Level
from sparsehist.privacy.guarantees import EpsilonDelta, level_or_goal
from sparsehist.text_form import Notation, write_record

MOST_STEPS = 2000
"""The noise of all steps is one matrix, built by each process: one second at 2,000 steps."""

USER = "user"
_DAYS = {"day": 1, "week": 7}
_PER_YEAR = {"day": 365, "week": 52, "month": 12}
_MOST_PERIODS = 10_000


@dataclass(frozen=True)
class Steps:
    """The steps of a running series.

    Attributes:
        number: How many steps there will be at most; from 2 to 2,000. The noise of all steps is designed for this
            number and grows with its logarithm.
        start: First day of the first step, a date or its text; None to name steps by number only.
        every: "day" or "week".

    Example:
        >>> days = Steps(365, start="2026-01-01")
        >>> days.step_of("2026-01-03"), days.step_of(3), str(days)
        (3, 3, "steps(365, start='2026-01-01')")
    """

    number: int
    start: date | str | None = None
    every: str = "day"

    def __post_init__(self) -> None:
        checked_whole("steps", self.number, 2, MOST_STEPS)
        checked_choice("every", self.every, tuple(_DAYS))
        if self.start is not None:
            object.__setattr__(self, "start", _day("start", self.start))

    def step_of(self, step: int | str | date) -> int:
        """Return the number of a step, from 1, given that number or a day in it.

        Raises:
            DeclarationError: If it is none of the steps.
        """
        if isinstance(step, int) and not isinstance(step, bool):
            return checked_whole("step", step, 1, self.number)
        if self.start is None:
            raise DeclarationError(
                f"step must be a number from 1 to {self.number}, got {shown(step)}; days name steps where they were "
                "declared with start=, as in sh.Steps(365, start='2026-01-01')",
                parameter="step",
            )
        day = _day("step", step)
        first = _day("start", self.start)
        number = (day - first).days // _DAYS[self.every] + 1
        if not 1 <= number <= self.number:
            last = first + timedelta(days=self.number * _DAYS[self.every] - 1)
            raise DeclarationError(f"step {day} does not lie from {first} to {last}", parameter="step")
        return number

    def __str__(self) -> str:
        if self.start is None:
            return str(self.number)
        return write_record("steps", self, first="number")


def _day(what: str, value: Any) -> date:
    """Read a day: a date, or its text."""
    if type(value) is date:
        return value
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise DeclarationError(
            f"{what} must be a day such as '2026-01-31', got {shown(value)}", parameter=what
        ) from None


@dataclass(frozen=True)
class Every:
    """The periods of a periodic series: one histogram each, and one budget for all.

    Attributes:
        period: "day", "week" (ISO), "month", or a number of steps.
        periods: How many there will be at most; those of a year by default.
        protects: What the budget counts for. "user": one unit over all periods, whose cost is the sum. "user-week"
            ("user-day", …): one unit in one period, whose cost is that of the costliest.
        most_periods: In how many periods a unit counts at most, the first ones that are added; None for all. The cost
            for one unit is then that of as many of the costliest periods, for one unit in one period that of two.
        budget: rho, or `sh.EpsilonDelta(8, 1e-6)`, that the releases together never exceed; None for none.

    Example:
        >>> str(Every("week", periods=10)), Every("month").n_periods
        ("every('week', periods=10)", 12)
    """

    period: str | int
    periods: int | None = None
    protects: str = USER
    most_periods: int | None = None
    budget: Level | EpsilonDelta | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.period, str) and self.period in _PER_YEAR):
            text = self.period if isinstance(self.period, str) else None
            number = int(text) if text is not None and text.isdecimal() and len(text) < 6 else self.period
            if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= _MOST_PERIODS:
                raise DeclarationError(
                    f"every must be 'day', 'week', 'month' or a number of steps, got {shown(self.period)}",
                    parameter="every",
                )
            object.__setattr__(self, "period", str(number))
        if self.periods is not None:
            checked_whole("periods", self.periods, 1, _MOST_PERIODS)
        if self.periods == self._usual:
            object.__setattr__(self, "periods", None)
        if self.most_periods is not None:
            checked_whole("most_periods", self.most_periods, 1, _MOST_PERIODS)
        checked_choice("protects", self.protects, (USER, self.unit_period))
        if self.budget is not None:
            object.__setattr__(self, "budget", level_or_goal(self.budget))

    @property
    def n_periods(self) -> int:
        """How many periods there will be at most."""
        return self._usual if self.periods is None else self.periods

    @property
    def _usual(self) -> int:
        return _PER_YEAR.get(str(self.period), 365)

    @property
    def what(self) -> str:
        """The name of one period, such as "week"."""
        return str(self.period) if self.period in _PER_YEAR else "period"

    @property
    def unit_period(self) -> str:
        """What one unit in one period is called: "user-week"."""
        return f"{USER}-{self.what}"

    def per_period(self, n_periods: int) -> int:
        """How many of the costliest periods add up for one unit in one period, if there are that many.

        Two where a unit counts in some periods only: taking it out of one lets a later one count it
        (docs/mathematics.md, Periods).
        """
        return 1 if self.most_periods is None or n_periods <= self.most_periods else 2

    def protected(self, n_periods: int) -> int | None:
        """How many of the costliest periods a budget adds up, if there are that many; None for all."""
        return self.most_periods if self.protects == USER else self.per_period(n_periods)

    def names(self, log: str, series: str) -> bool:
        """Whether a name could be that of a period of the given log."""
        name = r"\d{4}w\d\d" if self.period == "week" else r"\d+"
        return series.startswith(f"{log}_") and bool(re.fullmatch(name, series.removeprefix(f"{log}_")))

    def __str__(self) -> str:
        """Everything but the budget, which may change later."""
        return write_record("every", self, first="period", without="budget")


_NOTATION = Notation(
    "recurrence", "numbers and texts", lambda: "write steps(365, start='2026-01-01') or every('week', periods=52)",
    bare=True,
)  # fmt: skip


def steps_of(value: object) -> Steps:
    """Read steps: a record, a number, or a text such as "365" or "steps(365, start='2026-01-01')"."""
    if isinstance(value, Steps):
        return value
    if isinstance(value, str) and not value.strip().isdecimal():
        return _NOTATION.record(value, {"steps": Steps}, "steps")
    number: Any = int(value) if isinstance(value, str) and len(value) < 9 else value
    return Steps(number)


def every_of(value: object) -> Every:
    """Read periods: a record, a period's name, or a text such as "every('week', periods=52)"."""
    if isinstance(value, Every):
        return value
    if isinstance(value, str) and "(" in value:
        return _NOTATION.record(value, {"every": Every}, "every")
    period: Any = value
    return Every(period)


def without_budget(every: Every) -> Every:
    """The same periods without a budget: the ledger keeps that one."""
    return replace(every, budget=None)
