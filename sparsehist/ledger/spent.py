"""Records of the cost of a noise path, of a series, and of a requested release."""

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
"""Name of a noise path: kind (cells, measure, workload or interactive), name (of the measure, workload or session of
queries) and strategy. Parts that do not apply to the kind are None."""
CELLS: PathName = ("cells", None, None)
INTERACTIVE = "interactive"
_LONGEST_EXACT = 16
_LAWS = {"gaussian": GAUSSIAN, "poisson": POISSON, "skellam": SKELLAM}


def measure_path(name: str) -> PathName:
    return ("measure", name, "sum")


def law_of(family: str) -> str:
    """Return the name under which filters charge a noise family: gaussian, poisson, skellam, or else its currency."""
    return _LAWS.get(family, currency_of(family))


@dataclass(frozen=True)
class Spending:
    """The public parameters that determine the charge for a release. They are fixed before any noise is drawn.

    `delta_infinity` covers this release and all earlier releases on its path; it is 0 unless the domain is open.
    """

    series_id: str
    level: Fraction
    path: PathName = CELLS
    delta_infinity: float = 0.0
    numerical_slack: float = 0.0

    @property
    def words(self) -> str:
        """The requested level and its noise path, in words for error messages."""
        kind, name, _ = self.path
        of = f" of the {kind} {name}" if kind in ("measure", "workload") else ""
        return f"requested level {amount_text(self.level)}{of}"


@dataclass(frozen=True)
class Spent:
    """The cost of a noise path: its finest level, the delta_infinity of all releases, and the sum of their slacks.

    `finest` and `first_generation` are 0 if nothing was released. Planned releases do not change
    `first_release` and `last_release`.
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
    """The costs of a series: a dict from noise path to cost, in which the path of the cells comes first."""

    series_id: str
    declared: Declaration
    paths: Mapping[PathName, Spent] = field(default_factory=lambda: {CELLS: NOTHING_SPENT})
    dropped: datetime | None = None

    def on(self, path: PathName) -> Spent:
        return self.paths.get(path, NOTHING_SPENT)

    def with_release(self, release: Spending, generation: int) -> Account:
        """Return the account after a release; record `generation` if the release is the first of its path."""
        before = self.on(release.path)
        spent = replace(
            before,
            finest=max(release.level, before.finest),
            releases=before.releases + 1,
            delta_infinity=max(before.delta_infinity, release.delta_infinity),
            numerical_slack=before.numerical_slack + release.numerical_slack,
            first_generation=before.first_generation or generation,
        )
        return replace(self, paths={**self.paths, release.path: spent})

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def population(self) -> str:
        return self.declared.population

    @property
    def keys(self) -> int:
        return self.declared.most_touched

    @property
    def law(self) -> str:
        """Name that filters and costs use for the noise distribution of the series."""
        return law_of(self.declared.noise)

    def law_on(self, path: PathName) -> str:
        """Return the name under which filters charge the noise of a path.

        Interactive queries of a Gaussian series are charged as zCDP ("rho"). Other paths are charged like the cells.
        """
        return ZCDP if path[0] == INTERACTIVE and self.law == GAUSSIAN else self.law

    def noise_on(self, path: PathName) -> str:
        """Return the noise family of a path: discrete Laplace for interactive queries, else that of the series."""
        return "discrete_laplace" if path[0] == INTERACTIVE else self.declared.noise

    def least_level(self, path: PathName) -> Fraction:
        """Return the smallest level to offer for a new release. At smaller levels, noise may be too large to draw."""
        law = self.law_on(path)
        if law in (POISSON, SKELLAM):
            return LEAST_OF_MEANS
        return Fraction(self.keys, 2**48 if law in (GAUSSIAN, ZCDP) else 2**24)

    @property
    def releases(self) -> int:
        return sum(spent.releases for spent in self.paths.values())

    @property
    def first_generation(self) -> int:
        """Generation of the first release, or 0 if there is no release."""
        return min((spent.first_generation for spent in self.paths.values() if spent.releases), default=0)

    def finest(self, without: PathName | None = None) -> Fraction:
        return sum((spent.finest for path, spent in self.paths.items() if path != without), Fraction(0))

    @property
    def delta_open(self) -> Fraction:
        return sum((Fraction(spent.delta_infinity) for spent in self.paths.values()), Fraction(0))

    @property
    def cost(self) -> Cost:
        currency, keys = currency_of(self.declared.noise), self.keys
        return total_cost(
            path_cost(
                currency, spent.finest or None, law=self.law_on(path), keys=keys, delta_infinity=spent.delta_infinity
            )
            for path, spent in self.paths.items()
        )


def first_generation(accounts: Iterable[Account]) -> int:
    return min((account.first_generation for account in accounts if account.releases), default=0)


def shortened(value: Fraction) -> Fraction:
    """Round a level down to 12 digits for messages, unless its text has at most 16 characters."""
    return value if value <= 0 or len(level_text(value)) <= _LONGEST_EXACT else rounded_down(value)


def amount_text(value: Fraction) -> str:
    """Return a level, or a sum of levels, as text for messages; "0" if it is zero or negative."""
    return level_text(shortened(value)) if value > 0 else "0"
