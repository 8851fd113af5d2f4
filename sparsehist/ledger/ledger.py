"""The `Ledger` class: the costs of a store and the limits on them, as an immutable value.

`Ledger.check` decides from public parameters alone whether a release is allowed. `Ledger.with_release` returns the
ledger after a release. A cap bounds the sum of costs over the noise paths of a series. A budget bounds the sum of a
population's charges (`sparsehist.privacy.filters`). Dropped series are included: their releases stay published.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from sparsehist.declaration import Declaration, Every
from sparsehist.errors import BudgetExceededError, CapExceededError, DeclarationError, NameTakenError, RefusedError
from sparsehist.ledger.budgets import Budget, Limit, Limits, beginning, ways_to_charge
from sparsehist.ledger.spent import (
    CELLS,
    Account,
    PathName,
    Spending,
    Spent,
    amount_text,
    first_generation,
    shortened,
)
from sparsehist.privacy import Cost, level_text, total_cost
from sparsehist.privacy.composition import ZCDP
from sparsehist.privacy.filters import Filter
from sparsehist.store import State

_NOTHING = Fraction(0)
_ANOTHER = "another"  # used as the id of a series that does not exist yet


@dataclass(frozen=True)
class Ledger:
    """The limits of a store, and a dict from the id of each series to its account, in order of creation.

    Example:
        >>> visits = Account("1", Declaration(name="visits", unit="user", max_keys=1, cap=1))
        >>> once = Ledger().with_series(visits).with_release(Spending("1", Fraction(1, 2)))
        >>> once.largest_level("1"), once.with_release(Spending("1", Fraction(1, 4))).accounts["1"].finest()
        (Fraction(1, 1), Fraction(1, 2))
    """

    accounts: Mapping[str, Account] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits, compare=False, repr=False)

    @classmethod
    def of(cls, state: State) -> Ledger:
        accounts: dict[str, Account] = {}
        for row in state.ledger():
            series_id, dropped, path = (row.pop(name) for name in ("series_id", "dropped", "path"))
            declaration = row.pop("declaration")
            account = accounts.get(series_id) or Account(series_id, Declaration.from_json(declaration), {}, dropped)
            accounts[series_id] = replace(account, paths={**account.paths, path: Spent(**row)})
        return cls(accounts, Limits(state.events(limits=True)))

    def with_series(self, account: Account) -> Ledger:
        return replace(self, accounts={**self.accounts, account.series_id: account})

    def with_event(self, **event: Any) -> Ledger:
        return replace(self, limits=self.limits.with_event(**event))

    def with_release(self, release: Spending, *beside: Spending) -> Ledger:
        """Return the ledger after a release and any further charges that are committed together with it."""
        # Charges can depend on the order of first releases, so give this release a generation later than all others.
        first = (spent.first_generation for account in self.accounts.values() for spent in account.paths.values())
        generation = 1 + max(first, default=0)
        after = self.with_series(self.accounts[release.series_id].with_release(release, generation))
        return after.with_release(*beside) if beside else after

    def of_population(self, population: str) -> list[Account]:
        return [account for account in self.accounts.values() if account.population == population]

    def ended_by_dropping(self, series: str) -> str:
        """Return a warning if dropping this period would end its periodic series, else an empty string."""
        for account in self.accounts.values():
            rule = self.limits.periods.get(account.population)
            if rule and rule.most_periods and (account.name, account.dropped) == (series, None) and account.releases:
                return (
                    f"{series} was released: once it is dropped, nothing more can be added to {account.population}. "
                )
        return ""

    def cap(self, series_id: str) -> Limit:
        account = self.accounts[series_id]
        return self.limits.cap(series_id, account.declared.cap, account.first_generation)

    def budget(self, population: str) -> Limit:
        return self.limits.budget(population, first_generation(self.of_population(population)))

    def budget_of(self, population: str) -> Budget | None:
        budget: Budget | None = self.limits.budget(population).now
        return budget

    # Limits

    def check(self, release: Spending, *beside: Spending) -> None:
        """Raise an error if a release, or a charge committed with it, would exceed a cap or a budget."""
        account = self.accounts[release.series_id]
        budget = self.budget_of(account.population)
        if release.level > account.on(release.path).finest:
            self._check_cap(release, account)
            if budget is not None:
                self._check_noise(budget, release, account)
        if budget is not None:
            self._check_delta(budget, release, account.population)
        if beside:
            self.with_release(release).check(*beside)

    def check_series(self, declared: Declaration) -> None:
        """Raise an error if the name or period of a new series is taken, or if a budget cannot charge its noise."""
        population = declared.population
        if declared.period is not None:
            self._check_period(declared.name, population)
        else:
            self.check_name(declared.name)
            if population in self.limits.periods:
                raise DeclarationError(
                    f"the population {population!r} belongs to a periodic series: choose another population"
                )
        budget, account = self.budget_of(population), Account(_ANOTHER, declared)
        if budget is None:
            return
        if budget.filter_for(account.law) is None:
            raise BudgetExceededError(
                f"{beginning(population, budget)}, which cannot charge {ways_to_charge(declared.noise, account.law)}"
            )
        if declared.domain.is_open and not budget.split.open:
            raise BudgetExceededError(
                f"the budget reserves no delta for open domains: declare a domain that is not open, or set the "
                f"budget again with {'delta=' if budget.delta == 0 or budget.epsilon is None else 'open_share=0.5'}; "
                f"{beginning(population, budget)}"
            )

    def check_budget(self, population: str, budget: Budget) -> None:
        for account in self.of_population(population):
            for path, spent in account.paths.items():
                law = account.law_on(path)
                if budget.filter_for(law) is None and (account.dropped is None or spent.releases):
                    raise DeclarationError(
                        f"this budget cannot charge the noise of the series {account.name!r}: "
                        f"{ways_to_charge(account.noise_on(path), law)}; {beginning(population, budget)}"
                    )

    def check_raised_cap(self, series_id: str) -> None:
        """Raise an error if the cap of a series is final because a budget has already charged the whole cap."""
        account = self.accounts[series_id]
        budget = self.budget_of(account.population)
        charges = None if budget is None else budget.filter_for(account.law)
        if charges is not None and not charges.by_path(account.law) and account.releases:
            raise BudgetExceededError(
                "the cap cannot be raised, because the budget charged the whole cap once, at the first release, and "
                "would not charge a larger cap: create a new series with a larger cap; "
                f"{beginning(account.population, budget)}"
            )

    def largest_level(self, series_id: str, path: PathName = CELLS) -> Fraction | None:
        """Return the largest level allowed for a noise path, rounded down to 12 digits.

        Levels up to the finest one released on the path are always allowed. Return 0 if no level is allowed, and None
        if neither a cap nor a budget limits the level. Limits on delta are not considered.
        """
        account = self.accounts[series_id]
        cap, budget = self.cap(series_id).now, self.budget_of(account.population)
        bounds = [] if cap is None else [shortened(cap - account.finest(path))]
        if budget is not None:
            bounds.append(self._largest_charged(budget, account, path))
        if not bounds:
            return None
        largest = min(bounds)
        return max(largest if largest >= account.least_level(path) else _NOTHING, account.on(path).finest)

    def largest_equal_cap(self, declared: Declaration, times: int) -> Fraction | None:
        """Return the largest cap that can be given to each of several new series with the same declaration.

        `times` is the number of these series. The cap is rounded down to 12 digits. Return None if there is no limit,
        and 0 if no cap is allowed.
        """
        budget, another = self.budget_of(declared.population), Account(_ANOTHER, declared)
        if budget is None:
            return None
        charges = budget.filter_for(another.law)
        if charges is None:
            return _NOTHING
        room, earlier = self._room(charges, another)
        return charges.largest(room, another.law, another.keys, earlier=earlier, times=times)

    def remaining(self, population: str) -> Fraction | None:
        budget = self.budget_of(population)
        if budget is None:
            return None
        return max(budget.noise.limit - self.charged(budget.noise, population, _ANOTHER), _NOTHING)

    def open_room(self, declared: Declaration) -> float | None:
        """Return the delta that a series may still use for its open domain, or None if there is no limit."""
        budget = self.budget_of(declared.population)
        if budget is None:
            return None
        accounts = self.of_population(declared.population)
        accounts = [one for one in accounts if one.name == declared.name and one.dropped is None]
        account = accounts[0] if accounts else Account(_ANOTHER, declared)
        spent = self.delta_open(declared.population, account.series_id) + account.delta_open
        return max(float(budget.split.open - spent), 0.0)

    def check_name(self, name: str) -> None:
        """Raise an error if a name belongs to a periodic series, or is reserved for one of its periods."""
        for log, rule in self.limits.periods.items():
            if name == log or rule.names(log, name):
                what = "a periodic series" if name == log else f"a {rule.period} of the periodic series {log!r}"
                raise NameTakenError(f"{name!r} belongs to {what}: choose another name")

    def _check_period(self, name: str, population: str) -> None:
        if population in self.limits.finished:
            raise RefusedError(f"no period can be added, because this series is finished: {population!r}")
        if any(account.name == name and account.releases for account in self.of_population(population)):
            raise RefusedError(
                f"this period was released and dropped, and its units cannot be counted a second time: {name!r}"
            )

    # Cost to one privacy unit

    def cost_of(self, accounts: Iterable[Account]) -> Cost:
        """Return the total cost of these series to one unit.

        If a unit counts in at most `most_periods` periods of a periodic series, only that many periods are added: the
        costliest ones.
        """
        others, in_periods = list[Cost](), dict[str, list[Account]]()
        for account in accounts:
            if account.population in self.limits.periods:
                in_periods.setdefault(account.population, []).append(account)
            else:
                others.append(account.cost)
        periods = [_costliest(some, self.limits.periods[name].most_periods) for name, some in in_periods.items()]
        return total_cost([*others, *periods])

    def cost_per_period(self, population: str, rule: Every) -> Cost:
        accounts = self.of_population(population)
        return _costliest(accounts, rule.per_period(len(accounts)))

    def periods_left(self, population: str) -> int:
        """Return how many more periods can be released at the level of the period that was released last.

        The number includes appended periods without a release. Limits on delta are not considered. Before the first
        release, return the declared number of periods.
        """
        rule, budget = self.limits.periods[population], self.budget_of(population)
        accounts = self.of_population(population)
        left = rule.n_periods - sum(account.releases > 0 for account in accounts)
        if budget is None or left == rule.n_periods:
            return left
        charges = [self._charge(budget.noise, one, 0) for one in self._in_order_of_charge(budget.noise, population)]
        for more in range(1, left + 1):
            every = sorted([*charges, *[charges[-1]] * more], reverse=True)
            if sum(every[: rule.protected(max(len(accounts), len(every)))], _NOTHING) > budget.noise.limit:
                return more - 1
        return left

    def charged(self, charges: Filter, population: str, excluded: str | None = None) -> Fraction:
        """Return the sum of a filter's charges for a population, leaving out the series with the id `excluded`."""
        order = enumerate(self._in_order_of_charge(charges, population))
        each = {account.series_id: self._charge(charges, account, earlier) for earlier, account in order}
        return self._together(population, each, excluded)

    def delta_open(self, population: str, excluded: str | None = None) -> Fraction:
        accounts = self.of_population(population)
        return self._together(population, {one.series_id: one.delta_open for one in accounts}, excluded)

    def _together(self, population: str, each: Mapping[str, Fraction], excluded: str | None) -> Fraction:
        """Add up the charges of series; if a unit counts in at most n periods, add only the n largest charges.

        The series `excluded` counts as one of the n periods, but its charge is not added.
        """
        others = [value for series_id, value in each.items() if series_id != excluded]
        rule = self.limits.periods.get(population)
        if rule is None:
            return sum(others, _NOTHING)
        ids = {account.series_id for account in self.of_population(population)} | ({excluded} if excluded else set())
        most = rule.protected(len(ids))
        if most is not None and excluded is not None:
            most -= 1
        return sum(sorted(others, reverse=True)[:most], _NOTHING)

    def _in_order_of_charge(self, charges: Filter, population: str) -> list[Account]:
        released = [one for one in self.of_population(population) if one.releases and charges.takes(one.law)]
        return sorted(released, key=lambda account: account.first_generation)

    def _charge(self, charges: Filter, account: Account, earlier: int) -> Fraction:
        if charges.by_path(account.law):
            return self._charge_by_path(charges, account)
        whole = self.cap(account.series_id).now or account.finest()
        return charges.charge(account.law, whole, account.keys, earlier=earlier)

    @staticmethod
    def _charge_by_path(charges: Filter, account: Account, without: PathName | None = None) -> Fraction:
        keys = account.keys
        paths = {path: spent.finest for path, spent in account.paths.items() if spent.finest and path != without}
        return sum((charges.charge(account.law_on(path), finest, keys) for path, finest in paths.items()), _NOTHING)

    def _room(self, charges: Filter, account: Account) -> tuple[Fraction, int]:
        """Return how much of a filter's limit is left for a series, and how many series were charged before it.

        The first series with Poisson noise is charged at half of delta, the second at a quarter, and so on. So the
        charge of such a series depends on how many were charged before it.
        """
        population = account.population
        order = [one.series_id for one in self._in_order_of_charge(charges, population)]
        earlier = order.index(account.series_id) if account.series_id in order else len(order)
        return charges.limit - self.charged(charges, population, excluded=account.series_id), earlier

    def _largest_charged(self, budget: Budget, account: Account, path: PathName) -> Fraction:
        law, keys = account.law_on(path), account.keys
        charges = budget.filter_for(law)
        if charges is None:
            return _NOTHING
        room, earlier = self._room(charges, account)
        if charges.by_path(law):
            return charges.largest(room - self._charge_by_path(charges, account, path), law)
        whole = self.cap(account.series_id).now or account.finest()
        if not whole:
            return charges.largest(room, law, keys, earlier=earlier)
        fits = charges.fits(room, law, whole, keys, earlier=earlier)
        return shortened(whole - account.finest(path)) if fits else _NOTHING

    def _fits(self, charges: Filter, release: Spending, account: Account) -> bool:
        room, earlier = self._room(charges, account)
        if charges.by_path(account.law):
            return self._charge_by_path(charges, account.with_release(release, 1)) <= room
        whole = self.cap(account.series_id).now or account.finest() or release.level
        if account.finest(release.path) + release.level > whole:
            return False
        return charges.fits(room, account.law, whole, account.keys, earlier=earlier)

    def _check_cap(self, release: Spending, account: Account) -> None:
        cap: Fraction | None = self.cap(account.series_id).now
        others = account.finest(release.path)
        if cap is None or others + release.level <= cap:
            return
        spent = f", of which other paths use {amount_text(others)}" if others else ""
        remaining = max(cap - others, _NOTHING)
        raise CapExceededError(
            f"{release.words}, series cap {amount_text(cap)}{spent}, remaining "
            f"{amount_text(remaining)}, difference {amount_text(release.level - remaining)}; {self._advice(release)}"
        )

    def _check_noise(self, budget: Budget, release: Spending, account: Account) -> None:
        population, law = account.population, account.law_on(release.path)
        charges = budget.filter_for(law)
        if charges is None:
            way = ways_to_charge(account.noise_on(release.path), law)
            raise BudgetExceededError(
                f"{beginning(population, budget)}, which cannot charge {way}; nothing was spent"
            )
        if self._fits(charges, release, account):
            return
        what, cap = release.words, self.cap(account.series_id).now
        if not charges.by_path(law) and cap is not None and not account.releases:
            what += f" of a series whose cap {amount_text(cap)} is charged whole at its first release"
        elif not charges.by_path(law) and cap is None and account.releases:
            what += " of a series without a cap, whose first release is charged as its cap"
        # For a period, subtract only the charges of other periods that can add up for one unit: the largest ones.
        apart = account.series_id if population in self.limits.periods else None
        left = amount_text(charges.limit - self.charged(charges, population, apart))
        raise BudgetExceededError(
            f"{what}, {beginning(population, budget)}, remaining {charges.route} {left}; {self._advice(release)}"
        )

    def _check_delta(self, budget: Budget, release: Spending, population: str) -> None:
        limit = budget.split.open
        before, after = self.delta_open(population), self.with_release(release).delta_open(population)
        if after <= limit or after <= before:
            return
        more, remaining = after - before, max(limit - before, _NOTHING)
        raise BudgetExceededError(
            f"the release needs a further delta of {float(more):.6g} for its open domain, but only "
            f"{float(remaining):.6g} of {float(limit):.6g} remains for open domains: pass a smaller open_delta= or a "
            f"larger threshold=; {beginning(population, budget)}; nothing was spent"
        )

    def _advice(self, release: Spending) -> str:
        largest = self.largest_level(release.series_id, release.path)
        fits = f"the largest level that would fit is {amount_text(largest)}" if largest else "no level would fit"
        return f"{fits}; nothing was spent"


