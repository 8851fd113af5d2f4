"""Count with Spark's own columns and frames; only counts are returned.

Rows are grouped by unit once. Then pairs are made distinct and counted; only pairs of units above the bound are
hashed and sorted in the portable order. No Python runs on the executors, and no value depends on the task that
computed it, so a task can be repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

import numpy as np
import polars as pl

from sparsehist.counting.contract import CountRequest
from sparsehist.counting.keys import OUTSIDE_REMEDY, missing_error
from sparsehist.counting.log import Log, engine_errors
from sparsehist.counting.measured import check_number, steps_sql, sum_names, unmeasured_error
from sparsehist.counting.spark_sources import column, functions_for, hidden, listed, quiet, window_for
from sparsehist.counting.tuples import part_of_tuple
from sparsehist.counting.with_sql import Dialect
from sparsehist.declaration.measures import Measure
from sparsehist.domain import Catalogue, Domain, Hash64, Integers
from sparsehist.domain.base import key_names
from sparsehist.errors import DataError, SparsehistError

Column = Any
"""A Spark column; the type checker need not import Spark."""
Frame = Any
_MISSING, _OUTSIDE, _UNMEASURED = "sparsehist: missing", "sparsehist: outside", "sparsehist: unmeasured"
_REFUSED = re.compile(rf"({_MISSING}|{_OUTSIDE}|{_UNMEASURED}) (\d+)")
_SQL = Dialect("spark")
PART_KEYS = 2_000_000
"""Number of keys sent to the driver at once."""


def name() -> str:
    """Name the engine and its version."""
    import pyspark

    return f"spark {pyspark.__version__}"


def count(log: Log, wanted: CountRequest) -> pl.DataFrame:
    """Count units by key; return columns key_0, …, count and sum_0, …."""
    with _refusals(log, wanted):
        return _collected(counted(log, wanted), wanted.domain)


def counted(log: Log, wanted: CountRequest) -> Frame:
    """Return the lazy frame of counts by key: columns key_0, …, count and sum_0, …."""
    F = functions_for(log.rows)
    # Units with more keys have the last weight.
    weight = F.lit(wanted.weights[-1][0])
    for part, most in reversed(wanted.weights[:-1]):
        weight = F.when(F.col("keys") <= most, part).otherwise(weight)
    keys, sums = key_names(wanted.domain.columns), []
    for name, each in zip(sum_names(wanted.measures), wanted.measures, strict=True):
        most = F.floor(weight * F.lit(each.most_steps).cast("long") / wanted.full)
        cut = F.greatest(F.least(F.col(name), most), -most if each.signed else F.lit(0))
        sums.append(F.sum(cut).cast("long").alias(name))
    return kept(log, wanted).groupBy(*keys).agg(F.sum(weight).cast("long").alias("count"), *sums)


def in_order(log: Log, wanted: CountRequest, salt: bytes) -> Iterator[pl.DataFrame]:
    """Count units by key, and yield the keys in parts, ordered by count, then by a secret hash.

    Args:
        log: A frame of Spark.
        wanted: What to count.
        salt: 16 secret bytes that determine the order of keys with equal counts.

    Yields:
        Columns key_0, …, count and sum_0, …, at most about `PART_KEYS` rows; at least one frame, perhaps empty.
    """
    F, keys = functions_for(log.rows), key_names(wanted.domain.columns)
    hashed = _digest(F, log, salt, keys, wanted.domain.dtypes)
    with _refusals(log, wanted):
        found = counted(log, wanted).withColumn("order", hashed).persist()
        n_parts = max(1, -(-found.count() // PART_KEYS))
        placed = found.repartitionByRange(n_parts, "count", "order").withColumn("part", F.spark_partition_id())
        placed = placed.persist()
        try:
            for number in range(n_parts):
                rows = _collected(placed.where(F.col("part") == number).drop("part"), wanted.domain)
                yield rows.sort("count", "order").drop("order")
        finally:
            placed.unpersist()
            found.unpersist()


@contextmanager
def _refusals(log: Log, wanted: CountRequest) -> Iterator[None]:
    """Replace refusals raised inside Spark by our own errors."""

    def told_apart(failure: BaseException) -> SparsehistError | None:
        found = _REFUSED.search(str(failure))
        if found is None:
            return None
        at = int(found[2])
        if found[1] == _OUTSIDE:
            domain = wanted.domain.describe()
            return DataError(f"key column(s) {wanted.key[at]!r}: there are keys outside {domain}: {OUTSIDE_REMEDY}")
        if found[1] == _UNMEASURED:
            return unmeasured_error(wanted.measures[at])
        of_unit = at < len(wanted.unit)
        name = wanted.unit[at] if of_unit else wanted.key[at - len(wanted.unit)]
        return missing_error(name, "unit" if of_unit else "key")

    with quiet(), engine_errors(log.label, log, told_apart):
        yield


def _collected(frame: Frame, domain: Domain) -> pl.DataFrame:
    """Collect counts on the driver, in canonical dtypes."""
    found = pl.DataFrame(pl.from_arrow(frame.toArrow()))
    return found.cast(dict(zip(key_names(domain.columns), domain.dtypes, strict=True)))


def kept(log: Log, wanted: CountRequest) -> Frame:
    """Return the pairs that count: columns unit_0, …, key_0, …, sum_0, … and the unit's number of keys."""
    F, window = functions_for(log.rows), window_for(log.rows)
    units = [f"unit_{i}" for i in range(len(wanted.unit))]
    keys = key_names(wanted.domain.columns)
    wanted.report("counting")
    # Group by unit only, although pairs are to be distinct: so rows are shuffled only once.
    placed = _placed(log, wanted).repartition(*units)
    pairs = placed.dropDuplicates([*units, *keys])
    if wanted.measures:
        pairs = placed.groupBy(*units, *keys).agg(*(F.sum(name).alias(name) for name in sum_names(wanted.measures)))
    of_unit = window.partitionBy(*units)
    sized = pairs.withColumn("keys", F.count(F.lit(1)).over(of_unit))
    dtypes = [*(log.dtypes[name] for name in wanted.unit), *wanted.domain.dtypes]
    above = F.col("keys") > wanted.most_keys
    order = F.when(above, _digest(F, log, wanted.salt, [*units, *keys], dtypes))
    numbered = sized.withColumn("place", F.row_number().over(of_unit.orderBy(order)))
    return numbered.where(~above | (F.col("place") <= wanted.most_keys)).drop("place")


