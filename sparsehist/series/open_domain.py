"""Releases over an open domain: thresholds from a delta that all releases of a series share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparsehist.domain import Open
from sparsehist.errors import BudgetExceededError, DeclarationError
from sparsehist.histogram.never_exceeds import threshold_for_exceedance
from sparsehist.histogram.open_budget import OpenBudget, exceedance_at, open_budget
from sparsehist.noise.gaussian import Gaussian
from sparsehist.privacy import level_text
from sparsehist.series.declaration import Declaration
from sparsehist.series.request import Request
from sparsehist.store import ReleaseRecord


def open_parameters(
    declaration: Declaration, domain: Open, request: Request, made: Sequence[ReleaseRecord]
) -> dict[str, Any]:
    """The threshold by what is left of the series' delta, and what is left then.

    Args:
        declaration: Of the series.
        domain: Its domain.
        request: With a level.
        made: The releases of the path so far, in order.

    Raises:
        DeclarationError: If false keys were asked for: there are none.
        BudgetExceededError: If delta has no room for the request; says which threshold would do.
    """
    assert request.level is not None
    if request.false_keys is not None:
        raise DeclarationError(
            f"false_keys={request.false_keys!r} has no meaning for {domain.describe()}: keys that nobody touched are "
            "never published, so there are no false keys. Give a delta, a threshold or neither"
        )
    family, level = declaration.family, request.level
    past = [(known.level, known.threshold) for known in made]
    before = open_budget(family, past, float(domain.delta), declaration.max_keys)
    share, threshold = request.delta, request.threshold
    if threshold is None:
        share = before.remaining / 2 if share is None else share
        if share > before.remaining:
            raise _refusal(share, before, "what remains may be asked for")
        allowed = before.allowance(share)
        if not allowed > 0:
            raise _refusal(share, before, "nothing remains that a release could be made for")
        threshold = threshold_for_exceedance(family, past, level, allowed)
    exceeds = exceedance_at(family, past, level, threshold)
    if not before.holds(exceeds):
        allowed = before.allowance(before.remaining)
        lowest = threshold_for_exceedance(family, past, level, allowed) if allowed > 0 else None
        advice = "no threshold would do" if lowest is None else f"threshold={lowest!r} would take all that remains"
        raise _refusal(before.added(exceeds), before, advice)
    after = before.after(exceeds)
    finest = max([level, *(known.level for known in made)])
    return {
        "threshold": threshold,
        "false_keys": None,
        "expected_false_keys": 0.0,
        "delta": domain.delta_text,
        "delta_share": share,
        "delta_infinity": after.delta_spent,
        "delta_remaining": after.remaining,
        "guarantee": _guarantee(declaration, level_text(finest), family.statement(finest), after),
    }


def _refusal(requested: float, budget: OpenBudget, advice: str) -> BudgetExceededError:
    remaining = budget.remaining
    return BudgetExceededError(
        f"requested delta {requested:.6g}, remaining delta {remaining:.6g} of the series' {budget.delta:.6g}, "
        f"difference {requested - remaining:.3g}; {advice}. Nothing was spent"
    )


def _guarantee(declaration: Declaration, finest: str, statement: str, budget: OpenBudget) -> str:
    delta = f"{budget.delta_spent:.6g}"
    gaussian = isinstance(declaration.family, Gaussian)
    together = f"{delta}-approximate {finest}-zCDP" if gaussian else f"{statement}, with {delta} added to its delta"
    return (
        f"this release and all earlier ones of the series together: {together} (delta_infinity: the probability that "
        "a key which only one unit has is ever published)"
    )
