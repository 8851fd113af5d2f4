"""Read the limits on costs from the events of a store: caps, budgets, and disjoint populations.

When a budget is set, its route is fixed and its delta is split into a part for noise and a part for open domains. The
part for open domains bounds the probability that a key of only one unit is ever published. Unused delta cannot be
moved to the other part: moving it after seeing results would nearly double delta. On the pure route, all of delta is
for open domains.

A limit is ex ante if it was declared before the first release and was not raised since, with the same route and
split: only then did it bound the cost in advance. Any other limit holds ex post.
"""

from __future__ import annotations

import copy
import json
import operator
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from sparsehist.declaration.checks import checked_choice
from sparsehist.declaration.recurring import Every, every_of
from sparsehist.errors import DeclarationError, shown
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.privacy.filters import GAUSSIAN_ROUTE, PURE_ROUTE, RHO_ROUTE, ROUTES, Filter, filter_on, routes_for
from sparsehist.privacy.guarantees import EpsilonDelta, level_or_goal
from sparsehist.privacy.levels import level_or_zero

EX_ANTE, EX_POST = "ex ante", "ex post"
_NOTHING = Fraction(0)
OPEN_SHARE = Fraction(1, 2)
"""Default share of delta that is reserved for open domains, if a series of the population has an open domain."""


@dataclass(frozen=True)
class Split:
    """The parts of a budget's delta that are reserved for noise and for open domains."""

    noise: Fraction
    open: Fraction
    declared: bool = False  # whether the caller passed open_share=


@dataclass(frozen=True)
class Budget:
    """The largest allowed cost of a population, in rho or epsilon, with the filter that enforces this limit.

    A budget in epsilon limits epsilon for this `delta`. In a budget in rho, all of `delta` is reserved for open
    domains. `noise` is the filter that charges the noise of releases.
    """

    rho: Fraction | None
    epsilon: Fraction | None
    delta: Fraction
    noise: Filter
    split: Split

    def __str__(self) -> str:
        """Return the budget in words, such as "rho 2" or "epsilon 4 at delta 0.000001, route gaussian"."""
        if self.epsilon is None:
            beside = f" and delta {level_text(self.delta)}" if self.delta else ""
            return f"rho {level_text(self.rho or _NOTHING)}{beside}"
        order = f" at order {self.noise.order}" if self.noise.order else ""
        at = f" at delta {level_text(self.delta)}" if self.delta else ""
        return f"epsilon {level_text(self.epsilon)}{at}, route {self.noise.route}{order}"

    def describe(self) -> str:
        """Return the budget in words, with its route, the limit on the sum of charges, and the split of delta."""
        named = {"noise": self.split.noise, "open domains": self.split.open}
        shown = [f"{float(value):.4g} for {name}" for name, value in named.items() if value]
        of_delta = f"delta {', '.join(shown)}" if shown else ""
        limit = f"{self.noise.route} up to {level_text(self.noise.limit)}"
        return f"{self} ({'; '.join(part for part in (limit, of_delta) if part)})"

    def filter_for(self, law: str) -> Filter | None:
        """Return the filter that charges noise of this distribution, or None if the budget cannot charge it."""
        return self.noise if self.noise.takes(law) else None

    def as_json(self) -> dict[str, Any]:
        """Return the budget, its filter and its split of delta as JSON for an event. Exact numbers are strings."""
        return dict(json.loads(json.dumps(asdict(self), default=level_text)))

    def is_within(self, other: Budget) -> bool:
        """Return whether the budget `other` has the same route and allows every release that this budget allows."""
        same_route = (self.noise.route, self.noise.order) == (other.noise.route, other.noise.order)
        ours, theirs = (
            (each.noise.limit, each.noise.delta, each.split.noise, each.split.open, each.epsilon or _NOTHING)
            for each in (self, other)
        )
        return same_route and all(map(operator.le, ours, theirs))


@dataclass(frozen=True)
class Limit:
    """The current cap or budget, if any, and whether it holds ex ante or ex post (None before the first release)."""

    now: Any
    standing: str | None


def budget(
    *,
    rho: Level | None = None,
    epsilon: Level | None = None,
    delta: Level | None = None,
    route: str | None = None,
    open_share: Level | None = None,
    opens: bool = False,
) -> Budget:
    """Return the budget that the parameters of `Store.set_budget` describe, with its route and its split of delta."""
    if (rho is None) == (epsilon is None):
        raise DeclarationError("a budget must be in rho, or in epsilon and delta: give rho=, or epsilon= and delta=")
    if route is not None:
        checked_choice("route", route, ROUTES)
    if rho is not None:
        if route not in (None, RHO_ROUTE) or open_share is not None:
            raise DeclarationError(
                "a budget in rho has the route 'rho', and all its delta is for open domains: give route= and "
                "open_share= only with epsilon= and delta="
            )
        total, exact = _probability("delta", delta or 0), as_level(rho, "rho")
        return Budget(exact, None, total, Filter(RHO_ROUTE, exact), Split(_NOTHING, total))
    if delta is None and route != PURE_ROUTE:
        raise DeclarationError("a budget in epsilon needs a delta, such as delta=1e-6; delta=0 is pure DP")
    whole, total = as_level(epsilon if epsilon is not None else 0, "epsilon"), _probability("delta", delta or 0)
    route = route or (GAUSSIAN_ROUTE if total else PURE_ROUTE)
    if route == RHO_ROUTE:
        raise DeclarationError("route='rho' is only for budgets in rho; with epsilon=, choose 'gaussian' or 'renyi'")
    split = _split(total, route, open_share, opens=opens)
    return Budget(None, whole, total, filter_on(route, whole, split.noise), split)