def _costliest(accounts: Iterable[Account], n: int | None) -> Cost:
    """Return an upper bound on the total cost of any n of these series, or of all series if n is None.

    Add the n largest values of rho and the n largest values of delta_infinity, which may be of different series.
    """
    accounts = list(accounts)
    each = sorted((account.cost for account in accounts), key=lambda cost: cost.rho or 0.0, reverse=True)
    together = total_cost(each[:n])
    delta = math.fsum(sorted((cost.delta_infinity for cost in each), reverse=True)[:n])
    # If noise distributions differ, a larger rho may mean a smaller epsilon. Then all costs are charged as
    # zCDP, for which a larger rho always means a larger epsilon.
    laws = {one.law_on(path) for one in accounts for path, spent in one.paths.items() if spent.releases}
    parts = tuple(replace(part, law=ZCDP) for part in together.parts) if len(laws) > 1 else together.parts
    return replace(together, parts=parts, delta_infinity=delta)


def check_release(
    state: State,
    ledger: Ledger,
    release: Spending,
    *beside: Spending,
    path_id: int | None = None,
    name: str | None = None,
) -> None:
    """Check a release and the charges committed with it against all limits; record a refusal as an event."""
    try:
        ledger.check(release)
    except RefusedError as refusal:
        state.record_refusal(
            series_id=release.series_id, path_id=path_id, level=level_text(release.level), release=name,
            population=ledger.accounts[release.series_id].population,
            details={"refused by": type(refusal).__name__, "because": str(refusal)},
        )  # fmt: skip
        raise
    if beside:
        check_release(state, ledger.with_release(release), *beside, name=name)
