"""A log cut into periods: who is protected, and which periods one of them can be in.

What is spent on a period is borne by those who are in it. One unit in one period bears the costliest period; one unit
over all of them the sum, or, where a unit counts in at most `most_periods`, that many of the costliest. With such a
bound, first come and first kept, taking a unit out of one period lets one later period count it: then one unit in one
period bears the two costliest. No rule keeps more periods and does without that (docs/mathematics.md, Periods).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

USER = "user"
_NAMED = ("day", "week", "month")


@dataclass(frozen=True)
class Periods:
    """How a log is cut into periods, fixed before the first.

    Attributes:
        period: "day", "week", "month", or a whole number of steps as text.
        protects: What a budget counts for: "user", or "user-week" and the like, one unit in one period.
        most_periods: In how many periods a unit counts at most; None for all.
        periods: How many there will be at most.
        declaration: What the series of all periods share, as it is stored.
    """

    period: str
    protects: str
    most_periods: int | None
    periods: int
    declaration: Mapping[str, Any] = field(default_factory=dict)

    @property
    def what(self) -> str:
        """What one of them is called."""
        return self.period if self.period in _NAMED else "period"

    @property
    def unit_period(self) -> str:
        """What one unit in one period is called: "user-week"."""
        return f"{USER}-{self.what}"

    @property
    def per_user(self) -> int | None:
        """How many of the costliest periods add up for one unit; None for all."""
        return self.most_periods

    def per_period(self, n_periods: int) -> int:
        """How many of the costliest periods add up for one unit in one period, once there are so many."""
        return 1 if self.most_periods is None or n_periods <= self.most_periods else 2

    def protected(self, n_periods: int) -> int | None:
        """How many of the costliest periods a budget adds up, once there are so many; None for all."""
        return self.per_user if self.protects == USER else self.per_period(n_periods)

    def names(self, log: str, series: str) -> bool:
        """Whether a name is one that a period of the log of that name may take."""
        name = r"\d{4}w\d\d" if self.period == "week" else r"\d+"
        return series.startswith(f"{log}_") and bool(re.fullmatch(name, series.removeprefix(f"{log}_")))

    def as_json(self) -> dict[str, Any]:
        """As the event that declares them has it."""
        return asdict(self)
