"""Counts that were made elsewhere: check and convert them."""

from __future__ import annotations

import polars as pl

from sparsehist.counting.contract import CountRequest, Counts
from sparsehist.counting.keys import has_duplicates, place
from sparsehist.counting.sources import check_key_dtypes, engine_errors, open_log
from sparsehist.domain.base import key_names
from sparsehist.errors import DataError, DeclarationError


def given_counts(source: Counts, wanted: CountRequest) -> pl.DataFrame:
    """Bring counts made elsewhere to columns key_0, …, count.

    Raises:
        DeclarationError: If a unit is named too, or a column is missing.
        DataError: If a count is null, negative or fractional, or a key breaks a rule or occurs twice.
    """
    if wanted.unit is not None:
        raise DeclarationError(f"Counts hold no units: leave out unit={wanted.unit!r}")
    if wanted.full != 1:
        raise DeclarationError("Counts were bounded elsewhere: shares need the log itself")
    log = wanted.watch(open_log(source.frame, (*wanted.key, source.count))).with_key_types(wanted.key_types)
    check_key_dtypes(log, wanted.key, wanted.domain)
    with engine_errors(log.label, log):
        read = log.lazy([*wanted.key, source.count]).collect(engine="streaming")
        # Each column in one piece, from which rows are taken in a sixth of the time; one after another, for memory.
        frame = pl.DataFrame([read.drop_in_place(name).rechunk() for name in read.columns])
    counts = _whole_counts(_read_numbers(frame[source.count]) if log.kind in ("csv", "json") else frame[source.count])
    keys = frame.select(pl.col(name).alias(f"key_{column}") for column, name in enumerate(wanted.key))
    if has_duplicates(keys):
        raise DataError("a key occurs twice among the counts: add up what belongs together, unit by unit, first")
    placed = place(keys, wanted.key, wanted.domain, on_null=wanted.on_null, on_outside=wanted.on_outside)
    if not placed.unchanged and has_duplicates(placed.cells):
        raise DataError("two keys fall into one cell of the domain: counts that were bounded apart cannot be added")
    result = placed.cells.with_columns(count=counts if placed.unchanged else counts.filter(pl.Series(placed.usable)))
    if result["count"].min() == 0:
        result = result.filter(pl.col("count") > 0)
    return result.select([*key_names(wanted.domain.columns), "count"])


def _read_numbers(counts: pl.Series) -> pl.Series:
    """Read the text of a CSV file as whole numbers; null where it is none."""
    whole = pl.when(counts.str.contains(r"^[0-9]+$")).then(counts)
    return pl.select(whole.cast(pl.Int64, strict=False).alias(counts.name)).to_series()


def _whole_counts(counts: pl.Series) -> pl.Series:
    """Refuse counts that are null, negative, fractional or not numbers."""
    if not counts.dtype.is_numeric():
        raise DataError(f"count column {counts.name!r} has dtype {counts.dtype}: counts must be whole numbers")
    whole = counts.cast(pl.Int64, strict=False)
    exact = counts.dtype.is_integer() or (whole.cast(pl.Float64) == counts.cast(pl.Float64)).all()
    if whole.has_nulls() or not exact or (whole < 0).any():
        raise DataError(f"count column {counts.name!r}: counts must be whole numbers, none null or negative")
    return whole
