"""Open any kind of source as a `Log`.

A query is checked first. It then runs in a new DuckDB session, which can read only the sources of the query.
Spark frames (classic or Spark Connect) are recognised without importing Spark, and only Spark reads them.
"""

from __future__ import annotations

import difflib
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from sparsehist.counting.contract import ClosedQuery, Files, Query, names_of
from sparsehist.counting.files import open_files
from sparsehist.counting.log import QUERY_LABEL, Log, engine_errors
from sparsehist.errors import DataError, DeclarationError, SparsehistError, present, raise_alone

if TYPE_CHECKING:
    from sparsehist.guarantee.statement import Lookup

# Dict from Spark type to Polars type. Spark reads unsigned 64-bit integers as decimals with 20 digits.
_TYPES: dict[str, pl.DataType] = {
    "BooleanType": pl.Boolean(), "ByteType": pl.Int8(), "ShortType": pl.Int16(), "IntegerType": pl.Int32(),
    "LongType": pl.Int64(), "FloatType": pl.Float32(), "DoubleType": pl.Float64(), "StringType": pl.String(),
    "CharType": pl.String(), "VarcharType": pl.String(), "BinaryType": pl.Binary(), "DateType": pl.Date(),
    "TimestampType": pl.Datetime("us", "UTC"), "TimestampNTZType": pl.Datetime("us"),
}  # fmt: skip


def open_log(source: object, columns: Sequence[str]) -> Log:
    """Open a source of any kind as a log with these columns. Refuse the source if a column is missing."""
    log = source if isinstance(source, Log) else _open(source, columns)
    missing = [name for name in columns if name not in log.dtypes]
    if missing:
        # Three or more missing column names may be data from the log, passed by mistake, so do not show them.
        which = f"column {missing[0]!r}" if len(missing) <= 2 else "such columns"
        raise DeclarationError(f"no {which} in {log.label}; {_columns_of(log, columns, missing[0])}")
    return log


def _columns_of(log: Log, columns: Sequence[str], missing: str) -> str:
    """Return a hint for a missing column: a similar name, a list of all columns, or advice to check the header."""
    if log.files and log.texts.issuperset(log.dtypes) and not any(name in log.dtypes for name in columns):
        n = len(log.dtypes)
        return f"the first line is read as the header: check the header and the delimiter; it has {n} field(s)"
    folded = {name.casefold(): name for name in log.dtypes}
    near = difflib.get_close_matches(missing.casefold(), folded, n=1)
    if near:
        return f"did you mean {folded[near[0]]!r}?"
    return f"its columns are {list(log.dtypes)}; sh.Files(…, hive=[…]) reads columns from the names of folders"


def _open(source: object, columns: Sequence[str]) -> Log:
    log = open_files(source, columns)
    if log is not None:
        return log
    # `Files` may wrap a frame, to declare types of its columns.
    source = source.paths if isinstance(source, Files) else source
    label = QUERY_LABEL if isinstance(source, Query) else f"the {type(source).__name__}"
    if is_spark_frame(source):
        with quiet(), engine_errors(label):
            return Log(source, _spark_dtypes(source), label)
    with engine_errors(label):
        if isinstance(source, Query):
            return _of_relation(present(checked_query(source, ()).world).relation(), columns, label)
        if type(source).__name__ == "DuckDBPyRelation":
            return _of_relation(source, columns, label)
        if hasattr(source, "__arrow_c_stream__"):
            source = pl.DataFrame(source)
        if isinstance(source, (pl.DataFrame, pl.LazyFrame)):
            return Log(source.lazy(), dict(source.collect_schema()), label)
    raise DeclarationError(
        "a log must be a path, a list of paths, a Polars or Spark frame (such as pl.scan_delta(…)), a DuckDB "
        f"relation, a Query, Counts or an object with an Arrow stream, not {type(source).__name__}"
    )


def _of_relation(relation: Any, columns: Sequence[str], label: str) -> Log:
    """Open a DuckDB relation as a log that reads only the given columns, or all columns if none are given."""
    from sparsehist.guarantee.statement import quoted  # imported here, because logs in files do not need DuckDB

    folded = [name.casefold() for name in relation.columns]
    for name, kind in zip(relation.columns, relation.types, strict=True):
        if name in columns and folded.count(name.casefold()) > 1:
            raise DeclarationError(f"two columns have the same name; rename one: {name!r} in {label}")
        if name in columns and kind == "TIME WITH TIME ZONE":
            raise DataError(f"a column would lose its time zone: cast it to text ({name!r} is {kind})")
    dtypes = dict(zip(relation.columns, relation.limit(0).pl().dtypes, strict=True))
    # Select columns by position, as DuckDB may rename columns in its output. Unselected columns are not read.
    numbered = enumerate(relation.columns, 1)
    chosen = [f"#{number} as {quoted(name)}" for number, name in numbered if not columns or name in columns]
    return Log(relation.project(", ".join(chosen) or "*").pl(lazy=True), dtypes, label)


