"""What a caller asks of a release, checked as far as it can be without a store."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sparsehist.errors import DeclarationError, ThresholdError
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.series.declaration import checked_name

_LARGEST_THRESHOLD = 2.0**48


@dataclass(frozen=True)
class Request:
    """What a caller asked of a release."""

    name: str
    level: Fraction | None
    threshold: float | None
    false_keys: float | None
    delta: float | None = None

    def differs(self, made: Mapping[str, Any]) -> list[str]:
        """What of this request is not what the release of that name was asked for."""
        asked = self.as_json()
        differing = [field for field in asked if asked[field] not in (None, made.get(field))]
        told = {field: field.removesuffix("_share") for field in differing}
        return [
            f"no {name}" if made.get(field) is None else f"{name}={made[field]!r}" for field, name in told.items()
        ]

    def as_json(self) -> dict[str, Any]:
        """The request as it is stored; levels as exact text."""
        level = None if self.level is None else level_text(self.level)
        return {"level": level, "threshold": self.threshold, "false_keys": self.false_keys, "delta_share": self.delta}


def requested(
    name: str,
    *,
    level: Level | None,
    threshold: float | None,
    false_keys: float | None,
    delta: float | None = None,
) -> Request:
    """Check what can be checked without a store.

    Raises:
        DeclarationError: If a parameter is wrong; the message carries its value.
    """
    if threshold is not None and false_keys is not None:
        raise DeclarationError("give threshold= or false_keys=, not both")
    if delta is not None and not (threshold is None and false_keys is None):
        raise DeclarationError("give a delta or a threshold, not both; false keys are for declared domains")
    return Request(
        checked_name("release", name),
        None if level is None else as_level(level),
        None if threshold is None else _checked_threshold(threshold),
        None if false_keys is None else finite("false_keys", false_keys),
        None if delta is None else _checked_delta(delta),
    )


def _checked_threshold(threshold: float) -> float:
    value = finite("threshold", threshold)
    if abs(value) > _LARGEST_THRESHOLD:
        raise ThresholdError(f"threshold must lie within {_LARGEST_THRESHOLD:.3g} counts of zero, got {threshold!r}")
    return value


def _checked_delta(delta: float) -> float:
    value = finite("delta", delta)
    if not 0 < value < 1:
        raise DeclarationError(f"delta must lie strictly between 0 and 1, got {delta!r}")
    return value


def finite(what: str, value: float) -> float:
    """Read a number that is one."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool | str | bytes) or not math.isfinite(number):
        raise DeclarationError(f"{what} must be a finite number, got {value!r}")
    return number