def budget_within(goal: Level | EpsilonDelta, *, opens: bool, route: str | None = None) -> Budget:
    """Return a budget on `route` whose limit is a rho, or a pair (epsilon, delta)."""
    read = level_or_goal(goal)
    if isinstance(read, EpsilonDelta):
        return budget(epsilon=read.epsilon, delta=read.delta, route=route, opens=opens)
    return budget(rho=read, opens=opens)


def _split(delta: Fraction, route: str, open_share: Level | None, *, opens: bool) -> Split:
    if route == PURE_ROUTE:
        if open_share is not None:
            raise DeclarationError("on the pure route all of delta is for open domains: leave out open_share=")
        return Split(_NOTHING, delta)
    by_default = OPEN_SHARE if opens else _NOTHING
    share = by_default if open_share is None else _probability("open_share", open_share)
    return Split(delta * (1 - share), delta * share, declared=open_share is not None)


def _probability(name: str, value: Level) -> Fraction:
    exact = level_or_zero(value, name)
    if exact >= 1:
        raise DeclarationError(f"{name} must be below 1, got {shown(value)}")
    return exact


class Limits:
    """The limits that the events of a store declare.

    Attributes:
        budgets: Dict from population to its present and earlier budgets, as pairs (generation, budget).
        disjoint: Sets of populations that were declared disjoint.
        periods: Dict from the name of a periodic series, which is also the name of its population, to its `Every`.
        declarations: Dict from the name of a periodic series to its declaration, as JSON.
        finished: Names of periodic series to which no period can be added.
    """

    def __init__(
        self, events: Sequence[Mapping[str, Any]] = (), *, budgets: Mapping[str, Budget] | None = None
    ) -> None:
        """Read the limits from rows of `State.events`. `budgets` are budgets that were set before these events."""
        self._caps: dict[str, list[tuple[int, Fraction]]] = {}
        self.budgets = {population: [(0, first)] for population, first in (budgets or {}).items()}
        self.disjoint: list[frozenset[str]] = []
        self.periods: dict[str, Every] = {}
        self.declarations: dict[str, Mapping[str, Any]] = {}
        self.finished: set[str] = set()
        for event in events:
            self.add(event, json.loads(event["details"] or "{}"))

    def add(self, event: Mapping[str, Any], details: Mapping[str, Any]) -> None:
        """Add the limit that an event declares."""
        population, generation = event.get("population", ""), event.get("generation", 0)
        match event["what"]:
            case "raise cap":
                self._caps.setdefault(event["series_id"], []).append((generation, as_level(event["level"])))
            case "set budget":
                self.budgets.setdefault(population, []).append((generation, budget_from(details)))
            case "declare disjoint":
                self.disjoint.append(frozenset(details["populations"]))
            case "declare periods":
                self.periods[population], self.declarations[population] = every_of(details["every"]), details
            # A periodic series can be dropped only if none of its periods was released, so its budget is removed too.
            case "drop periods":
                self.periods.pop(population, None)
                self.budgets.pop(population, None)
                self.finished.discard(population)
            case "finish periods":
                self.finished.add(population)

    def with_event(self, **event: Any) -> Limits:
        """Return a copy of the limits with one more event, described by the arguments of `State.declare`."""
        changed = copy.deepcopy(self)
        changed.add(event, event.get("details", {}))
        return changed

    def cap(self, series_id: str, declared: Fraction | None, first_release: int = 0) -> Limit:
        """Return the current cap of a series: the declared cap, or the value to which it was last raised."""
        history = [] if declared is None else [(0, declared)]
        return _limit(history + self._caps.get(series_id, []), first_release, operator.le)

    def budget(self, population: str, first_release: int = 0) -> Limit:
        return _limit(self.budgets.get(population, []), first_release, Budget.is_within)


def _limit(history: Sequence[tuple[int, Any]], first_release: int, is_within: Any) -> Limit:
    now = history[-1][1] if history else None
    if not first_release:
        return Limit(now, None)
    before = [value for generation, value in history if generation < first_release]
    since = [value for generation, value in history if generation >= first_release]
    return Limit(now, EX_ANTE if before and all(is_within(value, before[-1]) for value in since) else EX_POST)


def budget_from(details: Mapping[str, Any]) -> Budget:
    """Return the budget that an event's details describe; the inverse of `Budget.as_json`."""

    def exact(texts: Mapping[str, Any]) -> dict[str, Any]:
        return {name: Fraction(v) if isinstance(v, str) and name != "route" else v for name, v in texts.items()}

    noise, split = Filter(**exact(details["noise"])), Split(**exact(details["split"]))
    return Budget(**{**exact(details), "noise": noise, "split": split})


def ways_to_charge(family: str, law: str) -> str:
    could = routes_for(law)
    if not could:
        return f"{family} noise; no route can, because its guarantee does not compose"
    return f"{family} noise; {' or '.join(f'route={route!r}' for route in could)} could"


def beginning(population: str, budget: Budget | None) -> str:
    """Return the beginning of an error message: the name of a population and its budget in words."""
    return f"the budget of population {population!r} is {budget}"
