"""Anything a log can be given as → something either engine can read, with its columns and dtypes.

CSV files and JSON lines are read as text throughout, units too, so that an id is read alike in every file whatever
its neighbours look like; so are columns in the names of folders. Keys are parsed afterwards where the domain wants
whole numbers or dates. Only an empty field of a CSV file is null: `NA` is text, with quotes or without, since the
readers cannot tell the two apart. A log that writes missing values otherwise is given as
`pl.scan_csv(…, null_values=…)` or as a `Query`.
"""

from __future__ import annotations

import codecs
import difflib
import glob
import gzip
import logging
import os
import re
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

import polars as pl

from sparsehist.counting.contract import ClosedQuery, Files, Query
from sparsehist.counting.lakes import CREDENTIALS, bare, is_remote, is_table, listed, open_table
from sparsehist.counting.spark_sources import dtypes_of, is_spark_frame
from sparsehist.counting.tuples import check_portable, part_of_tuple, tuple_text
from sparsehist.domain.base import Domain
from sparsehist.errors import DataError, DeclarationError, InputError, NotFoundError, SparsehistError, raise_alone
from sparsehist.guarantee.extensions import (
    LACKING,
    lacks_extension,
    unseen,
)

if TYPE_CHECKING:
    import duckdb

    from sparsehist.guarantee.closed import Closed
    from sparsehist.guarantee.statement import Lookup, Source

Kind = Literal["parquet", "csv", "json", "frame", "lazy", "stream", "spark"]
SUFFIXES: dict[str, Kind] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "csv",
    ".tsv.gz": "csv",
    ".jsonl": "json",
    ".jsonl.gz": "json",
    ".ndjson": "json",
    ".ndjson.gz": "json",
}
_TEXT: tuple[Kind, ...] = ("csv", "json")
_HIVE_HINT = "sh.Files(…, hive=['column']), or --hive column, reads it from there"
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_DAY = r"^(\d{4}-\d{2}-\d{2})[ T]\d{2}:\d{2}.*$"
ENGINE_FAILURES = (
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
    OSError,
    ValueError,
    TypeError,
    RuntimeError,
)
"""What Polars, Spark or an Arrow stream may raise; Polars' panics are no Exception."""
_ENGINES = ("pyspark.", "py4j.", "grpc.", "duckdb", "_duckdb")
"""Modules whose exceptions are known by name: they need not be there, or need not be imported."""
_SPARK_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
QUERY_LABEL = "the query"
SPARK_LABEL = "the Spark frame"
_CASTABLE = (pl.String, pl.Categorical, pl.Enum, pl.Boolean, pl.Date, pl.Datetime)
_BLOCK = 1 << 20
_MAGIC = b"PAR1"
# What Polars says, and what it means; where neither is recognised, the reason is left open.
_REASONS = {
    "more fields": "its rows are of different length",
    "could not parse": "a quoted field does not end where it should",
    "CSV malformed": "a quote stands inside a field without quotes, or is never closed",
}
_ELSEWHERE = {
    FileNotFoundError: "it is not there",
    PermissionError: f"access is refused; {CREDENTIALS}",
}