def _digest(F: Any, log: Log, salt: bytes, names: Sequence[str], dtypes: Sequence[pl.DataType]) -> Column:
    """Return the SHA-256 of a salt and the texts of columns."""
    texts = [F.expr(_text(name, dtype)) for name, dtype in zip(names, dtypes, strict=True)]
    return F.sha2(F.concat(hidden(log.rows, salt.hex()), *texts).cast("binary"), 256)


def _text(name: str, dtype: pl.DataType) -> str:
    """Return SQL that writes a column after its type and length (`counting/tuples.py`)."""
    letter = part_of_tuple("", dtype)
    if isinstance(dtype, pl.Datetime) and not dtype.time_zone:
        # It is read as UTC, in any time zone of the session.
        name = f"cast({name} || 'Z' as timestamp)"
    return _SQL.part(letter, name)


def _placed(log: Log, wanted: CountRequest) -> Frame:
    """Return valid rows as columns unit_0, …, key_0, …, sum_0, …; drop or refuse other rows."""
    F, sums = functions_for(log.rows), sum_names(wanted.measures)
    frame = log.rows.select(
        *(_present(F, log, name).alias(f"unit_{i}") for i, name in enumerate(wanted.unit)),
        *(_present(F, log, name).alias(f"raw_{i}") for i, name in enumerate(wanted.key)),
        *(_amount(F, log, each).alias(name) for name, each in zip(sums, wanted.measures, strict=True)),
    )
    roles = [*(f"unit_{i}" for i in range(len(wanted.unit))), *(f"raw_{i}" for i in range(len(wanted.key)))]
    frame = _without_nulls(F, frame, roles, _MISSING if wanted.on_null == "error" else None)
    for name, each in zip(sums, wanted.measures, strict=True):
        frame = frame.withColumn(name, _steps(F, log, name, each))
    frame = _without_nulls(F, frame, sums, _UNMEASURED if wanted.on_null == "error" else None)
    for i, part in enumerate(wanted.domain.parts):
        frame = _cell(F, frame, i, part, log.dtypes[wanted.key[i]])
    refusal = _OUTSIDE if wanted.on_outside == "error" else None
    return _without_nulls(F, frame, key_names(wanted.domain.columns), refusal)


def _present(F: Any, log: Log, name: str) -> Column:
    """Return a column, null where it is empty; text is compared byte by byte, whatever its collation."""
    found = column(F, name)
    if log.dtypes[name] == pl.String:
        found = F.collate(found.cast("string"), "UTF8_BINARY")
    if log.dtypes[name] in (pl.String, pl.Binary):
        found = F.when(F.octet_length(found) > 0, found)
    return found


def _amount(F: Any, log: Log, measure: Measure) -> Column:
    """Return the value of a row; 1 for a measure that counts rows."""
    if measure.column is None:
        return F.lit(1)
    check_number(measure.column, log)
    return column(F, measure.column)


def _steps(F: Any, log: Log, name: str, measure: Measure) -> Column:
    """Return a row's steps, null where it cannot be measured."""
    exact = np.float32 if log.dtypes.get(measure.column or "") == pl.Float32 else np.float64
    steps, measurable = steps_sql(measure, name, _SQL.write, exact)
    return F.expr(f"case when {measurable or 'true'} then {steps} end")


def _without_nulls(F: Any, frame: Frame, columns: Sequence[str], refusal: str | None) -> Frame:
    """Drop rows with a null, or make Spark fail at the first."""
    if refusal is None and columns:
        return frame.where(reduce(lambda one, other: one & other, (F.col(name).isNotNull() for name in columns)))
    for i, name in enumerate(columns):
        stop = F.raise_error(F.lit(f"{refusal} {i}"))
        frame = frame.withColumn(name, F.when(F.col(name).isNotNull(), F.col(name)).otherwise(stop))
    return frame


def _cell(F: Any, frame: Frame, i: int, domain: Domain, dtype: pl.DataType) -> Frame:
    """Replace the column raw_i by key_i: its cell, null outside the domain."""
    raw, cell = f"raw_{i}", f"key_{i}"
    if isinstance(domain, Catalogue):
        values = domain.values.cast(pl.Decimal(20, 0)) if domain.dtypes[0] == pl.UInt64 else domain.values
        listing = F.broadcast(listed(frame, values.alias(cell)))
        return frame.join(listing, F.col(raw) == F.col(cell), "left").drop(raw)
    if isinstance(domain, Hash64) and dtype == pl.UInt64:
        domain = Integers(0, 2**64 - 1)
    value, inside = _SQL.cell(raw, domain)
    if dtype == pl.String:
        inside = f"is_valid_utf8({raw}) and {inside}"
    return frame.withColumn(cell, F.expr(f"case when {inside} then {value} end")).drop(raw)
