"""Functions that create a series in memory from a log or from counts."""

from __future__ import annotations

from typing import Any

import polars as pl

import sparsehist as sh


def over_log(log: object, *, seed: int = 1, **declared: Any) -> Any:
    """Create a series named `s` from a log, in memory. Keyword arguments override defaults such as max_keys=1."""
    return sh.create(
        sh.open(":memory:", seed=seed), log, **({"name": "s", "unit": "unit", "key": "key", "max_keys": 1} | declared)
    )


def over_counts(counts: pl.DataFrame, *, seed: int = 1, **declared: Any) -> Any:
    """Create a series named `s` in memory from a frame of keys and their counts."""
    return over_log(sh.Counts(counts, largest=1), seed=seed, **{"unit": None, **declared})
