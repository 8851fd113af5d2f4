"""Open any kind of source as a `Log`."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from sparsehist.counting.contract import Files, Query
from sparsehist.counting.files import open_files
from sparsehist.counting.log import QUERY_LABEL, Log, engine_errors
from sparsehist.counting.queries import checked
from sparsehist.counting.spark_sources import SPARK_LABEL, dtypes_of, is_spark_frame, quiet
from sparsehist.errors import DataError, DeclarationError, present

if TYPE_CHECKING:
    import duckdb


def open_log(source: object, columns: Sequence[str]) -> Log:
    """Open a source (see `count_keys`) to read these columns."""
    log = source if isinstance(source, Log) else _open(source, columns)
    missing = [name for name in columns if name not in log.dtypes]
    if missing:
        which = f"column {missing[0]!r}" if len(missing) <= 2 else "such columns"  # more may be rows of the log
        raise DeclarationError(f"{log.label} has no {which}; {_columns_of(log, columns, missing[0])}")
    return log


def _columns_of(log: Log, columns: Sequence[str], missing: str) -> str:
    """Return a hint: that the first line may be no header, else a similar column name, else all column names."""
    if log.files and log.texts.issuperset(log.dtypes) and not any(name in log.dtypes for name in columns):
        n = len(log.dtypes)
        return f"its first line has {n} field(s) and must be a header: check that it is one, and the delimiter"
    folded = {name.casefold(): name for name in log.dtypes}
    near = difflib.get_close_matches(missing.casefold(), folded, n=1)
    if near:
        return f"did you mean {folded[near[0]]!r}?"
    return f"its columns are {list(log.dtypes)}; sh.Files(…, hive=[…]) reads those in the names of folders"


def _open(source: object, columns: Sequence[str]) -> Log:
    log = open_files(source, columns)
    if log is not None:
        return log
    source = source.paths if isinstance(source, Files) else source  # rows, with the types that columns become
    if isinstance(source, (pl.DataFrame, pl.LazyFrame)):
        label = "the frame" if isinstance(source, pl.DataFrame) else "the lazy frame"
        with engine_errors(label):
            return Log(source.lazy(), dict(source.collect_schema()), label)
    if isinstance(source, Query):
        with engine_errors(QUERY_LABEL):
            return _of_relation(present(checked(source, ()).world).relation(), columns, QUERY_LABEL)
    kind = type(source)
    if kind.__module__.startswith(("duckdb", "_duckdb")) and kind.__name__ == "DuckDBPyRelation":
        with engine_errors("the relation"):
            return _of_relation(source, columns, "the relation")  # type: ignore[arg-type]
    if is_spark_frame(source):
        with quiet(), engine_errors(SPARK_LABEL):
            return Log(source, dtypes_of(source), SPARK_LABEL)
    if hasattr(source, "__arrow_c_stream__"):
        own = getattr(source, "column_names", getattr(source, "columns", ()))  # of Arrow, of pandas
        names = [str(name) for name in own if isinstance(name, str)]
        _refuse_twice("the table", names, names)
        with engine_errors("the table"):
            frame = pl.DataFrame(source)
            return Log(frame.lazy(), dict(frame.schema), "the table")
    raise DeclarationError(
        "a log is a path, a list of paths, a Polars or Spark frame (such as pl.scan_delta(…)), a DuckDB relation, a "
        f"Query, Counts or anything with an Arrow stream, not {kind.__name__}"
    )


def _refuse_twice(label: str, names: Sequence[str], columns: Sequence[str]) -> None:
    for name in columns:
        if names.count(name) > 1:
            raise DeclarationError(f"{label} has more than one column {name!r}: rename one of them")


def _of_relation(relation: duckdb.DuckDBPyRelation, columns: Sequence[str], label: str) -> Log:
    """Read a relation of DuckDB as a lazy frame."""
    from sparsehist.guarantee.statement import quoted  # imports DuckDB, which files do not need

    _refuse_twice(label, [name.casefold() for name in relation.columns], [name.casefold() for name in columns])
    for name, kind in zip(relation.columns, relation.types, strict=True):
        if name in columns and kind == "TIME WITH TIME ZONE":
            raise DataError(f"column {name!r} is {kind}, which loses its zone when read: cast it to text")
    dtypes = dict(zip(relation.columns, relation.limit(0).pl().dtypes, strict=True))
    # Select by position, because DuckDB may change names in its output. Other columns are not read.
    numbered = enumerate(relation.columns, 1)
    chosen = [f"#{number} as {quoted(name)}" for number, name in numbered if not columns or name in columns]
    return Log(relation.project(", ".join(chosen) or "*").pl(lazy=True), dtypes, label)
