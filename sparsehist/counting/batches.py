"""Read a log in batches of rows, convert its columns to Int64, bytes or categories, and drop invalid rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from sparsehist.counting.log import TEXTS, Log

BATCH_ROWS = 400_000
DICTIONARIES = (pl.Categorical, pl.Enum)


def is_whole(dtype: pl.DataType) -> bool:
    """Return whether Polars stores values of this dtype as whole numbers of at most 64 bits."""
    narrow = dtype.is_integer() and dtype not in (pl.Int128, pl.UInt128)
    return narrow or dtype.is_temporal() or dtype == pl.Boolean


def plain(name: str, dtype: pl.DataType) -> pl.Expr:
    """Return an expression that converts a column of the log to Int64 or bytes. Categories stay unchanged.

    Integers, dates, times and booleans become Int64. UInt64 values of 2**63 or more wrap around to negative numbers.
    Other values become bytes.
    """
    column = pl.col(name)
    if is_whole(dtype):
        return column.to_physical().cast(pl.Int64, wrap_numerical=True)
    return column if isinstance(dtype, (pl.Binary, *DICTIONARIES)) else column.cast(pl.String).cast(pl.Binary)


def restored(values: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Undo `plain`, but return categories as strings. Polars raises an error if bytes of a string are not UTF-8."""
    if dtype == pl.Binary or is_whole(dtype):
        return values.cast(dtype, wrap_numerical=True)
    text = values.cast(pl.String)
    return text if isinstance(dtype, TEXTS) else text.cast(dtype)


def is_present(name: str, dtype: pl.DataType) -> pl.Expr:
    """Return an expression that is true where a column, converted by `plain`, is neither null nor empty."""
    column = pl.col(name)
    if is_whole(dtype):
        return column.is_not_null()
    return column != "" if isinstance(dtype, DICTIONARIES) else column.bin.size() > 0


def batches(log: Log, columns: Sequence[str], computed: Mapping[str, pl.Expr]) -> Iterator[pl.DataFrame]:
    """Yield the log in frames. Convert `columns` by `plain`, and add a column for each expression in `computed`."""
    rows = log.rows.select(*(plain(name, log.dtypes[name]) for name in columns), *computed.values())
    yield pl.DataFrame(schema=rows.collect_schema())  # Polars yields no frame if the log is empty
    yield from rows.collect_batches(chunk_size=BATCH_ROWS, maintain_order=False)


def kept(batch: pl.DataFrame, rules: Mapping[str, pl.Expr], broken: set[str]) -> pl.DataFrame:
    """Drop rows that break the rule of any column, and add the names of the columns with broken rules to `broken`."""
    checks = batch.select(rule.all(ignore_nulls=False).alias(name) for name, rule in rules.items())
    failed = [check.name for check in checks if not check.item()]
    broken.update(failed)
    return batch.filter(*(rules[name] for name in failed))
