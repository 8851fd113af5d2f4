"""Spark frames as logs, classic or Connect: recognised without importing Spark, and read only by Spark."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import polars as pl

from sparsehist.errors import DataError

SPARK_LABEL = "the Spark frame"
# The Polars type of each Spark type; unsigned 64-bit numbers are read as decimals of 20 digits.
_TYPES: dict[str, pl.DataType] = {
    "BooleanType": pl.Boolean(), "ByteType": pl.Int8(), "ShortType": pl.Int16(), "IntegerType": pl.Int32(),
    "LongType": pl.Int64(), "FloatType": pl.Float32(), "DoubleType": pl.Float64(), "StringType": pl.String(),
    "CharType": pl.String(), "VarcharType": pl.String(), "BinaryType": pl.Binary(), "DateType": pl.Date(),
    "TimestampType": pl.Datetime("us", "UTC"), "TimestampNTZType": pl.Datetime("us"),
}  # fmt: skip


def is_spark_frame(source: object) -> bool:
    """Return whether a source is a frame of Spark."""
    return type(source).__module__.startswith("pyspark.sql.") and type(source).__name__ == "DataFrame"


def dtypes_of(frame: Any) -> dict[str, pl.DataType]:
    """Return the Polars type of each column of a Spark frame."""
    fields = frame.schema.fields
    if len({field.name for field in fields}) < len(fields):
        raise DataError("the Spark frame has two columns with the same name: rename one of them")
    return {field.name: _dtype(field.dataType) for field in fields}


def _dtype(given: Any) -> pl.DataType:
    name = type(given).__name__
    if name == "DecimalType":
        return pl.UInt64() if (given.precision, given.scale) == (20, 0) else pl.Decimal(given.precision, given.scale)
    return _TYPES.get(name, pl.Object())


@contextmanager
def quiet() -> Iterator[None]:
    """Silence PySpark in this thread: it logs error messages, which may contain values of the log."""
    from pyspark.logger import PySparkLogger

    thread = threading.get_ident()

    def is_of_others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    loggers = [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("DataFrame", "SQL")]
    for logger in loggers:
        logger.addFilter(is_of_others)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_of_others)
