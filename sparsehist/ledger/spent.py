"""What the noise paths of a series have spent, and what a release would add."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction

from sparsehist.declaration import Declaration
from sparsehist.noise import currency_of
from sparsehist.privacy import Cost, level_text, path_cost, total_cost
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
    """Return the noise path of a measure."""
    return ("measure", name, "sum")


def law_of(family: str) -> str:
    """Return the law of a family of noise, as filters know it; "none" where it has no guarantee that adds up."""
    return _LAWS.get(family, currency_of(family))


@dataclass(frozen=True)
class Spending:
    """What a release would add to the ledger: public parameters, known before anything is drawn.

    `delta_infinity` is joint for all releases of the path, this one included; 0 except for open domains.
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

    Level and generation are 0 where nothing was released; a release that is only foreseen has no time.
    """

    finest: Fraction = Fraction(0)
    releases: int = 0
    delta_infinity: float = 0.0
    numerical_slack: float = 0.0
    first_generation: int = 0
    first_release: datetime | None = None
    last_release: datetime | None = None


NOTHING_SPENT = Spent()


@dataclass(frozen=True)
class Account:
    """What a series has spent, by noise path; the cells come first."""

    series_id: str
    declared: Declaration
    paths: Mapping[PathName, Spent] = field(default_factory=lambda: {CELLS: NOTHING_SPENT})
    dropped: datetime | None = None

    def on(self, path: PathName) -> Spent:
        """What a path has spent."""
        return self.paths.get(path, NOTHING_SPENT)

    def only(self, path: PathName) -> Account:
        """Return the account of one path."""
        return replace(self, paths={path: self.on(path)})

    def with_release(self, release: Spending, generation: int) -> Account:
        """Return the account once a release was made; the generation matters if it is the first of its path."""
        known = self.on(release.path)
        spent = replace(
            known,
            finest=max(release.level, known.finest),
            releases=known.releases + 1,
            delta_infinity=max(known.delta_infinity, release.delta_infinity),
            numerical_slack=known.numerical_slack + release.numerical_slack,
            first_generation=known.first_generation or generation,
        )
        return replace(self, paths={**self.paths, release.path: spent})

    @property
    def name(self) -> str:
        """Of the series."""
        return self.declared.name

    @property
    def population(self) -> str:
        """Of the series."""
        return self.declared.population

    @property
    def keys(self) -> int:
        """Keys that one unit counts towards at most."""
        return self.declared.max_keys

    @property
    def law(self) -> str:
        """Of its noise, as filters and costs know it."""
        return law_of(self.declared.noise)

    def law_on(self, path: PathName) -> str:
        """Return the law of a path: a session of queries beside Gaussian noise is zCDP, no more."""
        return ZCDP if path[0] == INTERACTIVE and self.law == GAUSSIAN else self.law

    def noise_on(self, path: PathName) -> str:
        """Return the family of a path: sessions of queries count whole units, whatever the noise of the cells."""
        return "discrete_laplace" if path[0] == INTERACTIVE else self.declared.noise

    def least_level(self, path: PathName) -> Fraction:
        """Return a level below all useful ones; from it on, noise can always be drawn and published."""
        law = self.law_on(path)
        if law in (POISSON, SKELLAM):
            return LEAST_OF_MEANS
        return Fraction(self.keys, 2**48 if law in (GAUSSIAN, ZCDP) else 2**24)

    @property
    def releases(self) -> int:
        """Their number, over all paths."""
        return sum(spent.releases for spent in self.paths.values())

    @property
    def first_generation(self) -> int:
        """Of its first release; 0 if there is none."""
        return min((spent.first_generation for spent in self.paths.values() if spent.releases), default=0)

    def finest(self, without: PathName | None = None) -> Fraction:
        """Return the sum of the finest levels of its paths, perhaps all but one."""
        return sum((spent.finest for path, spent in self.paths.items() if path != without), Fraction(0))

    @property
    def delta_open(self) -> Fraction:
        """What open domains spent, exactly."""
        return sum((Fraction(spent.delta_infinity) for spent in self.paths.values()), Fraction(0))

    @property
    def cost(self) -> Cost:
        """What its paths cost together."""
        currency, keys = currency_of(self.declared.noise), self.keys
        return total_cost(
            path_cost(
                currency, spent.finest or None, law=self.law_on(path), keys=keys, delta_infinity=spent.delta_infinity
            )
            for path, spent in self.paths.items()
        )


def first_generation(accounts: Iterable[Account]) -> int:
    """Return the generation of the first release of some series; 0 if there is none."""
    return min((account.first_generation for account in accounts if account.releases), default=0)


def shortened(value: Fraction) -> Fraction:
    """Return a level as it is named: exact where that is short, else rounded down to 12 digits."""
    return value if value <= 0 or len(level_text(value)) <= _LONGEST_EXACT else rounded_down(value)


def amount_text(value: Fraction) -> str:
    """Return a level or a sum of them as it is named; 0 where nothing is left."""
    return level_text(shortened(value)) if value > 0 else "0"
