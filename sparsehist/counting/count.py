"""Count the units of each key: check the log and run an engine, or check counts from another system."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from sparsehist.counting import in_memory
from sparsehist.counting.contract import SUMS, CountedKeys, CountRequest, Counts, UnitPairs, request_of
from sparsehist.counting.keys import has_duplicates, missing_error, outside_error, place
from sparsehist.counting.log import Log, check_key_dtypes, check_unit_dtypes, engine_errors
from sparsehist.counting.measured import check_sums, sum_names
from sparsehist.counting.sources import open_log
from sparsehist.errors import DataError, DeclarationError

EMPTY = "the log is empty: it has no valid rows"
# A bound that no unit reaches, so that all keys are kept.
_UNBOUNDED = 2**62


def count_keys(source: object, *, may_be_empty: bool = False, **declared: Any) -> CountedKeys:
    """Count the units of each key, with each unit bounded to `max_keys` distinct keys.

    Rows whose unit or key is missing, or whose key is outside the domain, are first refused or dropped. If several
    keys of a unit map to the same cell, the unit is counted only once in this cell. `declared` contains the arguments
    of `request_of`. A log without valid rows is refused unless `may_be_empty` is true.
    """
    request = request_of(**declared)
    if isinstance(source, Counts):
        counted = CountedKeys.of(checked_counts(source, request), "given")
    elif (log := checked_log(source, request)).of_spark:
        from sparsehist.counting import with_spark  # imported here, because only Spark frames need sqlglot

        counted = CountedKeys.of(with_spark.count(log, request), with_spark.name())
    else:
        counted = in_memory.count(log, request)
    if counted.counts.is_empty() and not may_be_empty:
        raise DataError(EMPTY)
    check_sums(counted.counts, request.measures)
    return counted


def sorted_keys(source: object, order: bytes, **declared: Any) -> tuple[str, Iterator[pl.DataFrame]]:
    """Count a Spark frame, and sort the keys by count, then by a salted hash of the key.

    Return the name of the engine, and an iterator of frames with columns key_0, …, count and sum_0, …. `order` is
    the salt of the hash: 16 secret bytes.
    """
    from sparsehist.counting import with_spark

    request = request_of(**declared)
    log = checked_log(source, request)

    def checked() -> Iterator[pl.DataFrame]:
        for frame in with_spark.in_order(log, request, order):
            check_sums(frame, request.measures)
            yield frame

    return with_spark.name(), checked()


def list_pairs(source: object, **declared: Any) -> UnitPairs:
    """List every pair of a unit and a key in the domain, without bounding. Refuse `Counts` and Spark frames."""
    request = request_of(max_keys=_UNBOUNDED, **declared)
    return in_memory.kept_pairs(checked_log(source, request), request)


def checked_log(source: object, request: CountRequest) -> Log:
    """Open a log, and refuse columns whose types cannot be counted."""
    if not request.unit:
        raise DeclarationError("unit= is required, unless the source is Counts")
    request.report("reading")
    measured = [each.column for each in request.measures if each.column is not None]
    columns = dict.fromkeys((*(request.unit if request.without_key else request.read), *measured))
    log = open_log(source, list(columns)).with_key_types(request.key_types)
    if request.without_key:
        log = log.with_key(request.key[0], request.domain.keys(np.zeros(1, np.int64)).row(0)[0])
    check_unit_dtypes(log, request.unit, portable=request.portable)
    check_key_dtypes(log, request.key, request.domain)
    if log.of_spark and not request.portable:
        raise DeclarationError(
            "this function cannot count a Spark frame: write the log to files, and pass their paths instead"
        )
    logging.getLogger("sparsehist").info("counting with %s", "spark" if log.of_spark else in_memory.ENGINE)
    return log


def checked_counts(source: Counts, request: CountRequest) -> pl.DataFrame:
    """Check counts from another system, and rename their columns to key_0, …, count, sum_0, …."""
    if request.unit:
        raise DeclarationError("Counts contain no units, so leave out unit=")
    if request.full != 1:
        raise DeclarationError("bounding='share' needs the log itself, not Counts that were bounded elsewhere")
    sums = [measure.steps_column for measure in request.measures]
    log = open_log(source.frame, (*request.key, source.count, *sums)).with_key_types(request.key_types)
    check_key_dtypes(log, request.key, request.domain)
    with engine_errors(log.label, log):
        read = log.rows.select(*request.key, source.count, *sums).collect(engine="streaming")
        # Contiguous columns make selecting rows six times as fast. Rechunk one column at a time to save memory.
        frame = pl.DataFrame([read.drop_in_place(name).rechunk() for name in read.columns])
    texts = [name for name in (source.count, *sums) if name in log.texts]
    frame = frame.with_columns(pl.col(name).cast(pl.Int64, strict=False) for name in texts)
    rule = f"counts must be whole numbers, none null or negative: {SUMS}"
    numbers = [_whole(frame[source.count], rule).alias("count")]
    for name, measure in zip(sum_names(request.measures), request.measures, strict=True):
        rule = (
            f"sums from another system must be whole numbers of steps of {measure.step}, without nulls, and each "
            "unit's contribution must be clipped to the bounds of the measure before addition"
        )
        numbers.append(_whole(frame[measure.steps_column], rule, signed=measure.signed).alias(name))
    keys = frame.select(pl.col(name).alias(f"key_{column}") for column, name in enumerate(request.key))
    if has_duplicates(keys):
        raise DataError("a key occurs twice in Counts: reduce the log to one row per unit and key, then count by key")
    placed = place(keys, request.domain)
    if placed.missing and request.on_null == "error":
        raise missing_error(request.key[placed.missing[0]], "key")
    if placed.outside and request.on_outside == "error":
        text = [dtype == pl.String for dtype in keys.dtypes]
        raise outside_error(placed.outside, request.key, request.domain, text)
    if not placed.unchanged and has_duplicates(placed.cells):
        raise DataError(
            "two keys map to one cell of the domain: their counts were bounded separately and cannot be added"
        )
    if not placed.unchanged:
        numbers = [each.filter(pl.Series(placed.usable)) for each in numbers]
    return placed.cells.with_columns(numbers)


def _whole(numbers: pl.Series, rule: str, *, signed: bool = False) -> pl.Series:
    """Return a column as Int64; refuse nulls, fractions and, unless `signed`, negative numbers."""
    whole, dtype = numbers.cast(pl.Int64, strict=False), numbers.dtype
    exact = dtype.is_integer() or (dtype.is_numeric() and (whole.cast(pl.Float64) == numbers.cast(pl.Float64)).all())
    if whole.has_nulls() or not exact or (not signed and (whole < 0).any()):
        raise DataError(f"column {numbers.name!r} (dtype {dtype}): {rule}")
    return whole
