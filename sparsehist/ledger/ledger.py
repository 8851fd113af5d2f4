"""What has been spent, as one frozen value that everything folds over: releases, plans, dry runs, tables, export.

`Ledger.check` says whether a release may be made, by public parameters only, and `Ledger.with_release` what has been
spent once it was. A cap bounds the sum over the noise paths of a series, a budget the charges of a population by its
route (`sparsehist.privacy.filters`), dropped series included: what was published stays published.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction

from sparsehist.declaration import Every
from sparsehist.errors import BudgetExceededError, CapExceededError, DeclarationError, NameTakenError, RefusedError
from sparsehist.ledger.budgets import Budget, Limit, Limits, beginning, ways_to_charge
from sparsehist.ledger.spent import (
    CELLS,
    PathName,
    Spending,
    Spent,
    amount_text,
    by_series,
    cost_of,
    delta_infinity_of,
    first_generation,
    law_of,
    shortened,
    sum_of_levels,
)
from sparsehist.privacy import Cost, level_text, total_cost
from sparsehist.privacy.composition import ZCDP
from sparsehist.privacy.filters import Filter
from sparsehist.store import State

_NOTHING = Fraction(0)
_ANOTHER = "another"  # a series that is yet to come


@dataclass(frozen=True)
class Ledger:
    """All noise paths of a store in order, and the limits on them.

    Example:
        >>> empty = Ledger().with_series(Spent("1", "visits", "default", "gaussian", 20, cap=Fraction(1)))
        >>> once = empty.with_release(Spending("1", Fraction(1, 2)))
        >>> once.largest_level("1"), once.with_release(Spending("1", Fraction(1, 4))).paths[0].finest
        (Fraction(1, 1), Fraction(1, 2))
    """

    paths: tuple[Spent, ...] = ()
    limits: Limits = field(default_factory=Limits, compare=False, repr=False)

    @classmethod
    def of(cls, state: State) -> Ledger:
        """The ledger of an open store."""
        return cls(tuple(map(Spent.of_row, state.ledger())), Limits(state.limit_events()))

    def with_series(self, cells: Spent) -> Ledger:
        """The ledger once a series was created."""
        return replace(self, paths=(*self.paths, cells))

    def with_dropped(self, series_id: str, when: datetime) -> Ledger:
        """The ledger once a series was dropped: what it spent stays, and that it was one of some periods."""
        paths = (replace(path, dropped=when) if path.series_id == series_id else path for path in self.paths)
        return replace(self, paths=tuple(paths))

    def with_release(self, release: Spending, *beside: Spending) -> Ledger:
        """The ledger once a release was made, and what came beside it."""
        known = self._path(release.series_id, release.path)
        spent = replace(
            known,
            finest=max(release.level, known.finest or _NOTHING),
            releases=known.releases + 1,
            delta_infinity=max(known.delta_infinity, release.delta_infinity),
            numerical_slack=known.numerical_slack + release.numerical_slack,
            # After whatever is known: charges go by the order of first releases.
            first_generation=known.first_generation or 1 + (first_generation(self.paths, max) or 0),
        )
        paths = {(path.series_id, path.path): path for path in self.paths} | {(known.series_id, known.path): spent}
        after = replace(self, paths=tuple(paths.values()))
        return after.with_release(*beside) if beside else after

    def of_series(self, series_id: str) -> tuple[Spent, ...]:
        """Its noise paths; the cells come first."""
        return tuple(path for path in self.paths if path.series_id == series_id)

    def of_population(self, *populations: str) -> tuple[Spent, ...]:
        """The noise paths of populations."""
        return tuple(path for path in self.paths if path.population in populations)

    def ended_by_dropping(self, series: str) -> str:
        """A sentence where nothing can be added to a log in periods once a series of it is dropped; else empty."""
        for path in self.paths:
            rule = self.limits.periods.get(path.population)
            if rule and rule.most_periods and path.series == series and path.releases and path.dropped is None:
                return f"{series} was released: once it is dropped, nothing more can be added to {path.population}. "
        return ""

    def cap(self, series_id: str) -> Limit:
        """The cap of a series."""
        paths = self.of_series(series_id)
        return self.limits.cap(series_id, paths[0].cap, first_generation(paths))

    def budget(self, population: str) -> Limit:
        """The budget of a population."""
        return self.limits.budget(population, first_generation(self.of_population(population)))

    def budget_of(self, population: str) -> Budget | None:
        """The budget of a population as it stands."""
        budget: Budget | None = self.limits.budget(population).now
        return budget

    # What is allowed.

    def check(self, release: Spending, *beside: Spending) -> None:
        """Refuse a release beyond the cap of its series or the budget of its population; then what is beside it."""
        known = self._path(release.series_id, release.path)
        budget = self.budget_of(known.population)
        if release.level > (known.finest or _NOTHING):
            self._check_cap(release, known)
            if budget is not None:
                self._check_noise(budget, release, known)
        if budget is not None:
            self._check_delta(budget, release, known)
        if beside:
            self.with_release(release).check(*beside)

    def check_series(
        self, name: str, population: str, family: str, *, is_open: bool, of_period: bool = False
    ) -> None:
        """Refuse a series that its population's budget could never charge, or whose name or period is taken."""
        if of_period:
            self._check_period(name, population)
        else:
            self.check_name(name)
            if population in self.limits.periods:
                raise DeclarationError(
                    f"the population {population!r} is that of a log in periods, whose costs do not simply add up: "
                    "name another population"
                )
        budget = self.budget_of(population)
        if budget is None:
            return
        law = law_of(family)
        if budget.filter_for(law) is None:
            raise BudgetExceededError(
                f"{beginning(population, budget)}, which cannot charge {ways_to_charge(family, law)}"
            )
        if is_open and not budget.split.open and self.reserving(population) is None:
            raise BudgetExceededError(
                f"{beginning(population, budget)}, which reserves no delta for open domains: set the budget again "
                f"with {'delta=' if budget.delta == 0 or budget.epsilon is None else 'open_share=0.5'}, or declare "
                "the domain"
            )

    def reserving(self, population: str) -> Budget | None:
        """The budget that the first open series of a population sets; None where the one that stands is kept.

        Before anything was released under it, a budget gives half of its delta to open domains, as it does where it
        is set after the series; unless `open_share` was given.
        """
        budget = self.budget_of(population)
        if budget is None or any(path.releases for path in self.of_population(population)):
            return None
        return budget.reserving()

    def with_open_series(self, population: str) -> Ledger:
        """The ledger once an open series is declared: its population's budget reserves delta."""
        reserved = self.reserving(population)
        return self if reserved is None else replace(self, limits=self.limits.with_budget(population, reserved))

    def check_budget(self, population: str, budget: Budget) -> None:
        """Refuse a budget that cannot charge what its population holds."""
        for path in self.of_population(population):
            if budget.filter_for(path.law) is None and (path.dropped is None or path.releases):
                raise DeclarationError(
                    f"a budget of {budget} cannot charge the series {path.series!r} of population {population!r}: "
                    f"{ways_to_charge(path.noise, path.law)}"
                )

    def check_raised_cap(self, series_id: str) -> None:
        """Refuse to raise a cap that has been charged whole."""
        cells = self.of_series(series_id)[0]
        budget = self.budget_of(cells.population)
        charges = None if budget is None else budget.filter_for(cells.law)
        if charges is not None and not charges.by_path(cells.law) and self._released(series_id):
            raise BudgetExceededError(
                f"{beginning(cells.population, budget)}: it charged the series {cells.series!r} its cap at its "
                "first release, and what is released beyond it would be no part of that. Create another series"
            )

    def largest_level(self, series_id: str, path: PathName = CELLS) -> Fraction | None:
        """The largest level that a path may be released at now, as far as noise goes, rounded down to 12 digits.

        None where nothing limits; 0 where no level is allowed. What was released already stays allowed.
        """
        known = self._path(series_id, path)
        others, cap = self._others(known), self.cap(series_id).now
        budget = self.budget_of(known.population)
        rooms = [] if cap is None else [shortened(cap - others)]
        if budget is not None:
            rooms.append(self._largest_charged(budget, known, cap, others))
        if not rooms:
            return None
        room = min(rooms)
        if room < known.least_level:
            room = _NOTHING
        return max(room, known.finest or _NOTHING, _NOTHING)

    def largest_equal_cap(self, population: str, family: str, max_keys: int, times: int) -> Fraction | None:
        """The largest cap, rounded down to 12 digits, that so many further series of a population may have alike.

        None where nothing limits; 0 where there is none.
        """
        budget = self.budget_of(population)
        if budget is None:
            return None
        law = law_of(family)
        charges = budget.filter_for(law)
        if charges is None:
            return _NOTHING
        earlier = len(self._order_of_charge(charges, population))
        room = charges.limit - self.charged(charges, population)
        return charges.largest(room, law, max_keys, earlier=earlier, times=times)

    def remaining(self, population: str) -> Fraction | None:
        """What is left of a budget on its route, Poisson noise's share apart; None where nothing limits."""
        budget = self.budget_of(population)
        if budget is None:
            return None
        return max(budget.noise.limit - self.charged(budget.noise, population, _ANOTHER), _NOTHING)

    def open_room(self, population: str, series: str) -> float | None:
        """What a series may still add to the delta of open domains of its population; None if nothing limits."""
        budget = self.budget_of(population)
        if budget is None:
            return None
        paths = self.of_population(population)
        own = [path for path in paths if path.series == series and path.dropped is None]
        spent = self.delta_open(population, own[0].series_id if own else _ANOTHER) + delta_infinity_of(own)
        return max(float(budget.split.open - spent), 0.0)

    def check_name(self, name: str) -> None:
        """Refuse a name for what is no period where a log in periods, or a series of its periods, is called so."""
        for log, rule in self.limits.periods.items():
            if name == log or rule.names(log, name):
                raise NameTakenError(
                    f"{name!r} is the name of "
                    + ("a log in periods" if name == log else f"a {rule.what} of the log in periods {log!r}")
                    + ": take another name"
                )

    def _check_period(self, name: str, population: str) -> None:
        if population in self.limits.finished:
            raise RefusedError(f"{population!r} is finished: nothing more can be added; releases go on")
        if any(path.series == name and path.releases for path in self.of_population(population)):
            raise RefusedError(
                f"{name!r} was released and dropped: counted again, its rows would cost what both cost, and the "
                "cost of one period would no longer be that of one series"
            )

    # What one person bears.

    def cost_of(self, paths: Sequence[Spent]) -> Cost:
        """What paths cost one unit together: of periods, of which a unit counts in some only, the costliest."""
        in_periods = [
            self._costliest(chosen, rule.most_periods)
            for population, rule in self.limits.periods.items()
            if (chosen := [path for path in paths if path.population == population])
        ]
        others = (path.cost for path in paths if path.population not in self.limits.periods)
        return total_cost([*others, *in_periods])

    def cost_per_period(self, population: str, rule: Every) -> Cost:
        """What the periods of a population cost one unit in one period."""
        paths = self.of_population(population)
        return self._costliest(paths, rule.per_period(len(by_series(paths))))

    def periods_left(self, population: str) -> int:
        """How many periods can still be released at the level of the last one, as far as noise goes.

        Those that were added and not released are among them; all, where nothing was released.
        """
        rule, budget = self.limits.periods[population], self.limits.budget(population).now
        released = [path for path in self.of_population(population) if path.releases]
        left = rule.n_periods - len(by_series(released))
        if budget is None or not released:
            return left
        order = [series_id for series_id, _ in self._order_of_charge(budget.noise, population)]
        charges = [self._charge_of_series(budget.noise, series_id, 0) for series_id in order]
        known = len(by_series(self.of_population(population)))
        for more in range(1, left + 1):
            every = sorted([*charges, *[charges[-1]] * more], reverse=True)
            if sum(every[: rule.protected(max(known, len(every)))], _NOTHING) > budget.noise.limit:
                return more - 1
        return left

    @staticmethod
    def _costliest(paths: Sequence[Spent], most: int | None) -> Cost:
        """So many of the costliest series together, number by number: no less than any so many of them."""
        each = sorted(map(cost_of, by_series(paths).values()), key=lambda cost: cost.rho or 0.0, reverse=True)
        together = total_cost(each[:most])
        delta = math.fsum(sorted((cost.delta_infinity for cost in each), reverse=True)[:most])
        # Beside noise that is known as zCDP only, that is all that is known of the sum, whichever series are in it.
        laws = {path.law for path in paths if path.releases}
        parts = tuple(replace(part, law=ZCDP) for part in together.parts) if len(laws) > 1 else together.parts
        return replace(together, parts=parts, delta_infinity=delta)

    # How it is reckoned.

    def _path(self, series_id: str, path: PathName) -> Spent:
        """The path, or a new one of the series."""
        paths = self.of_series(series_id)
        fresh = replace(
            paths[0], path=path, finest=None, releases=0, delta_infinity=0.0, numerical_slack=0.0,
            first_generation=None, first_release=None, last_release=None,
        )  # fmt: skip
        return next((known for known in paths if known.path == path), fresh)

    def _released(self, series_id: str) -> bool:
        return any(path.releases for path in self.of_series(series_id))

    def _others(self, known: Spent) -> Fraction:
        """The sum of the finest levels of the other paths of a series."""
        return sum_of_levels(path for path in self.of_series(known.series_id) if path.path != known.path)

    def charged(self, charges: Filter, population: str, without: str | None = None) -> Fraction:
        """The charges of a population's series, or those that a series left out has to make room for."""
        each = {
            series_id: self._charge_of_series(charges, series_id, earlier)
            for series_id, earlier in self._order_of_charge(charges, population)
        }
        return self._borne(population, each, without)

    def _borne(self, population: str, each: Mapping[str, Fraction], without: str | None = None) -> Fraction:
        """What one who is protected bears of what each series adds: of periods, the costliest that he can be in.

        A series left out (`without`) is one of which he is taken to bear the cost.
        """
        others = [value for series_id, value in each.items() if series_id != without]
        rule = self.limits.periods.get(population)
        if rule is None:
            return sum(others, _NOTHING)
        known = by_series(self.of_population(population)).keys() | ({without} if without else set())
        most = rule.protected(len(known))
        if most is not None and without is not None:
            most -= 1
        return sum(sorted(others, reverse=True)[:most], _NOTHING)

    def delta_open(self, population: str, without: str | None = None) -> Fraction:
        """What open domains of a population have spent."""
        of_series = by_series(self.of_population(population))
        return self._borne(population, {name: delta_infinity_of(paths) for name, paths in of_series.items()}, without)

    def _order_of_charge(self, charges: Filter, population: str) -> list[tuple[str, int]]:
        """The released series that a filter charges, in order of their first release, and how many came before."""
        first: dict[str, float] = {}
        for path in self.of_population(population):
            if path.releases and charges.takes(path.law):
                at = math.inf if path.first_generation is None else path.first_generation
                first[path.series_id] = min(at, first.get(path.series_id, math.inf))
        return [(series_id, i) for i, series_id in enumerate(sorted(first, key=lambda one: first[one]))]

    def _charge_of_series(self, charges: Filter, series_id: str, earlier: int) -> Fraction:
        paths = [path for path in self.of_series(series_id) if path.finest is not None]
        if charges.by_path(paths[0].law):
            each = [charges.charge(path.law, path.finest, path.max_keys) for path in paths if path.finest]
            return sum(each, _NOTHING)
        whole = self.limits.cap(series_id, paths[0].cap).now or sum_of_levels(paths)
        return charges.charge(paths[0].law, whole, paths[0].max_keys, earlier=earlier)

    def _largest_charged(self, budget: Budget, known: Spent, cap: Fraction | None, others: Fraction) -> Fraction:
        """The largest level of a path that a budget allows."""
        charges = budget.filter_for(known.law)
        if charges is None:
            return _NOTHING
        room, earlier = self._room(charges, known)
        if charges.by_path(known.law):
            own = [path for path in self.of_series(known.series_id) if path.finest and path.path != known.path]
            room -= sum((charges.charge(path.law, path.finest or _NOTHING) for path in own), _NOTHING)
            return charges.largest(room, known.law)
        whole = cap if cap is not None else (sum_of_levels(self.of_series(known.series_id)) or None)
        if whole is None:
            return charges.largest(room, known.law, known.max_keys, earlier=earlier)
        fits = charges.fits(room, known.law, whole, known.max_keys, earlier=earlier)
        return shortened(whole - others) if fits else _NOTHING

    def _room(self, charges: Filter, known: Spent) -> tuple[Fraction, int]:
        """What a filter has left for a series, and how many it charged before that one."""
        order = dict(self._order_of_charge(charges, known.population))
        room = charges.limit - self.charged(charges, known.population, without=known.series_id)
        return room, order.get(known.series_id, len(order))

    def _check_cap(self, release: Spending, known: Spent) -> None:
        cap: Fraction | None = self.cap(release.series_id).now
        others = self._others(known)
        if cap is None or others + release.level <= cap:
            return
        spent = f", of which other paths hold {amount_text(others)}" if others else ""
        remaining = max(cap - others, _NOTHING)
        raise CapExceededError(
            f"{release.words}, cap of the series {amount_text(cap)}{spent}, remaining "
            f"{amount_text(remaining)}, difference {amount_text(release.level - remaining)}; {self._advice(release)}"
        )

    def _check_noise(self, budget: Budget, release: Spending, known: Spent) -> None:
        charges = budget.filter_for(known.law)
        if charges is None:
            raise BudgetExceededError(
                f"{beginning(known.population, budget)}, which cannot charge "
                f"{ways_to_charge(known.noise, known.law)}; nothing was spent"
            )
        cap = self.cap(release.series_id).now
        others = self._others(known)
        if release.level <= self._largest_charged(budget, known, cap, others):
            return
        if self._fits_exactly(charges, release, known, cap, others):
            return
        # Of periods, not all that was spent is borne together.
        apart = known.series_id if known.population in self.limits.periods else None
        left = amount_text(max(charges.limit - self.charged(charges, known.population, apart), _NOTHING))
        what = release.words
        if not charges.by_path(known.law):
            if cap is not None and not self._released(release.series_id):
                what += f" of a series whose cap {amount_text(cap)} is charged whole at its first release"
            elif cap is None and self._released(release.series_id):
                what += " of a series without a cap, of which the first release is charged as one"
        raise BudgetExceededError(
            f"{what}, {beginning(known.population, budget, 'budget of population')}, remaining "
            f"{charges.route} {left}; {self._advice(release)}"
        )

    def _fits_exactly(
        self, charges: Filter, release: Spending, known: Spent, cap: Fraction | None, others: Fraction
    ) -> bool:
        """Whether a level fits that lies between the largest and its rounding to 12 digits."""
        after = self.with_release(release)
        if charges.by_path(known.law):
            return after.charged(charges, known.population) <= charges.limit
        whole = cap if cap is not None else (sum_of_levels(self.of_series(known.series_id)) or release.level)
        room, earlier = self._room(charges, known)
        within = others + release.level <= whole
        return within and charges.fits(room, known.law, whole, known.max_keys, earlier=earlier)

    def _check_delta(self, budget: Budget, release: Spending, known: Spent) -> None:
        """Hold what open domains spend against their share."""
        population, limit = known.population, budget.split.open
        before, after = self.delta_open(population), self.with_release(release).delta_open(population)
        if after <= limit or after <= before:
            return
        more, remaining = after - before, max(limit - before, _NOTHING)
        raise BudgetExceededError(
            f"requested delta {float(more):.6g} more of open domains, "
            f"{beginning(population, budget, 'budget of population')}, remaining {float(remaining):.6g} of "
            f"{float(limit):.6g}, difference {float(more - remaining):.6g}; a release that asks for no more than "
            "that fits at any level: pass delta=, or raise threshold=; nothing was spent"
        )

    def _advice(self, release: Spending) -> str:
        largest = self.largest_level(release.series_id, release.path)
        if largest:
            return f"the largest level that would fit is {amount_text(largest)}; nothing was spent"
        known = self._path(release.series_id, release.path)
        budget = self.budget_of(known.population)
        charges = None if budget is None else budget.filter_for(known.law)
        if charges is not None and not charges.by_path(known.law) and known.cap is not None:
            order = self._order_of_charge(charges, known.population)
            room = charges.limit - self.charged(charges, known.population)
            cap = charges.largest(room, known.law, known.max_keys, earlier=len(order))
            if cap and not self._released(release.series_id):
                return f"the largest cap that would fit is {amount_text(cap)}; nothing was spent"
        return "no level would fit; nothing was spent"


def check_release(
    state: State,
    ledger: Ledger,
    release: Spending,
    *beside: Spending,
    path_id: int | None = None,
    name: str | None = None,
    who: str | None = None,
) -> None:
    """Refuse a release, or what is beside it, beyond a limit of a store, and note that among its events."""
    try:
        ledger.check(release)
    except RefusedError as refusal:
        state.record_refusal(
            who=who, series_id=release.series_id, path_id=path_id, level=level_text(release.level), release=name,
            population=ledger.of_series(release.series_id)[0].population,
            details={"refused by": type(refusal).__name__, "because": str(refusal)},
        )  # fmt: skip
        raise
    if beside:
        check_release(state, ledger.with_release(release), *beside, name=name, who=who)
