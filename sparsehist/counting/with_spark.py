"""Count the units of each key of a log in a Spark DataFrame, with Spark SQL. Only the counts leave Spark.

Spark runs the query of `counting_sql` with two additions: invalid rows may be refused, and a unit may add less
than 1 to a count. Rows are shuffled once, by unit. Keys are hashed and put in portable order only for units with
too many keys. No Python runs on the executors. If Spark repeats a task, the result is the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import polars as pl

from sparsehist.counting.contract import Choice, CountRequest
from sparsehist.counting.keys import missing_error, outside_error
from sparsehist.counting.log import Log, engine_errors
from sparsehist.counting.measured import check_number, steps_sql, sum_names, unmeasured_error
from sparsehist.counting.sources import quiet
from sparsehist.counting.with_sql import Dialect, check_name
from sparsehist.domain import Catalogue, Domain, Hash64, Integers
from sparsehist.domain.base import key_names
from sparsehist.errors import DataError

Frame = Any
"""Type of Spark frames. It is Any, so that the type checker need not import Spark."""
_REFUSED = "sparsehist refuses a row by rule "
_SQL = Dialect("spark")
_SALT = "(select value from @salt@)"  # the salt is not a literal, because Spark shows literals in plans and logs
PART_KEYS = 2_000_000
"""Number of keys that are sent to the driver at once."""


def name() -> str:
    """Return the name and the version of the engine."""
    import pyspark

    return f"spark {pyspark.__version__}"


def count(log: Log, request: CountRequest) -> pl.DataFrame:
    """Count the units of each key. Return a frame with the columns key_0, …, count and sum_0, …."""
    rules: list[DataError] = []
    with _refusals(log, rules):
        return _collected(counted(log, request, rules), request.domain)


def in_order(log: Log, request: CountRequest, salt: bytes) -> Iterator[pl.DataFrame]:
    """Yield frames of about `PART_KEYS` keys with their counts, sorted by count, then by a salted hash of the key."""
    columns = zip(key_names(request.domain.columns), request.domain.dtypes, strict=True)
    digest = _SQL.write("sha256", " || ".join([_SALT, *(_SQL.part("key", dtype, key) for key, dtype in columns)]))
    rules: list[DataError] = []
    with _refusals(log, rules):
        frames = {"counts": counted(log, request, rules), "salt": _table(log, pl.Series([salt.hex()]))}
        hashed = _run(f"select *, {digest} as digest from @counts@", frames).persist()  # noqa: S608  quoted
        n_parts = max(1, -(-hashed.count() // PART_KEYS))
        placed = hashed.repartitionByRange(n_parts, "count", "digest").selectExpr("*", "spark_partition_id() as part")
        placed = placed.persist()
        try:
            for number in range(n_parts):
                rows = _collected(placed.where(f"part = {number}").drop("part"), request.domain)
                yield rows.sort("count", "digest").drop("digest")
        finally:
            placed.unpersist()
            hashed.unpersist()


@contextmanager
def _refusals(log: Log, rules: list[DataError]) -> Iterator[None]:
    """Context manager: if Spark fails because of an invalid row, raise the error of the violated rule instead."""

    def error_of(failure: BaseException) -> DataError | None:
        raised = re.search(rf"{_REFUSED}(\d+)", str(failure))
        return rules[int(raised[1])] if raised else None

    with quiet(), engine_errors(log.label, log, error_of):
        yield


def _collected(frame: Frame, domain: Domain) -> pl.DataFrame:
    """Collect counts from Spark in a Polars frame with the canonical dtypes of the domain."""
    counts = pl.DataFrame(pl.from_arrow(frame.toArrow()))
    return counts.cast(dict(zip(key_names(domain.columns), domain.dtypes, strict=True)))


def _table(log: Log, values: pl.Series) -> Frame:
    """Return values as a Spark frame with one column, `value`, in the Spark session of the log."""
    table = values.alias("value").to_frame().to_arrow(compat_level=pl.CompatLevel.oldest())
    return log.rows.sparkSession.createDataFrame(table)


def _run(text: str, frames: dict[str, Frame]) -> Frame:
    """Return the lazy Spark frame of a SQL query, in which @name@ stands for the frame with this name."""
    text = text.replace("{", "{{").replace("}", "}}")
    for name in frames:
        text = text.replace(f"@{name}@", f"{{{name}}}")
    return next(iter(frames.values())).sparkSession.sql(text, **frames)


def counted(log: Log, request: CountRequest, rules: list[DataError]) -> Frame:
    """Return counts (key_0, …, count, sum_0, …) as a lazy Spark frame. Append errors for invalid rows to `rules`."""
    request.report("counting")
    measured = [each.column for each in request.measures]
    for column in (*request.unit, *request.key, *measured):
        if column is not None:
            check_name(column)
    frames = {"log": log.rows, "salt": _table(log, pl.Series([request.salt.hex()]))}
    units, cells, steps = [], [], []
    for i, column in enumerate(request.unit):
        dtype, source = log.dtypes[column], f"source.u_{i}"
        present = _ruled(rules, request.on_null, _present(source, dtype), missing_error(column, "unit"))
        units.append((_SQL.part(column, dtype, _comparable(source, dtype)), present))
    for i, (column, part) in enumerate(zip(request.key, request.domain.parts, strict=True)):
        dtype, source = log.dtypes[column], f"source.k_{i}"
        if isinstance(part, Catalogue):
            values = part.values.cast(pl.Decimal(20, 0)) if part.values.dtype == pl.UInt64 else part.values
            frames[f"values{i}"] = _table(log, values)
            cell = _comparable(source, dtype)
            inside = f"{cell} in (select value from @values{i}@)"  # noqa: S608  quoted
        else:
            whole = isinstance(part, Hash64) and dtype == pl.UInt64
            cell, inside = _SQL.cell(source, Integers(0, 2**64 - 1) if whole else part)
        if dtype == pl.String:
            inside = f"is_valid_utf8({source}) and {inside}"
        present = _present(source, dtype)
        outside = outside_error([i], request.key, request.domain, [False] * len(request.key))
        inside = _ruled(rules, request.on_outside, f"(not ({present}) or {inside})", outside)
        present = _ruled(rules, request.on_null, present, missing_error(column, "key"))
        cells.append((cell, f"{present} and {inside}"))
    for i, each in enumerate(request.measures):
        exact = np.float32 if each.column and check_number(each.column, log) == pl.Float32 else np.float64
        step, measurable = steps_sql(each, f"source.m_{i}", _SQL.write, exact)
        steps.append((step, measurable and _ruled(rules, request.on_null, measurable, unmeasured_error(each))))
    weight = str(request.weights[-1][0])
    for parts, most in reversed(request.weights[:-1]):
        weight = f"case when kept.size <= {most} then {parts} else {weight} end"
    totals = []
    for name, each in zip(sum_names(request.measures), request.measures, strict=True):
        high = f"(cast({each.most_steps} as bigint) * {weight} div {request.full})"
        low = f"-{high}" if each.signed else "0"
        totals.append((name, f"cast(sum(greatest(least(kept.{name}, {high}), {low})) as bigint)"))
    text = _SQL.select(
        table="@log@", columns=(request.unit, request.key, measured), units=units, cells=cells, steps=steps,
        domain=request.domain, measures=request.measures, salt=_SALT, most_keys=request.most_keys,
        key_names=key_names(request.domain.columns), total=f"cast(sum({weight}) as bigint)", count="count",
        totals=totals, hint="/*+ repartition(unit) */ ",
    )  # fmt: skip
    return _run(text, frames)


def _present(column: str, dtype: pl.DataType) -> str:
    """Return SQL for the condition that a value is neither null nor empty. The condition itself is never null."""
    empty = f" and octet_length({column}) > 0" if dtype in (pl.String, pl.Binary) else ""
    return f"{column} is not null{empty}"


def _comparable(column: str, dtype: pl.DataType) -> str:
    """Return SQL that makes a value exactly comparable: strings lose their collation, and timestamps are in UTC."""
    if dtype == pl.String:
        return _SQL.write("text", column)
    in_no_zone = isinstance(dtype, pl.Datetime) and not dtype.time_zone
    return f"cast({column} || 'Z' as timestamp)" if in_no_zone else column


def _ruled(rules: list[DataError], choice: Choice, condition: str, error: DataError) -> str:
    """Return SQL that is true for valid rows. For invalid rows, the SQL raises `error`, or is false to drop them."""
    if choice == "drop":
        return condition
    rules.append(error)
    failure = f"raise_error('{_REFUSED}{len(rules) - 1}')"
    return f"case when {condition} then true else cast({failure} as boolean) end"