@dataclass(frozen=True)
class Log:
    """A log that can be read, once or more.

    Attributes:
        kind: How it is read.
        files: The files, for kinds "parquet", "csv" and "json".
        content: A DataFrame, LazyFrame or DuckDB relation, for kinds "frame", "lazy" and "stream".
        dtypes: Dtype of every column.
        label: What errors call it.
        tuples: Columns that are made of several others, each with these.
        casts: How key columns become what they are declared to be, and the dtype they have in the log.
        delimiter: Between the fields of CSV files; by their ending if None.
        hive: Columns that stand in the names of folders.
        storage: What gives access to files that are URLs; None for files of this machine.
    """

    kind: Kind
    files: tuple[str, ...] = field(repr=False)
    content: Any = field(repr=False)
    dtypes: dict[str, pl.DataType]
    label: str
    tuples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    casts: Mapping[str, tuple[pl.Expr, pl.DataType]] = field(default_factory=dict)
    delimiter: str | None = None
    hive: tuple[str, ...] = ()
    storage: dict[str, str] | None = field(default=None, repr=False)

    @property
    def as_it_is(self) -> bool:
        """Whether every column is read from files of this machine as they hold it."""
        return not self.casts and not self.hive and not any(map(is_remote, self.files))

    def with_key_types(self, key_types: Mapping[str, str]) -> Log:
        """The same log with some columns turned into what they are declared to be."""
        if not key_types:
            return self
        if self.kind in ("stream", "spark"):
            where = "the Spark frame" if self.kind == "spark" else "its SELECT"
            raise DeclarationError(f"key_types are for files and Polars frames: cast the column in {where}")
        casts, dtypes = {}, dict(self.dtypes)
        for name, to in key_types.items():
            cast, dtypes[name] = _cast(name, self.dtypes[name], to)
            casts[name] = (cast, self.dtypes[name])
        return replace(self, dtypes=dtypes, casts=casts)

    def with_unit(self, name: str, parts: tuple[str, ...]) -> Log:
        """The same log with a column for a unit that several columns name; as it is where one does."""
        if parts == (name,):
            return self
        return replace(self, dtypes={**self.dtypes, name: pl.String()}, tuples={name: parts})

    def only(self, inside: pl.Expr, columns: Sequence[str]) -> Log:
        """The same log with some of its rows and columns, read by Polars; columns of text are read as they were."""
        casts = {
            name: (pl.col(name), self.dtypes[name]) for name in columns if self.kind in _TEXT or name in self.hive
        }
        content = self.lazy(columns).filter(inside)
        return replace(self, kind="lazy", files=(), hive=(), content=content, casts=casts)

    def with_key(self, name: str, value: str, columns: Sequence[str]) -> Log:
        """The same log with some of its columns and one more that holds a text in every row."""
        if self.kind == "spark":
            raise DeclarationError("a Spark frame needs a key: add a column that holds one text")
        columns = [*columns, name]
        made = replace(self, dtypes={**self.dtypes, name: pl.String()})
        content = self.lazy(columns[:-1]).with_columns(pl.lit(value).alias(name))
        texts = {each: (pl.col(each), self.dtypes[each]) for each in columns[:-1] if self.kind in _TEXT}
        return replace(made, kind="lazy", files=(), hive=(), content=content, casts=texts)

    def parts_of(self, columns: Sequence[str]) -> list[str]:
        """The columns that are read for columns."""
        return list(dict.fromkeys(part for name in columns for part in self.tuples.get(name, (name,))))

    def lazy(self, columns: Sequence[str]) -> pl.LazyFrame:
        """Read these columns with Polars."""
        if self.tuples:
            own = replace(self, tuples={}).lazy(self.parts_of(columns))
            return own.select(
                tuple_text(self.tuples[name], self.dtypes).alias(name) if name in self.tuples else name
                for name in columns
            )
        if self.casts:
            held = {name: dtype for name, (_, dtype) in self.casts.items()}
            own = replace(self, casts={}, dtypes={**self.dtypes, **held}).lazy(columns)
            return own.with_columns(cast for name, (cast, _) in self.casts.items() if name in columns)
        if self.hive:
            inner = [name for name in columns if name not in self.hive]
            one = replace(self, hive=())
            return pl.concat(
                replace(one, files=(file,))
                .lazy(inner)
                .with_columns(
                    pl.lit(folders[name], dtype=pl.String).alias(name) for name in self.hive if name in columns
                )
                .select(columns)
                for file in self.files
                for folders in [_folders(file, self.hive)]
            )
        if self.kind == "json":
            schema = dict.fromkeys(columns, pl.String())
            return pl.concat(
                pl.scan_ndjson(file, schema=schema, storage_options=self.storage).select(columns)
                for file in self.files
            )
        if self.kind == "csv":
            # All fields are looked at, wanted or not: with some only, rows that a stray quote swallows go unseen.
            kept = pl.Schema(dict.fromkeys(columns, pl.String()))
            return pl.concat(
                scan_csv(file, self.delimiter, self.storage).map_batches(
                    lambda batch: batch.select(columns), projection_pushdown=False, streamable=True, schema=kept
                )
                for file in self.files
            )
        if self.kind == "parquet":
            wanted = [pl.col(name).cast(self.dtypes[name]) for name in columns]
            scans = [scan_parquet(file, self.storage).select(wanted) for file in self.files]
            return pl.concat(scans) if len(scans) > 1 else scans[0]
        if self.kind == "stream":
            return pl.DataFrame(self.content.pl()).lazy().select(columns)
        return self.content.lazy().select(columns)  # type: ignore[no-any-return]

    def batches(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Read these columns of a stream, some rows at a time."""
        parts = self.parts_of(columns)
        for batch in self.content.to_arrow_reader():
            frame = pl.DataFrame(batch).select(parts)
            yield replace(self, kind="frame", content=frame).lazy(columns).collect()


def open_log(source: object, columns: Sequence[str]) -> Log:
    """Find out what a source (see `count_keys`) is and what columns it has, among them those that will be read."""
    log = source if isinstance(source, Log) else _open(source, columns)
    missing = [name for name in columns if name not in log.dtypes]
    if missing:
        in_folders = any(f"{missing[0]}=" in part for file in log.files for part in Path(file).parts[:-1])
        hint = f"; a folder's name has it: {_HIVE_HINT}" if in_folders else ""
        raise DeclarationError(
            f"{log.label} has no column {missing[0]!r}; {_columns_of(log, columns, missing[0])}{hint}"
        )
    return log


def as_table(source: object) -> object:
    """A source as DuckDB takes it: what Polars reads is read, anything else is left to DuckDB."""
    if isinstance(source, (str, Path, Files)) or is_table(source):
        log = open_log(source, ())
        if log.kind == "json":
            raise DeclarationError("JSON lines have no columns of their own: give a frame as the table")
        with engine_errors(log.label, log):
            return log.lazy(list(log.dtypes)).collect(engine="streaming")
    return source.collect() if isinstance(source, pl.LazyFrame) else source


def _columns_of(log: Log, columns: Sequence[str], missing: str) -> str:
    """Name the column that may be meant, or all, unless the first line of a CSV file may be a row of the log."""
    if log.kind == "csv" and not any(name in log.dtypes for name in columns):
        n = len(log.dtypes)
        return f"its first line has {n} field(s) and must be a header: check that it is one, and the delimiter"
    folded = {name.casefold(): name for name in log.dtypes}
    near = difflib.get_close_matches(missing.casefold(), folded, n=1)
    return f"did you mean {folded[near[0]]!r}?" if near else f"its columns are {list(log.dtypes)}"


def _open(source: object, columns: Sequence[str]) -> Log:
    files = source_files(source)
    if files:
        return _open_files(files, columns, source if isinstance(source, Files) else Files(files))
    table = source_table(source)
    if table is not None:
        opened = open_table(table, source.storage_options if isinstance(source, Files) else {})
        with engine_errors(opened.label):
            return Log("lazy", (), opened.rows, dict(opened.rows.collect_schema()), opened.label)
    source = source.paths if isinstance(source, Files) else source  # rows, with the types that columns become
    if isinstance(source, pl.DataFrame):
        return Log("frame", (), source, dict(source.schema), "the frame")
    if isinstance(source, pl.LazyFrame):
        with engine_errors("the lazy frame"):
            return Log("lazy", (), source, dict(source.collect_schema()), "the lazy frame")
    if isinstance(source, Query):
        with engine_errors(QUERY_LABEL):
            return _open_relation(closed(source).relation(), columns, QUERY_LABEL)
    if is_relation(source):
        with engine_errors("the relation"):
            return _open_relation(source, columns, "the relation")  # type: ignore[arg-type]
    if is_spark_frame(source):
        with engine_errors(SPARK_LABEL):
            return Log("spark", (), source, dtypes_of(source), SPARK_LABEL)
    if hasattr(source, "__arrow_c_stream__"):
        own = getattr(source, "column_names", getattr(source, "columns", ()))  # of Arrow, of pandas
        names = [str(name) for name in own if isinstance(name, str)]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DeclarationError(f"the table has more than one column {twice!r}: rename them apart")
        with engine_errors("the table"):
            frame = pl.DataFrame(source)
            return Log("frame", (), frame, dict(frame.schema), "the table")
    raise DeclarationError(
        "a log is a path, a list of paths, a Polars or Spark frame, a DuckDB relation, a Query, Counts or anything "
        f"with an Arrow stream, not {type(source).__name__}"
    )


def _cast(name: str, dtype: pl.DataType, to: str) -> tuple[pl.Expr, pl.DataType]:
    """Turn a column into dates or text, which is parsed where the domain wants whole numbers or dates; say which."""
    column = pl.col(name)
    text = dtype in (pl.String, pl.Categorical, pl.Enum)
    if to == "date" and (text or dtype == pl.Date or isinstance(dtype, pl.Datetime)):
        day = column.cast(pl.String).str.replace(_DAY, "$1") if text else column.dt.date()
        return day, pl.String() if text else pl.Date()
    if to == "integer" and (text or dtype.is_integer() or dtype == pl.Boolean or dtype.is_decimal()):
        number = column.cast(pl.Int8) if dtype == pl.Boolean else column
        return number.cast(pl.String).str.replace(r"^([+-]?\d+)\.0*$", "$1"), pl.String()
    if to == "text" and (text or dtype.is_integer() or dtype == pl.Boolean or dtype.is_decimal() or dtype == pl.Date):
        return column.cast(pl.String), pl.String()
    raise DeclarationError(
        f"key_types: column {name!r} is {dtype}, which does not become {to!r}; text, timestamps and dates become "
        "'date', and text, whole numbers, booleans and decimals 'integer' or 'text'"
    )


def shown(file: str) -> str:
    """A path as errors show it: the name of a folder such as user=alice may hold a unit or a key.

    Example:
        >>> shown("log/user=alice/part.csv")
        'log/user=…/part.csv'
    """
    return re.sub(r"=[^/]+(?=/)", "=…", bare(file) if is_remote(file) else file)


def source_table(source: object) -> object | None:
    """The table of Delta or Iceberg that a source is, as an object or a text; None for any other."""
    told = source.paths if isinstance(source, Files) else source
    one = told[0] if isinstance(told, (list, tuple)) and len(told) == 1 else told
    return one if is_table(one) else None


def source_files(source: object) -> list[str] | None:
    """The files of a source that names files; None for any other."""
    told = source if isinstance(source, Files) else Files(source)  # type: ignore[arg-type]
    paths = [told.paths] if isinstance(told.paths, (str, Path)) else told.paths
    if not isinstance(paths, (list, tuple)) or not all(isinstance(item, (str, Path)) for item in paths):
        return None
    if source_table(source) is not None:
        return None
    return [file for path in paths for file in _matches(str(path), told)]


def _folders(file: str, names: Sequence[str]) -> dict[str, str | None]:
    """The values of columns that stand in the names of the folders of a file."""
    pairs = [part.partition("=") for part in Path(file).parts[:-1]]
    found = {name: None if value == _NO_VALUE else unquote(value) for name, equal, value in pairs if equal}
    missing = [name for name in names if name not in found]
    if missing:
        raise DataError(
            f"file {shown(file)!r} stands in no folder {missing[0]}=…, which was declared to hold that column"
        )
    return found


def _looks_like_sql(path: str) -> bool:
    return re.match(r"\s*(select|with|from)\s", path, re.IGNORECASE) is not None


def is_relation(source: object) -> bool:
    """Whether a source is a relation of DuckDB, which nobody can have who has not imported it."""
    return type(source).__module__.startswith(("duckdb", "_duckdb")) and type(source).__name__ == "DuckDBPyRelation"


def closed(
    query: Query, lookup: Lookup | None = None, *, unit: Sequence[str] = (), key: Sequence[str] = ()
) -> Closed:
    """Rewrite a query over its sources, and check it if `unit` is given. Nothing of the query is run.

    Args:
        query: The query.
        lookup: What further names in FROM stand for.
        unit: Columns of the result that name the unit.
        key: Columns that the result must have.
    """
    if isinstance(query, ClosedQuery) and query.world is not None:
        return query.world
    from sparsehist.guarantee.closed import close  # and with it DuckDB, which a file does not need
    from sparsehist.guarantee.statement import Source, folded

    given = {
        folded(name): Source(name, public=public, opens=partial(_opened, name, table), origin=table)
        for public, tables in ((False, query.tables), (True, query.public))
        for name, table in tables.items()
    }

    def source_of(path: tuple[str, ...]) -> Source | None:
        found = lookup(path) if lookup is not None else None
        return given.get(".".join(path)) if found is None else found

    return close(
        query.sql, source_of, query.parameters or {}, public_files=query.public, unit=unit, key=key,
        restricted=not query.unverified,
    )  # fmt: skip


def as_closed(
    query: Query, lookup: Lookup | None = None, *, unit: Sequence[str] = (), key: Sequence[str] = ()
) -> ClosedQuery:
    """Return a query with its sources, files and types as they are now; parameters as for `closed`."""
    world = closed(query, lookup, unit=unit, key=key)
    return ClosedQuery(query.sql, query.tables, query.public, query.parameters, query.unverified, world)


def _opened(name: str, table: object) -> object:
    """Return a source as DuckDB takes it; its error names it."""
    try:
        return as_table(table)
    except SparsehistError as problem:
        raise_alone(type(problem)(f"tables={{{name!r}: …}}: {problem}"))
    except Exception:  # noqa: BLE001  whatever an engine says may quote the data
        raise_alone(InputError(f"tables={{{name!r}: …}} cannot be read"))


def _open_relation(relation: duckdb.DuckDBPyRelation, columns: Sequence[str], label: str) -> Log:
    folded = [name.casefold() for name in relation.columns]
    for name in columns:
        if folded.count(name.casefold()) > 1:
            raise DeclarationError(
                f"{label} has columns that differ from {name!r} at most in case: rename them apart"
            )
        if name in relation.columns and relation.types[relation.columns.index(name)] == "TIME WITH TIME ZONE":
            raise DataError(
                f"column {name!r} is TIME WITH TIME ZONE, which loses its zone when read: cast it to text"
            )
    dtypes = dict(zip(relation.columns, relation.limit(0).pl().dtypes, strict=True))
    wanted = [name for name in dict.fromkeys(columns) if name in dtypes] or list(dtypes)
    # By place: on its way out of DuckDB, a name may become another one. Columns that nobody wants are not read.
    places = [f'#{relation.columns.index(name) + 1} as "{name.replace(chr(34), 2 * chr(34))}"' for name in wanted]
    return Log("stream", (), relation.project(", ".join(places)), dtypes, label)


def _open_files(files: Sequence[str], columns: Sequence[str], told: Files) -> Log:
    kinds = {_kind(file) for file in files}
    if len(kinds) > 1:
        raise DeclarationError("the files of a log must all be Parquet, all be CSV or all be JSON lines")
    if told.delimiter is not None and kinds != {"csv"}:
        raise DeclarationError("delimiter= is for CSV files")
    columns = [name for name in columns if name not in told.hive]
    log = open_file(files[0], columns, told)
    _refuse_twice(log, columns)
    label = log.label if len(files) == 1 else "the files"
    dtypes = dict(log.dtypes)
    for file in files[1:]:
        other = open_file(file, columns, told)
        _refuse_twice(other, columns)
        for name in columns:
            if name in dtypes and name not in other.dtypes:
                raise DataError(f"file {shown(file)!r} has no column {name!r}, which {shown(files[0])!r} has")
            if name in dtypes:
                dtypes[name] = _common(dtypes[name], other.dtypes[name], name, file)
    dtypes |= dict.fromkeys(told.hive, pl.String())
    result = replace(log, files=tuple(files), dtypes=dtypes, label=label, hive=tuple(told.hive))
    if log.kind == "csv" and len(files) > 1:
        _refuse_mixed_text(result, [name for name in columns if name in log.dtypes])
    return result


def _refuse_twice(log: Log, columns: Sequence[str]) -> None:
    """Two columns of one name: Polars takes the first and renames the others of a CSV file."""
    for name in columns:
        if log.kind == "csv" and name in log.dtypes and f"{name}_duplicated_0" in log.dtypes:
            raise DeclarationError(f"{log.label} has more than one column {name!r}: rename them apart")


def open_file(file: str, columns: Sequence[str] = (), told: Files | None = None) -> Log:
    """Find out what columns a file has, from its header or schema alone; JSON lines have those that are asked for."""
    label = f"file {shown(file)!r}"
    storage = dict(told.storage_options) if told is not None and is_remote(file) else None
    log = Log(_kind(file), (file,), None, {}, label, delimiter=told.delimiter if told else None, storage=storage)
    with engine_errors(label, log):
        if log.kind == "json":
            return replace(log, dtypes=dict.fromkeys(columns, pl.String()))
        scan = scan_csv(file, log.delimiter, storage) if log.kind == "csv" else scan_parquet(file, storage)
        dtypes = dict(scan.collect_schema())
    if log.kind == "csv" and any("\r" in name for name in dtypes):  # the log itself would be told as names of columns
        raise DataError(f"{label} ends its lines with carriage returns alone: write it with line feeds")
    return replace(log, dtypes=dtypes)


def scan_parquet(file: str, storage: dict[str, str] | None = None) -> pl.LazyFrame:
    """Read a Parquet file: its path is taken literally, its columns are those in it."""
    return pl.scan_parquet(file, glob=False, hive_partitioning=False, storage_options=storage)


def scan_csv(file: str, delimiter: str | None = None, storage: dict[str, str] | None = None) -> pl.LazyFrame:
    """Read a CSV file as text; only empty fields are null, and no row says how others are read."""
    return pl.scan_csv(
        file,
        infer_schema=False,
        has_header=True,
        separator=delimiter or ("\t" if _ending(file).removesuffix(".gz").endswith(".tsv") else ","),
        quote_char='"',
        comment_prefix=None,
        truncate_ragged_lines=False,
        ignore_errors=False,
        glob=False,
        storage_options=storage,
    )


def _matches(path: str, told: Files) -> list[str]:
    if is_remote(path):
        return listed(path, told.storage_options, in_folders=bool(told.hive))
    searched = map(Path, glob.glob(str(Path(path).parent), recursive=True))
    _refuse_unreadable(searched, os.R_OK | os.X_OK if glob.has_magic(path) else os.X_OK)
    if Path(path).is_file():
        return [path]
    if "://" in path:
        raise DeclarationError(
            f"{bare(path)!r} is no URL that can be read; s3://, gs://, az:// and https:// can: copy the files here"
        )
    if Path(path).is_dir():
        if told.hive:
            return _within(Path(path))
        partitions = sorted(place.name for place in Path(path).iterdir() if place.is_dir() and "=" in place.name)
        hint = f"; folders such as {shown(partitions[0] + '/')!r} hold a column: {_HIVE_HINT}" if partitions else ""
        raise NotFoundError(
            f"{path!r} is a directory: name its files, such as {str(Path(path) / '*.parquet')!r}{hint}"
        )
    if _looks_like_sql(path):
        raise DeclarationError("SQL is no path: in Python, give it as sparsehist.Query('select …')")
    if Path(path).exists():
        raise DataError(f"{path!r} is no regular file, and a log is read more than once: write it to a file")
    found = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else []
    if not found:
        raise NotFoundError(f"there is no file {path!r}")
    return found


def _within(directory: Path) -> list[str]:
    """Every file of a log in a directory; what others put there begins with a dot or an underscore."""
    places = list(directory.rglob("*"))
    _refuse_unreadable([directory, *places], os.R_OK | os.X_OK)
    files = sorted(
        str(place)
        for place in places
        if place.is_file() and not any(part[0] in "._" for part in place.relative_to(directory).parts)
    )
    if not files:
        raise NotFoundError(f"there is no file in {str(directory)!r}")
    return files


def _refuse_unreadable(directories: Iterable[Path], how: int) -> None:
    """A search leaves out what it may not look into, without a word."""
    for place in directories:
        if os.path.isdir(place) and not os.access(place, how):  # noqa: PTH112  Path's own fails in such a directory
            raise DataError(f"directory {shown(f'{place}/')!r} cannot be read: permission is denied")


def _ending(file: str) -> str:
    """A path in lower case up to its ending; that of a URL may be followed by a signature."""
    return (bare(file) if is_remote(file) else file).lower()


def _kind(file: str) -> Kind:
    for suffix, kind in SUFFIXES.items():
        if _ending(file).endswith(suffix):
            return kind
    raise DeclarationError(f"file {shown(file)!r} must end in one of {', '.join(SUFFIXES)}")


def _common(first: pl.DataType, second: pl.DataType, name: str, file: str) -> pl.DataType:
    """Find the dtype in which two files agree on a column: whole numbers of any width, text of any kind."""
    if first == second:
        return first
    if first.is_integer() and second.is_integer():
        return pl.Int64() if first.is_signed_integer() and second.is_signed_integer() else pl.Int128()
    if all(dtype in (pl.String, pl.Categorical, pl.Enum) for dtype in (first, second)):
        return pl.String()
    raise DataError(
        f"column {name!r} is {first} in the first file and {second} in {shown(file)!r}: one id must not be two; "
        "write the column alike in all files"
    )


def _refuse_mixed_text(log: Log, columns: Sequence[str]) -> None:
    """Refuse CSV files where a column is whole numbers in some and other text in the rest: 1 and 1.0 are one id."""
    number = r"^[+-]?[0-9]+$"
    for name in columns:
        for_file = []
        for file in log.files:
            with engine_errors(f"file {shown(file)!r}"):
                scan = scan_csv(file, log.delimiter, log.storage).select(pl.col(name).replace("", None).drop_nulls())
                shape = pl.col(name).str.contains(number).all(), pl.len()
                for_file.append(scan.select(shape[0], shape[1].alias("rows")).collect(engine="streaming").row(0))
        kinds = {whole for whole, rows in for_file if rows}
        if len(kinds) > 1:
            raise DataError(
                f"column {name!r} holds whole numbers in some files and other text in the rest: one id must not be "
                "two; write the column alike in all files, or give the log as a Polars frame"
            )


class engine_errors(AbstractContextManager[None]):  # noqa: N801  used as a statement, like contextlib.suppress
    """Turn whatever an engine raises into an error of ours without the engine's words, which may quote the log.

    With a log, the file that fails is looked for. `known` gives the error of ours for failures it knows by those
    words.
    """

    def __init__(
        self,
        label: str,
        log: Log | None = None,
        known: Callable[[BaseException], SparsehistError | None] = lambda _: None,
    ) -> None:
        self._label = label
        self._log = log
        self._known = known

    def __enter__(self) -> None:
        self._loggers: list[logging.Logger] = []
        self._thread = threading.get_ident()
        if self._label == SPARK_LABEL:
            # PySpark logs what its errors say, values of the log included, before anybody can catch them.
            from pyspark.logger import PySparkLogger

            self._loggers = [PySparkLogger.getLogger(name) for name in _SPARK_LOGGERS]
        for logger in self._loggers:
            logger.addFilter(self._is_of_others)

    def _is_of_others(self, record: logging.LogRecord) -> bool:
        return record.thread != self._thread

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        for logger in self._loggers:
            logger.removeFilter(self._is_of_others)
        of_engine = isinstance(failure, ENGINE_FAILURES) or type(failure).__module__.startswith(_ENGINES)
        if failure is None or not of_engine or isinstance(failure, (SparsehistError, MemoryError)):
            return
        error = self._known(failure) or _told_apart(failure, self._label, self._log)
        # Not even the frames of the new error are to lead back to the old one.
        del failure, trace
        raise_alone(error)


def _told_apart(failure: BaseException, label: str, log: Log | None) -> SparsehistError:
    """Say in words of our own what kind of failure it was."""
    if type(failure).__name__ == "OutOfMemoryException":
        return DeclarationError(
            "memory_limit is too small for this log even with spilling: allow more memory or fewer threads"
        )
    broken, seen = _first_unreadable(log) if log is not None else (None, None)
    kind = type(failure).__name__
    if lacks_extension(failure):
        return DataError(LACKING)
    if label == QUERY_LABEL:
        return DataError(f"{label} cannot be run ({kind}): try it in DuckDB on its own{unseen(failure)}")
    reason = _why_unreadable(broken, seen or failure) if broken else None
    return DataError(
        f"{f'file {shown(broken)!r}' if broken else label} cannot be read"
        + (f": {reason}" if reason else f" ({kind}): check that it is whole and that its columns can be read")
    )


def _first_unreadable(log: Log) -> tuple[str | None, BaseException | None]:
    """Look with Polars for the file that fails, and how; only done once reading has failed."""
    for file in log.files:
        single = replace(log, files=(file,), casts={}, tuples={}, hive=())
        try:
            single.lazy(list(log.dtypes)).select(pl.all().null_count()).collect(engine="streaming")
        except ENGINE_FAILURES as failure:
            return file, failure
    return (log.files[0] if len(log.files) == 1 else None), None


def check_unit_dtypes(log: Log, units: Sequence[str], *, portable: bool = False) -> None:
    """Refuse columns of the unit whose values cannot be compared exactly, or have no text form that is needed."""
    for unit in units:
        _check_unit_dtype(unit, log.dtypes[unit])
        if portable:
            check_portable(unit, log.dtypes[unit])
        elif len(units) > 1:
            part_of_tuple(unit, log.dtypes[unit])


def _check_unit_dtype(unit: str, dtype: pl.DataType) -> None:
    if dtype.is_float() or dtype.is_decimal():
        raise _fractions(f"unit column {unit!r}", dtype, "cast it to whole numbers of at most 64 bits or text first")
    if dtype.is_nested() or dtype in (pl.Null, pl.Object):
        raise DataError(
            f"unit column {unit!r} has dtype {dtype}: a unit must be text, a whole number, a date or the like"
        )


def _fractions(column: str, dtype: pl.DataType, remedy: str) -> DataError:
    return DataError(f"{column} has dtype {dtype}, in which one number may be written in several ways: {remedy}")


def check_key_dtypes(log: Log, key: Sequence[str], domain: Domain) -> None:
    """Refuse key columns that the domain does not take; dates may be ISO text, whole numbers only in CSV files."""
    for column, name in enumerate(key):
        wanted = domain.dtypes[column]
        is_text = log.kind in _TEXT or name in log.hive or name in log.casts
        parsed = log.dtypes[name] == pl.String and (wanted == pl.Date or (is_text and wanted.is_integer()))
        if not parsed and not domain.accepts(column, log.dtypes[name]):
            castable = log.dtypes[name].is_integer() or log.dtypes[name].is_decimal() or log.dtypes[name] in _CASTABLE
            to = "say what it becomes (key_types, on the command line --key-type)" if castable else "cast it before"
            remedy = {"stream": "cast it in the query", "spark": "cast it in the Spark frame"}.get(log.kind, to)
            if log.dtypes[name].is_float() or log.dtypes[name].is_decimal():
                raise _fractions(f"key column {name!r}", log.dtypes[name], f"{remedy} as whole numbers or text")
            raise DataError(
                f"key column {name!r} has dtype {log.dtypes[name]}, and {domain.describe()} wants {wanted} there: "
                f"{remedy}, or declare another domain"
            )


def _why_unreadable(file: str, failure: BaseException) -> str | None:
    """Find out what is wrong with a file, once Polars failed to read it; None where it cannot be told."""
    if is_remote(file):
        return next((reason for kind, reason in _ELSEWHERE.items() if isinstance(failure, kind)), None)
    path = Path(file)
    try:
        if path.stat().st_size == 0:
            return "it is empty"
        if _kind(file) == "parquet":
            return None if _is_framed(path) else "it is no whole Parquet file"
        if not _is_text(path):
            return "it is not UTF-8 text"
        if _kind(file) == "json":
            return "a line of it is no JSON object, or a column holds values of several kinds"
    except EOFError:
        return "it is cut off"
    except PermissionError:
        return "permission is denied"
    except (OSError, zlib.error):
        return None
    return next((reason for said, reason in _REASONS.items() if said in str(failure)), None)


def _is_framed(path: Path) -> bool:
    """Say whether a file begins and ends as a Parquet file does."""
    with path.open("rb") as file:
        head = file.read(len(_MAGIC))
        file.seek(-min(len(_MAGIC), path.stat().st_size), 2)
        return head == file.read() == _MAGIC


def _is_text(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        try:
            while block := file.read(_BLOCK):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True
