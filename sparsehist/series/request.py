"""What a caller asks of a release of cells, checked as far as it can be without a store."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

from sparsehist.errors import DeclarationError, ThresholdError
from sparsehist.ledger.arguments import checked_name, checked_number
from sparsehist.privacy import Level, level_text
from sparsehist.privacy.guarantees import EpsilonDelta, level_or_goal

_LARGEST_THRESHOLD = 2.0**48
# Half of what a round can draw at all, so that no refusal ever depends on the counts.
_MOST_FALSE_KEYS = 2.0**30


@dataclass(frozen=True)
class CellRequest:
    """What a caller asked of a release of cells; what is None stands as the release of that name has it.

    Attributes:
        goal: The (epsilon, delta) that stands for a level, where one was asked.
        open_room: What limits beside the series' own leave of delta for open domains; None where there are none.
    """

    kind: ClassVar[str] = "cells"
    needs: ClassVar[str] = "level="

    name: str
    level: Fraction | None
    threshold: float | None
    false_keys: float | None
    delta: float | None = None
    max_false_keys: float = 1e7
    goal: EpsilonDelta | None = None
    open_room: float | None = None

    @property
    def complete(self) -> bool:
        return self.level is not None or self.goal is not None

    def at(self, level: Fraction | None, open_room: float | None) -> Self:
        return replace(self, level=level, open_room=open_room)

    def as_json(self) -> dict[str, Any]:
        level = None if self.level is None else level_text(self.level)
        goal = None if self.goal is None else self.goal.text
        asked = {"threshold": self.threshold, "false_keys": self.false_keys, "delta_share": self.delta}
        return {"level": level, "epsilon_delta": goal, **asked}


def requested(
    name: str,
    *,
    level: Level | EpsilonDelta | None,
    threshold: float | None,
    false_keys: float | None,
    delta: float | None = None,
    max_false_keys: float = 1e7,
) -> CellRequest:
    """Check what can be checked without a store.

    Raises:
        DeclarationError: If a parameter is wrong; the message carries its value.
    """
    if threshold is not None and false_keys is not None:
        raise DeclarationError("give threshold= or false_keys=, not both")
    if delta is not None and not (threshold is None and false_keys is None):
        raise DeclarationError("give a delta or a threshold, not both; false keys are for declared domains")
    read = None if level is None else level_or_goal(level)
    return CellRequest(
        checked_name("release", name),
        read if isinstance(read, Fraction) else None,
        None if threshold is None else _checked_threshold(threshold),
        None if false_keys is None else checked_number("false_keys", false_keys),
        None if delta is None else _checked_delta(delta),
        _checked_false_keys(max_false_keys),
        read if isinstance(read, EpsilonDelta) else None,
    )


def _checked_threshold(threshold: float) -> float:
    value = checked_number("threshold", threshold)
    if abs(value) > _LARGEST_THRESHOLD:
        raise ThresholdError(f"threshold must lie within {_LARGEST_THRESHOLD:.3g} counts of zero, got {threshold!r}")
    return value


def _checked_delta(delta: float) -> float:
    value = checked_number("delta", delta)
    if not 0 < value < 1:
        raise DeclarationError(f"delta must lie strictly between 0 and 1, got {delta!r}")
    return value


def _checked_false_keys(most: float) -> float:
    value = checked_number("max_false_keys", most)
    if not 0 < value <= _MOST_FALSE_KEYS:
        raise DeclarationError(f"max_false_keys must be above 0 and at most {_MOST_FALSE_KEYS:.3g}, got {most!r}")
    return value
