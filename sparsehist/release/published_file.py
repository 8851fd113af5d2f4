"""What a Parquet file must hold to be read as a release: files come from strangers, and are checked before use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from sparsehist.errors import InputError

MOST_ROWS = 20_000_000
"""Rows that are read: a file of one megabyte may claim 10⁸ rows, which take gigabytes of memory."""
_NUMBERS = ("noisy_count", "noisy_answer", "std")
_KEYS = (pl.String, pl.Binary, pl.Date, pl.Datetime, pl.Boolean, pl.Categorical, pl.Enum)
_KEYED_KINDS = ("cells", "running")


def check_footer(source: Path) -> None:
    """Refuse a file that says it has too many rows, before any of them is read."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        footer = parquet.read_metadata(source)
        rows = max(footer.num_rows, sum(footer.row_group(at).num_rows for at in range(footer.num_row_groups)))
    except (OSError, pa.ArrowException):
        raise InputError(f"{source} is not a release written by sparsehist, or it is damaged") from None
    if rows > MOST_ROWS:
        raise InputError(
            f"{source} says it has {rows:,} rows, and at most {MOST_ROWS:,} are read: if you trust it, read it with "
            "polars.scan_parquet"
        )


def check_content(source: Path, frame: pl.DataFrame, metadata: Mapping[str, Any]) -> None:
    """Refuse rows or public parameters that no release has; errors name columns that releases have, nothing else."""
    columns = dict(frame.schema)
    counts = "noisy_answer" if "noisy_answer" in columns else "noisy_count"
    if counts not in columns:
        raise InputError(f"{source} is not a release: it has no column noisy_count")
    for name in _NUMBERS:
        if name in columns and not columns[name].is_numeric():
            raise InputError(f"{source} is not a release: its column {name} is not of numbers")
    if not frame[counts].cast(pl.Float64).is_finite().all() or frame[counts].null_count():
        raise InputError(f"{source} is not a release: a count in it is no finite number")
    keys = metadata.get("key")
    if isinstance(keys, list) and metadata.get("kind", "cells") in _KEYED_KINDS:
        if any(key not in columns for key in keys):
            raise InputError(f"{source} is not a release: a key column that its metadata name is missing")
        if not all(columns[key].is_integer() or columns[key] in _KEYS for key in keys):
            raise InputError(f"{source} is not a release: keys must be numbers, texts or times")
    for name in ("threshold", "effective_threshold", "std", "grid", "expected_false_keys"):
        value = metadata.get(name)
        finite = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if value is not None and not finite:
            raise InputError(f"{source} is not a release: its {name} must be a finite number")