def checked_query(
    query: Query, unit: str | Sequence[str], key: str | Sequence[str] = (), lookup: Lookup | None = None
) -> ClosedQuery:
    """Check a query without running it. Return it bound to its current sources, files and column types.

    A query is refused if a row of its result might depend on several units, unless `query.unverified` is true or
    `unit` is empty. The result must have the columns in `key`. A name in FROM is first looked up
    with `lookup`, and then in the tables of the query.
    """
    if isinstance(query, ClosedQuery):
        return query
    from sparsehist.guarantee.closed import close  # imported here, because logs in files do not need DuckDB
    from sparsehist.guarantee.statement import Source, folded

    named = {
        folded(name): Source(name, public=public, opens=partial(_named_table, name, table), origin=table)
        for public, tables in ((False, query.tables), (True, query.public))
        for name, table in tables.items()
    }

    def source_of(path: tuple[str, ...]) -> Source | None:
        source = lookup(path) if lookup is not None else None
        return named.get(".".join(path)) if source is None else source

    world = close(query, source_of, names_of(unit), names_of(key))
    return ClosedQuery(query.sql, query.tables, query.public, query.parameters, query.unverified, world)


def as_table(source: object) -> object:
    """Return files and lazy frames as a Polars frame. Return other sources unchanged, as DuckDB can read them."""
    log = Log(source, {}, "the LazyFrame") if isinstance(source, pl.LazyFrame) else open_files(source)
    if log is None:
        return source
    with engine_errors(log.label, log):
        return log.rows.collect(engine="streaming")


def _named_table(name: str, table: object) -> object:
    try:
        return as_table(table)
    except SparsehistError as problem:
        raise_alone(type(problem)(f"tables={{{name!r}: …}}: {problem}"))


def check_query(
    query: str,
    *,
    unit: str | Sequence[str],
    key: str | Sequence[str] = (),
    tables: Mapping[str, object] | None = None,
    public: Mapping[str, object] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> None:
    """Raise an error if a row of a query's result might depend on several units. The query is not run.

    In the result, the rows of a unit may depend only on rows of this unit and on public tables. This is checked on
    DuckDB's plan of the query, which is made over empty tables. docs/sql.md describes allowed queries.

    Args:
        query: One SELECT.
        unit: Column of the result that names the unit, or several that name it together.
        key: Key columns that the result must have.
        tables: Dict from name to table: a frame, Arrow table, relation, path or `Files`.
        public: Dict from name to a table without data of any unit. A file is public if its path is given here.
        parameters: Dict from the name of each parameter to its value. In the SQL, a parameter is written as $name.

    Raises:
        GuaranteeError: If rows may depend on other units; the message says why and what to change.
        StatementError: If DuckDB cannot plan the query.

    Example:
        >>> import polars as pl
        >>> log = pl.DataFrame({"user_id": [1, 2], "query": ["a", "b"]})
        >>> check_query("select user_id, query from log where query <> ''", unit="user_id", tables={"log": log})
        >>> check_query("select user_id, query from log limit 10", unit="user_id", tables={"log": log})
        Traceback (most recent call last):
        ...
        sparsehist.errors.GuaranteeError: LIMIT and OFFSET apply to the rows of all units together; ...
    """
    checked_query(Query(query, tables or {}, public or {}, parameters), unit, key)


def is_spark_frame(source: object) -> bool:
    """Return whether a source is a Spark frame."""
    return type(source).__module__.startswith("pyspark.sql.") and type(source).__name__ == "DataFrame"


def _spark_dtypes(frame: Any) -> dict[str, pl.DataType]:
    dtypes: dict[str, pl.DataType] = {}
    for field in frame.schema.fields:
        kind = field.dataType
        if field.name in dtypes:
            raise DataError("the Spark frame has two columns with the same name: rename one of them")
        dtypes[field.name] = _TYPES.get(type(kind).__name__, pl.Object())
        if type(kind).__name__ == "DecimalType":
            whole = (kind.precision, kind.scale) == (20, 0)
            dtypes[field.name] = pl.UInt64() if whole else pl.Decimal(kind.precision, kind.scale)
    return dtypes


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the loggers of PySpark in this thread, because their messages may contain values of the log."""
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
