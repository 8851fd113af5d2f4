"""The limits on what a store may spend, read from its events: caps of series, budgets of populations, disjointness.

A limit is ex ante while nothing was released under it before it was declared, and it was never raised since: only
then did it bound what could happen before anything did. Everything else holds ex post, for what did happen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import polars as pl

from sparsehist.errors import DeclarationError
from sparsehist.privacy import Level, as_level, level_text

EX_ANTE, EX_POST = "ex ante", "ex post"
LONGEST_REASON = 1000


@dataclass(frozen=True)
class Budget:
    """A limit on a population: rho, with a delta for open domains, or (epsilon, delta).

    Attributes:
        rho: Of zCDP; None where epsilon limits.
        epsilon: None where rho limits.
        delta: The delta that goes with epsilon, or what open domains may spend beside rho.
    """

    rho: Fraction | None
    epsilon: Fraction | None
    delta: Fraction

    def __str__(self) -> str:
        """As people read it: "rho 2", "epsilon 4 at delta 0.000001"."""
        if self.epsilon is not None:
            return f"epsilon {level_text(self.epsilon)} at delta {level_text(self.delta)}"
        beside = f" and delta {level_text(self.delta)}" if self.delta else ""
        return f"rho {level_text(self.rho or Fraction(0))}{beside}"

    def as_json(self) -> dict[str, str | None]:
        """As events keep it: exact texts."""
        named = {"rho": self.rho, "epsilon": self.epsilon, "delta": self.delta}
        return {name: None if value is None else level_text(value) for name, value in named.items()}

    def is_within(self, other: Budget) -> bool:
        """Whether whatever this one allows, the other allows too."""
        if (self.rho is None) != (other.rho is None) or self.delta > other.delta:
            return False
        ours, theirs = (self.rho, other.rho) if self.rho is not None else (self.epsilon, other.epsilon)
        return ours is not None and theirs is not None and ours <= theirs


@dataclass(frozen=True)
class Limit:
    """A limit as it stands, beside the one that stood when the first release was made.

    Attributes:
        now: A cap (exact level) or a budget; None where nothing limits.
        at_first_release: The same then; None where nothing limited or nothing was released.
        standing: "ex ante" or "ex post"; None where nothing was released.
    """

    now: Any
    at_first_release: Any
    standing: str | None


def budget(*, rho: Level | None, epsilon: Level | None, delta: Level | None) -> Budget:
    """Read a budget.

    Raises:
        DeclarationError: Unless it is rho, or epsilon with a delta below 1.
    """
    if (rho is None) == (epsilon is None):
        raise DeclarationError("a budget is rho=, or epsilon= and delta=: give one of them")
    if epsilon is not None and delta is None:
        raise DeclarationError("a budget in epsilon needs the delta it holds at, such as delta=1e-6")
    slack = Fraction(0) if delta is None or delta == 0 else as_level(delta)
    if slack >= 1:
        raise DeclarationError(f"delta must be below 1, got {delta!r}")
    return Budget(None if rho is None else as_level(rho), None if epsilon is None else as_level(epsilon), slack)


def checked_text(what: str, text: str | None, *, needed: bool = False) -> str | None:
    """Return a name or a reason that goes into the ledger for good, if it is fit for it.

    Raises:
        DeclarationError: If it is empty, long, or holds what does not print.
    """
    if text is None and not needed:
        return None
    fits = isinstance(text, str) and 0 < len(text.strip()) <= LONGEST_REASON and text.isprintable()
    if not fits:
        raise DeclarationError(
            f"{what} stays in the ledger for good: one line of text, up to {LONGEST_REASON} characters, got {text!r}"
        )
    return text


class Limits:
    """What the events of a store declare."""

    def __init__(self, events: pl.DataFrame) -> None:
        """Read events as `State.events` gives them."""
        declared = events.filter(pl.col("what").is_in(["raise cap", "set budget", "declare disjoint"]))
        self._caps: dict[str, list[tuple[int, Fraction]]] = {}
        self._budgets: dict[str, list[tuple[int, Budget]]] = {}
        self.disjoint: list[frozenset[str]] = []
        for event in declared.iter_rows(named=True):  # a handful of declarations, no row of anybody's log
            said, generation = json.loads(event["details"] or "{}"), event["generation"]
            if event["what"] == "raise cap":
                self._caps.setdefault(event["series_id"], []).append((generation, as_level(event["level"])))
            elif event["what"] == "set budget":
                self._budgets.setdefault(event["population"], []).append((generation, _budget_from(said)))
            else:
                self.disjoint.append(frozenset(said["populations"]))

    def cap(self, series_id: str, declared: str | None, first_release: int | None) -> Limit:
        """The cap of a series, declared with it and raised since.

        Args:
            series_id: The series.
            declared: Exact text; None where it was created without.
            first_release: Generation of its first release; None where there is none.
        """
        history = [] if declared is None else [(0, as_level(declared))]
        return _limit(history + self._caps.get(series_id, []), first_release, _not_above)

    def budget(self, population: str, first_release: int | None) -> Limit:
        """The budget of a population, given the generation of its first release."""
        return _limit(self._budgets.get(population, []), first_release, Budget.is_within)


def _limit(history: Sequence[tuple[int, Any]], first_release: int | None, is_within: Any) -> Limit:
    now = history[-1][1] if history else None
    if first_release is None:
        return Limit(now, None, None)
    before = [value for generation, value in history if generation < first_release]
    since = [value for generation, value in history if generation >= first_release]
    if not before:
        return Limit(now, None, EX_POST)
    kept = all(is_within(value, before[-1]) for value in since)
    return Limit(now, before[-1], EX_ANTE if kept else EX_POST)


def _not_above(value: Fraction, other: Fraction) -> bool:
    return value <= other


def _budget_from(said: Mapping[str, str | None]) -> Budget:
    rho, epsilon, delta = (None if said[name] is None else Fraction(str(said[name])) for name in _FIELDS)
    return Budget(rho, epsilon, delta or Fraction(0))


_FIELDS = ("rho", "epsilon", "delta")
