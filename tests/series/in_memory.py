"""Create a series in memory by a short call."""

from __future__ import annotations

from typing import Any

import polars as pl

import sparsehist as sh


def over_log(log: object, *, seed: int = 1, **declared: Any) -> Any:
    """Create the series `s` of a log in a store in memory, with max_keys=1 by default."""
    return sh.create(
        sh.open(":memory:", seed=seed), log, **({"name": "s", "unit": "unit", "key": "key", "max_keys": 1} | declared)
    )


def over_counts(counts: pl.DataFrame, *, seed: int = 1, **declared: Any) -> Any:
    """Create the series `s` in a store in memory, from rows that contain a key and its count."""
    return over_log(sh.Counts(counts, largest=1), seed=seed, **{"unit": None, **declared})
