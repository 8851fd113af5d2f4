"""What noise paths have spent, and what a release would add."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from sparsehist.noise import currency_of
from sparsehist.privacy import Cost, as_level, level_text, path_cost, total_cost
from sparsehist.privacy.composition import GAUSSIAN, POISSON, SKELLAM, ZCDP
from sparsehist.privacy.filters import LEAST_OF_MEANS
from sparsehist.privacy.levels import rounded_down

PathName = tuple[str, str | None, str | None]
"""Of a noise path: kind ("cells", "measure", "workload", "interactive"), measure, workload or session, strategy."""
CELLS: PathName = ("cells", None, None)
INTERACTIVE = "interactive"
_LONGEST_EXACT = 16
_LAWS = {"gaussian": GAUSSIAN, "poisson": POISSON, "skellam": SKELLAM}


def measure_path(name: str) -> PathName:
    """The noise path of a measure."""
    return ("measure", name, "sum")


@dataclass(frozen=True)
class Spending:
    """What a release would add to the ledger: public parameters, known before anything is drawn.

    `delta_infinity` is joint for all releases of the path, this one included; 0 but for open domains.
    """

    series_id: str
    level: Fraction
    path: PathName = CELLS
    delta_infinity: float = 0.0
    numerical_slack: float = 0.0

    @property
    def words(self) -> str:
        """The level and what it is asked for, as refusals say it."""
        kind, name, _ = self.path
        of = f" of the {kind} {name}" if kind in ("measure", "workload") else ""
        return f"requested level {amount_text(self.level)}{of}"


@dataclass(frozen=True)
class Spent:
    """What one noise path has spent: its finest level, with delta_infinity joint and slack summed over its releases.

    The cap is that of its series, as declared when that was created; the first generation is None where there was no
    release, or only a foreseen one.
    """

    series_id: str
    series: str
    population: str
    family: str
    max_keys: int
    cap: Fraction | None = None
    path: PathName = CELLS
    finest: Fraction | None = None
    releases: int = 0
    delta_infinity: float = 0.0
    numerical_slack: float = 0.0
    first_generation: int | None = None
    first_release: datetime | None = None
    last_release: datetime | None = None
    dropped: datetime | None = None
    unit: str | None = None
    unverified: bool = False
    source: str = ""

    @classmethod
    def under(cls, declaration: Mapping[str, Any], **spent: Any) -> Spent:
        """What a path has spent in a series with that declaration, as JSON."""
        cap, unit = declaration.get("cap"), declaration.get("unit")
        return cls(
            series=declaration["name"],
            population=declaration["population"],
            family=declaration["noise"],
            max_keys=declaration.get("max_keys") or 1,
            cap=None if cap is None else as_level(cap),
            unit=f"({', '.join(unit)})" if isinstance(unit, list) else unit,
            unverified=bool(declaration.get("unverified")),
            source=declaration.get("source") or "",
            **spent,
        )

    @classmethod
    def of_row(cls, row: dict[str, Any]) -> Spent:
        """A row of `State.ledger`."""
        path = tuple(row.pop(part) for part in ("kind", "workload", "strategy"))
        del row["path_id"]
        return cls.under(row.pop("declaration"), path=path, **row)

    @property
    def law(self) -> str:
        """Of its noise, as filters and costs know it."""
        return law_on_path(self.family, self.path)

    @property
    def noise(self) -> str:
        """The family that is drawn from: sessions of queries count whole units, whatever the noise of the cells."""
        return "discrete_laplace" if self.path[0] == INTERACTIVE else self.family

    @property
    def cost(self) -> Cost:
        """What it costs."""
        return path_cost(
            currency_of(self.family),
            self.finest,
            law=self.law,
            keys=self.max_keys,
            delta_infinity=self.delta_infinity,
        )

    @property
    def least_level(self) -> Fraction:
        """A level below all useful ones; from it on, noise can always be drawn and published."""
        if self.law in (POISSON, SKELLAM):
            return LEAST_OF_MEANS
        return Fraction(self.max_keys, 2**48 if self.law in (GAUSSIAN, ZCDP) else 2**24)


def law_of(family: str) -> str:
    """The law of a family of noise, as filters know it; "none" where it has no guarantee that adds up."""
    return _LAWS.get(family, currency_of(family))


def law_on_path(family: str, path: PathName) -> str:
    """The law of a path in a series with that noise; a session of queries beside Gaussian noise is zCDP, no more."""
    law = law_of(family)
    return ZCDP if path[0] == INTERACTIVE and law == GAUSSIAN else law


def cost_of(paths: Iterable[Spent]) -> Cost:
    """What paths cost together."""
    return total_cost(path.cost for path in paths)


def first_generation(paths: Sequence[Spent], choose: Callable[[list[int]], int] = min) -> int | None:
    """The least, or greatest, generation of first releases; None if there is none."""
    known = [path.first_generation for path in paths if path.first_generation is not None]
    return choose(known) if known else None


def sum_of_levels(paths: Iterable[Spent]) -> Fraction:
    """The sum of finest levels."""
    return sum((path.finest for path in paths if path.finest is not None), Fraction(0))


def delta_infinity_of(paths: Iterable[Spent]) -> Fraction:
    """The sum of what open domains spent, exactly."""
    return sum((Fraction(path.delta_infinity) for path in paths), Fraction(0))


def by_series(paths: Iterable[Spent]) -> dict[str, list[Spent]]:
    """Paths by id of their series."""
    found: dict[str, list[Spent]] = {}
    for path in paths:
        found.setdefault(path.series_id, []).append(path)
    return found


def shortened(value: Fraction) -> Fraction:
    """A level as it is named: exact where that is short, else rounded down to 12 digits."""
    return value if value <= 0 or len(level_text(value)) <= _LONGEST_EXACT else rounded_down(value)


def amount_text(value: Fraction) -> str:
    """A level or a sum of them as it is named; 0 where nothing is left."""
    return level_text(shortened(value)) if value > 0 else "0"
