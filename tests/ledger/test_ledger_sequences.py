"""After random sequences of releases and limits, the ledger equals a ledger that is computed independently."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

import sparsehist as sh
from sparsehist.entropy import seeded
from sparsehist.errors import BudgetExceededError, CapExceededError, DeclarationError, RefusedError, StoreError
from sparsehist.ledger.ledger import Ledger, check_release
from sparsehist.ledger.spent import Spending
from sparsehist.store import NewRound, PathRecord, State
from sparsehist.store.database import Database

DOMAIN = sh.Catalogue(list("abcd"))
NO_RHO = ("poisson", "skellam")
LEVELS = [Fraction(text) for text in ("0.05", "0.1", "1/3", "0.4", "0.7", "1", "1.5")]
POPULATIONS = ("north", "south", "gauss")
LOG = pl.DataFrame({"user": range(60), "key": ["abcd"[i % 4] for i in range(60)]})
M = 5
DELTA = 1e-6
PURE = ("laplace", "discrete_laplace")


@dataclass
class Path:
    """A noise path and the levels that were released on it."""

    family: str
    levels: list[Fraction] = field(default_factory=list)
    slack: float = 0.0

    @property
    def finest(self) -> Fraction:
        return max(self.levels, default=Fraction(0))

    @property
    def rho(self) -> Fraction:
        """Return the zCDP cost of this noise path."""
        level = float(self.finest)
        return Fraction(level * math.tanh(level / 2)) if self.family in PURE else self.finest


def text(level: Fraction) -> str:
    """Format a level as the ledger prints it."""
    return str(level) if level.denominator in (1, 3) else str(float(level))


def rho_of(paths: list[Path]) -> Fraction:
    """Return the total zCDP cost of noise paths."""
    return sum((path.rho for path in paths), Fraction(0))


def own_epsilon(path: Path) -> float:
    """Return the epsilon of one noise path alone, a lower bound for every set of paths that contains this path."""
    return float(path.finest) * (1 - 2e-6) - 2e-6 if path.family in PURE else gaussian_epsilon([path])


def rho_epsilon(paths: list[Path]) -> float:
    """Convert the zCDP cost of noise paths to epsilon at `DELTA`, by minimising over a fine grid of orders."""
    rho = float(rho_of(paths))
    order = np.exp(np.linspace(-9, 12, 4_001))
    epsilon = float(np.min((1 + order) * rho - np.log1p(1 / order) - (math.log(DELTA) + np.log1p(order)) / order))
    return epsilon * (1 + 1e-5)


def gaussian_delta(rho: Fraction, epsilon: float | Fraction) -> float:
    """Return the exact delta of a Gaussian mechanism with this rho at this epsilon, by the textbook formula."""
    mu, at = math.sqrt(2 * float(rho)), float(epsilon)
    return float(ndtr(-at / mu + mu / 2) - math.exp(at) * ndtr(-at / mu - mu / 2))


def gaussian_epsilon(paths: list[Path]) -> float:
    """Return the epsilon of Gaussian noise paths at `DELTA`, by solving `gaussian_delta` for epsilon."""
    rho = rho_of(paths)
    if rho == 0 or gaussian_delta(rho, 0) <= DELTA:
        return 0.0
    if gaussian_delta(rho, 40) > DELTA:
        return math.inf
    return float(brentq(lambda epsilon: gaussian_delta(rho, epsilon) - DELTA, 0, 40, xtol=1e-13, rtol=1e-13))


@dataclass
class Series:
    """A series and its noise paths: first the path of its cells, and then the paths of its workloads."""

    name: str
    population: str
    family: str
    cap: Fraction | None
    paths: list[Path] = field(default_factory=list)
    dropped: bool = False

    @property
    def released(self) -> bool:
        return any(path.levels for path in self.paths)


class DiedError(Exception):
    """An error that simulates the end of a process."""


class Beside:
    """A store that is changed in random steps, and an independent computation of its ledger."""

    def __init__(self, seed: int) -> None:
        self.rng = seeded(seed)
        self.store = sh.open(":memory:", seed=seed)
        self.series: list[Series] = []
        self.budgets: dict[str, tuple[str, Fraction]] = {}
        self.disjoint: list[frozenset[str]] = []
        self.events: Counter[str] = Counter({"create store": 1})
        self.number = 0

    def name(self, what: str) -> str:
        self.number += 1
        return f"{what}_{self.number}"

    def some(self, things):
        return things[int(self.rng.integers(len(things)))]

    def spent(self, populations: tuple[str, ...]) -> list[Path]:
        return [path for s in self.series if s.population in populations for path in s.paths if path.levels]

    # Each of the following methods makes one random step.

    def create(self) -> None:
        population = self.some(POPULATIONS)
        families = ("gaussian",) if population == "gauss" else ("gaussian", *PURE, *NO_RHO)
        family, cap = self.some(families), self.some((None, Fraction(1), Fraction("1.6")))
        declared = {"unit": "user", "key": "key", "max_keys": 1, "domain": DOMAIN, "noise": family}
        declared |= {"name": self.name("series"), "population": population}
        if self.budgets.get(population, ("epsilon",))[0] == "rho" and family in NO_RHO:
            with pytest.raises(BudgetExceededError, match="cannot charge"):
                sh.create(self.store, LOG, **declared)
            return
        sh.create(self.store, LOG, cap=cap, **declared)
        self.series.append(Series(declared["name"], population, family, cap, [Path(family)]))
        self.events["create series"] += 1

    def release(self, fault: str | None) -> None:
        """Release the cells of a series or, in a third of the cases, a workload on an existing or new noise path."""
        alive = [series for series in self.series if not series.dropped]
        if not alive:
            return
        series, level, name = self.some(alive), self.some(LEVELS), self.name("release")
        workload = series.family not in NO_RHO and self.rng.random() < 1 / 3
        number = int(self.rng.integers(1, len(series.paths) + 1)) if workload else 0
        path = series.paths[number] if number < len(series.paths) else Path(series.family)
        expected, refused = self.expect(series, path, level), None
        try:
            with faulty(fault):
                if number:
                    self.commit_workload(series, number, level, name, new=level not in path.levels)
                else:
                    self.store.series(series.name).release(name, level=level, threshold=40.0)
        except RefusedError as refusal:
            refused = type(refusal)
        except (DiedError, StoreError):
            assert fault is not None and expected is None
            if fault == "before":
                return
        assert expected is refused
        if refused is not None:
            self.events["refuse"] += 1
            return
        if number == 0:  # the release exists, so this reads it without spending
            path.slack += self.store.series(series.name).release(name).metadata["numerical_slack"]
        elif number == len(series.paths):
            series.paths.append(path)
        path.levels.append(level)
        self.events["release"] += 1

    def commit_workload(self, series: Series, number: int, level: Fraction, name: str, *, new: bool) -> None:
        which = ("workload", f"prefix({number})", "identity")
        with self.store.hold() as state:
            record = state.series(series.name)
            check_release(state, Ledger.of(state), Spending(record.series_id, level, which))
            known = [path.path_id for path in state.paths(record)]
            to = known[number] if number < len(known) else PathRecord(record.series_id, *which)
            state.commit_round(NewRound(to, name, level, {}, {}, np.zeros(M) if new else None))

    def expect(self, series: Series, path: Path, level: Fraction) -> type[RefusedError] | None:
        """Return the expected exception class, or None if the release should be allowed.

        Here, budgets in epsilon cover only Gaussian noise, without open domains. All releases together cost as much
        as one Gaussian release at the sum of the finest levels of all noise paths. They fit the budget if the exact
        delta of that release is at most `DELTA`. The package rounds limits to 12 digits, but no sum of `LEVELS` is so
        close to a limit that this matters.
        """
        finer = max(Fraction(0), level - path.finest)
        total = sum((known.finest for known in series.paths), Fraction(0)) + finer
        if series.cap is not None and total > series.cap and level >= path.finest:
            return CapExceededError
        limit = self.budgets.get(series.population)
        if limit is None:
            return None
        kind, amount = limit
        if kind == "epsilon":
            spent = sum((known.finest for known in self.spent((series.population,))), Fraction(0))
            return BudgetExceededError if finer and gaussian_delta(spent + finer, amount) > DELTA else None
        others = [known for known in self.series if known is not series and known.population == series.population]
        charged = sum(map(self.charge, others), Fraction(0))
        if series.family not in PURE:
            return BudgetExceededError if finer and charged + total > amount else None
        if series.cap is None and series.released:  # the first release's level counts as the cap
            return BudgetExceededError if finer else None
        ours = rho_of([Path(series.family, [series.cap or level])])
        return BudgetExceededError if finer and charged + ours > amount else None

    def charge(self, series: Series) -> Fraction:
        """Return the amount that a budget in rho charges for a series."""
        if series.population not in self.budgets or not series.released:
            return Fraction(0)
        total = sum((path.finest for path in series.paths), Fraction(0))
        if series.family in PURE:
            return rho_of([Path(series.family, [series.cap or total])])
        return total

    def set_budget(self) -> None:
        population = self.some(POPULATIONS)
        kind = self.some(("rho", "epsilon")) if population == "gauss" else "rho"
        amount = self.some((Fraction(1), Fraction(2), Fraction(4))) * (2 if kind == "epsilon" else 1)
        more = {"delta": "1e-6"} if kind == "epsilon" else {}
        held = [known for known in self.series if known.population == population]
        if kind == "rho" and any(known.family in NO_RHO and (known.released or not known.dropped) for known in held):
            with pytest.raises(DeclarationError, match="cannot charge"):
                self.store.set_budget(**{kind: amount}, reason="a reason", population=population)
            return
        self.store.set_budget(**{kind: amount}, **more, reason="a reason", population=population)
        self.budgets[population] = (kind, amount)
        self.events["set budget"] += 1

    def raise_cap(self) -> None:
        capped = [series for series in self.series if series.cap is not None and not series.dropped]
        if not capped:
            return
        series = self.some(capped)
        cap = series.cap + Fraction("0.5")
        if series.family in PURE and series.released and self.budgets.get(series.population, ("",))[0] == "rho":
            with pytest.raises(BudgetExceededError, match="charged"):
                self.store.series(series.name).raise_cap(cap, reason="more is needed")
            return
        self.store.series(series.name).raise_cap(cap, reason="more is needed")
        series.cap = cap
        self.events["raise cap"] += 1

    def declare_disjoint(self) -> None:
        pair = frozenset(self.some(list(itertools.combinations(POPULATIONS, 2))))
        self.store.declare_disjoint(sorted(pair), reason="by decree")
        self.disjoint.append(pair)
        self.events["declare disjoint"] += 1

    def drop(self) -> None:
        alive = [series for series in self.series if not series.dropped]
        if len(alive) > 1:
            series = self.some(alive)
            self.store.drop(series.name, reason="done")
            series.dropped = True
            self.events["drop series"] += 1

    def step(self) -> None:
        if self.rng.random() < 0.6:
            self.release(self.some((None, None, None, "before", "after")))
        else:
            self.some((self.create, self.create, self.set_budget, self.raise_cap, self.declare_disjoint, self.drop))()

    # Checks of the ledger.

    def check(self) -> None:
        ledger = self.store.ledger(delta=DELTA, full=True)
        assert Counter(self.store.events()["what"].to_list()) == self.events
        series = {row["series"]: row for row in ledger.filter(scope="series").to_dicts()}
        assert set(series) == {known.name for known in self.series}
        for known in self.series:
            row = series[known.name]
            self.check_sum(row, [path for path in known.paths if path.levels])
            assert row["cap"] == (None if known.cap is None else text(known.cap))
            assert (row["dropped"] is not None) == known.dropped
            paths = ledger.filter(scope="path", series=known.name)
            assert [number(found) for found in paths["level"]] == [path.finest for path in known.paths]
        populations = {row["population"]: row for row in ledger.filter(scope="population").to_dicts()}
        for population in {known.population for known in self.series}:
            self.check_sum(populations[population], self.spent((population,)))
        if populations:
            self.check_everybody(ledger.filter(scope="everybody").row(0, named=True), sorted(populations))

    def check_sum(self, row: dict, paths: list[Path]) -> None:
        assert row["releases"] == sum(len(path.levels) for path in paths)
        assert row["numerical_slack"] == pytest.approx(sum(path.slack for path in paths), rel=1e-9)
        families = {path.family for path in paths}
        if families <= {"gaussian"} or (families and families <= set(PURE)):
            assert number(row["level"]) == sum((path.finest for path in paths), Fraction(0))
        if families & {"poisson", "skellam"}:
            assert row["cost"] is None and row["currency"] == "none"
        else:
            assert row["cost"] == pytest.approx(float(rho_of(paths)), rel=1e-12)
        if families <= {"gaussian"}:
            assert shown(row) == pytest.approx(gaussian_epsilon(paths), rel=1e-6)
        elif not families & {"poisson", "skellam"} and shown(row) < math.inf:
            assert row["epsilon"] <= 1e-9 + max(rho_epsilon(paths), 0.0)
            assert row["epsilon"] >= 0.99 * max(own_epsilon(path) for path in paths)

    def check_everybody(self, row: dict, populations: list[str]) -> None:
        """Check the ledger's total row, which covers all populations.

        The cost in the total row is the largest cost of any set of populations in which no two populations are
        declared disjoint.
        """
        sets = [
            chosen
            for size in range(1, len(populations) + 1)
            for chosen in itertools.combinations(populations, size)
            if not any(declared <= set(chosen) for declared in self.disjoint)
        ]
        spent = [self.spent(chosen) for chosen in sets]
        if any(path.family in ("poisson", "skellam") for paths in spent for path in paths):
            assert row["cost"] is None
        else:
            assert row["cost"] == pytest.approx(max(float(rho_of(paths)) for paths in spent), rel=1e-12)
        families = {path.family for paths in spent for path in paths}
        if families <= {"gaussian"}:
            assert number(row["level"]) == max(sum((p.finest for p in paths), Fraction(0)) for paths in spent)
            assert shown(row) == pytest.approx(max(map(gaussian_epsilon, spent)), rel=1e-6)
        assert row["releases"] == sum(len(path.levels) for path in self.spent(POPULATIONS))


def number(level: str | None) -> Fraction:
    """Return a level of the ledger as a fraction; a missing level is 0."""
    return Fraction(level or 0)


def shown(row: dict) -> float:
    """Return the epsilon of a ledger row. If the row has none, check that it has a warning, and return infinity."""
    assert (row["epsilon"] is None) == ("no epsilon" in (row["warning"] or ""))
    return math.inf if row["epsilon"] is None else row["epsilon"]


@contextmanager
def faulty(moment: str | None) -> Iterator[None]:
    """Raise `DiedError` just before or just after the commit of a round."""
    changing, insert_event = State._changing, Database.insert_event

    @contextmanager
    def dies_after(*arguments, **named):
        with changing(*arguments, **named):
            yield
        raise DiedError

    def die_at_release(database, what, *more, **named):
        if what == "release":
            raise DiedError
        insert_event(database, what, *more, **named)

    with pytest.MonkeyPatch.context() as patch:
        if moment == "after":
            patch.setattr(State, "_changing", dies_after)
        if moment == "before":
            patch.setattr(Database, "insert_event", die_at_release)
        yield


def walk(seed, steps):
    """Change a store in random steps, check its ledger after each step, and count how often each action occurred."""
    beside = Beside(seed)
    beside.create()
    for _ in range(steps):
        beside.step()
        beside.check()
    return beside.events


def test_the_ledger_equals_one_kept_beside():
    """After each random step, crashes included, the ledger equals an independent computation of its values."""
    events = sum((walk(seed, 25) for seed in (1, 2, 3, 17, 45)), Counter())
    for what in ("release", "refuse", "raise cap", "set budget", "declare disjoint", "drop series"):
        assert events[what], f"the sequences hardly do {what}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 18))
def test_the_ledger_equals_one_kept_beside_for_long(seed):
    """After each step of a long random sequence, the ledger equals an independent computation of its values."""
    walk(seed, 60)
