"""Confidence intervals for the rows of a release: functions of what was published, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import polars as pl

from sparsehist.errors import DeclarationError, InputError
from sparsehist.histogram.intervals import count_limits
from sparsehist.series.own_noise import load_family

_COLUMNS = ("low", "high")


def frame_with_intervals(
    frame: pl.DataFrame, metadata: Mapping[str, Any], *, confidence: float, simultaneous: bool
) -> pl.DataFrame:
    """Add the columns low and high to the rows of a release; see `Release.intervals`.

    Args:
        frame: Published rows.
        metadata: Of the release.
        confidence: Of each interval, or of all together; strictly between 0 and 1.
        simultaneous: Whether it is that of all together.

    Raises:
        DeclarationError: If the confidence is none.
        InputError: If a key column is called low or high.
    """
    number = isinstance(confidence, int | float) and not isinstance(confidence, bool)
    if not (number and 0 < confidence < 1):
        raise DeclarationError(f"confidence must lie strictly between 0 and 1, got {confidence!r}")
    taken = [name for name in _COLUMNS if name in frame.columns]
    if taken:
        raise InputError(f"a key column is called {taken[0]!r}, the name of a limit: rename it in the log")
    if frame.is_empty():
        return frame.with_columns(pl.lit(0.0).alias(name) for name in _COLUMNS)
    alpha = 1 - confidence
    if simultaneous:  # Šidák: given which cells were published, their noises are independent
        alpha = -math.expm1(math.log(confidence) / frame.height)
    low, high = count_limits(
        load_family(metadata["noise"], metadata["max_keys"]),
        metadata["level"],
        frame["noisy_count"].to_numpy(),
        metadata["effective_threshold"],
        metadata["grid"],
        alpha=alpha,
        # A key of an open domain is published only if somebody touched it.
        least=1.0 if metadata["domain_size"] is None else 0.0,
    )
    return frame.with_columns(pl.Series("low", low), pl.Series("high", high))
