"""Count the keys of a log: check the declaration, choose the engine, and run it; or use given counts."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from sparsehist.counting import in_memory
from sparsehist.counting.contract import SUMS, CountedKeys, CountRequest, Counts, UnitPairs, request
from sparsehist.counting.keys import has_duplicates, missing_error, outside_error, place
from sparsehist.counting.log import Log, check_key_dtypes, check_unit_dtypes, engine_errors
from sparsehist.counting.measured import check_sums, sum_names
from sparsehist.counting.sources import open_log
from sparsehist.errors import DataError, DeclarationError

EMPTY = "the log is empty: it has no valid rows"
# A larger bound than any unit reaches.
_UNBOUNDED = 2**62


def count_keys(source: object, *, may_be_empty: bool = False, **declared: Any) -> CountedKeys:
    """Count the units of each key, with each unit bounded to `max_keys` distinct keys.

    Rows without a usable key are left out first; keys of the same cell count once. `declared` are the fields of a
    `CountRequest`; a log without valid rows is refused unless it `may_be_empty`.
    """
    wanted = request(**declared)
    if isinstance(source, Counts):
        engine, frame = "given", given_counts(source, wanted)
    elif (log := opened(source, wanted)).of_spark:
        from sparsehist.counting import with_spark  # imports the writer of SQL, which no other log needs

        engine, frame = with_spark.name(), with_spark.count(log, wanted)
    else:
        engine, frame = in_memory.name(), in_memory.count(log, wanted)
    if frame.is_empty() and not may_be_empty:
        raise DataError(EMPTY)
    check_sums(frame, wanted.measures)
    return CountedKeys(frame, engine)


def sorted_keys(source: object, order: bytes, **declared: Any) -> tuple[str, Iterator[pl.DataFrame]]:
    """Count a Spark frame in bounded local memory, in the order of a series' files.

    Returns the engine, and at least one frame of columns key_0, …, count and sum_0, …. `order` is 16 secret bytes
    that determine the order of keys with equal counts.
    """
    from sparsehist.counting import with_spark

    wanted = request(**declared)
    log = opened(source, wanted)

    def checked() -> Iterator[pl.DataFrame]:
        for frame in with_spark.in_order(log, wanted, order):
            check_sums(frame, wanted.measures)
            yield frame

    return with_spark.name(), checked()


def list_pairs(source: object, **declared: Any) -> UnitPairs:
    """List the distinct pairs of a unit and a key of the domain, without bounding; not of Counts or Spark frames."""
    wanted = request(max_keys=_UNBOUNDED, **declared)
    return in_memory.kept_pairs(opened(source, wanted), wanted)


def opened(source: object, wanted: CountRequest) -> Log:
    """Open a log, with its columns in types that can be counted; refuse others."""
    if not wanted.unit:
        raise DeclarationError("unit is needed unless the source is Counts")
    wanted.report("reading")
    measured = [each.column for each in wanted.measures if each.column is not None]
    columns = dict.fromkeys((*(wanted.unit if wanted.without_key else wanted.read), *measured))
    log = open_log(source, list(columns)).with_key_types(wanted.key_types)
    if wanted.without_key:
        log = log.with_key(wanted.key[0], wanted.domain.keys(np.zeros(1, np.int64)).row(0)[0])
    check_unit_dtypes(log, wanted.unit, portable=wanted.portable)
    check_key_dtypes(log, wanted.key, wanted.domain)
    if log.of_spark and not wanted.portable:
        raise DeclarationError(
            "a Spark frame is counted by Spark alone: declare portable=True; running series and checks take files"
        )
    logging.getLogger("sparsehist").info("counting with %s", "spark" if log.of_spark else in_memory.name())
    return log


def given_counts(source: Counts, wanted: CountRequest) -> pl.DataFrame:
    """Check counts made elsewhere and rename their columns to key_0, …, count."""
    if wanted.unit:
        raise DeclarationError("Counts hold no units: leave out unit=")
    if wanted.full != 1:
        raise DeclarationError("Counts were bounded elsewhere: shares need the log itself")
    sums = [measure.steps_column for measure in wanted.measures]
    log = open_log(source.frame, (*wanted.key, source.count, *sums)).with_key_types(wanted.key_types)
    check_key_dtypes(log, wanted.key, wanted.domain)
    with engine_errors(log.label, log):
        read = log.rows.select(*wanted.key, source.count, *sums).collect(engine="streaming")
        # Each column in one piece, from which rows are taken in a sixth of the time; one after another, for memory.
        frame = pl.DataFrame([read.drop_in_place(name).rechunk() for name in read.columns])
    texts = [name for name in (source.count, *sums) if name in log.texts]
    frame = frame.with_columns(pl.col(name).cast(pl.Int64, strict=False) for name in texts)
    rule = f"counts must be whole numbers, none null or negative: {SUMS}"
    numbers = [_whole(frame[source.count], rule).alias("count")]
    for name, measure in zip(sum_names(wanted.measures), wanted.measures, strict=True):
        rule = (
            f"sums made elsewhere are whole numbers of steps of {measure.step}, not null, with each unit's part cut "
            "to the bounds of its measure before addition"
        )
        numbers.append(_whole(frame[measure.steps_column], rule, signed=measure.signed).alias(name))
    keys = frame.select(pl.col(name).alias(f"key_{column}") for column, name in enumerate(wanted.key))
    if has_duplicates(keys):
        raise DataError("a key occurs twice among the counts: add up the rows of each unit and key before counting")
    placed = place(keys, wanted.domain)
    if placed.missing and wanted.on_null == "error":
        raise missing_error(wanted.key[placed.missing[0]], "key")
    if placed.outside and wanted.on_outside == "error":
        text = [dtype == pl.String for dtype in keys.dtypes]
        raise outside_error(placed.outside, wanted.key, wanted.domain, text)
    if not placed.unchanged and has_duplicates(placed.cells):
        raise DataError("two keys fall into one cell of the domain: counts that were bounded apart cannot be added")
    if not placed.unchanged:
        numbers = [each.filter(pl.Series(placed.usable)) for each in numbers]
    return placed.cells.with_columns(numbers)


def _whole(numbers: pl.Series, rule: str, *, signed: bool = False) -> pl.Series:
    """Refuse a column unless it holds whole numbers, which are not negative unless `signed`."""
    whole, dtype = numbers.cast(pl.Int64, strict=False), numbers.dtype
    exact = dtype.is_integer() or (dtype.is_numeric() and (whole.cast(pl.Float64) == numbers.cast(pl.Float64)).all())
    if whole.has_nulls() or not exact or (not signed and (whole < 0).any()):
        raise DataError(f"column {numbers.name!r} (dtype {dtype}): {rule}")
    return whole
