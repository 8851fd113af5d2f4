"""Logs in files: paths, patterns and URLs of Parquet, CSV or JSON lines, or one table of Delta or Iceberg.

All columns of CSV files and JSON lines, and columns in the names of folders, are read as text, so that an id is the
same in every file. Only an empty field of a CSV file is null: `NA` is text. For other null values, give the log as
`pl.scan_csv(…, null_values=…)` or as a `Query`.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from urllib.parse import unquote

import polars as pl

from sparsehist.counting.contract import Files
from sparsehist.counting.lakes import Seen, is_remote, is_table, open_table, remote_files
from sparsehist.counting.log import Log, bare, engine_errors, shown
from sparsehist.errors import DataError, DeclarationError, NotFoundError

_KINDS = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".csv.gz": "csv", ".tsv": "csv", ".tsv.gz": "csv",
    ".jsonl": "json", ".jsonl.gz": "json", ".ndjson": "json", ".ndjson.gz": "json",
}  # fmt: skip
_HIVE_HINT = "sh.Files(…, hive=['column']), or --hive column, reads it from there"
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def open_files(source: object, columns: Sequence[str] = ()) -> Log | None:
    """Open the files or the table that a source names; return None if it names none.

    Args:
        source: As for `create`.
        columns: The columns that will be read; all if empty.
    """
    told = as_files(source)
    table = table_of(source)
    if table is not None:
        return open_table(table, told.storage_options if told else {})[0]
    if told is None:
        return None
    files = [seen.path for seen in found_files(told)]
    kinds = {_kind(file) for file in files}
    if len(kinds) > 1:
        raise DeclarationError("the files of a log must all be Parquet, all be CSV or all be JSON lines")
    if told.delimiter is not None and kinds != {"csv"}:
        raise DeclarationError("delimiter= is for CSV files")
    inside = [name for name in columns if name not in told.hive]
    (kind,), scans, schemas = kinds, {}, {}
    for file in files:
        scans[file], schemas[file] = _scanned(file, kind, told, inside)
    dtypes = reduce(lambda known, file: _common(known, schemas[file], inside, file), files[1:], schemas[files[0]])
    wanted = [name for name in inside or dtypes if name in dtypes]
    rows = pl.concat(
        scans[file]
        .select(pl.col(name).cast(dtypes[name]) if kind == "parquet" else name for name in wanted)
        .with_columns(pl.lit(value, dtype=pl.String).alias(name) for name, value in _folders(file, told.hive))
        for file in files
    )
    label = f"file {shown(files[0])!r}" if len(files) == 1 else "the files"
    texts = frozenset(told.hive if kind == "parquet" else (*dtypes, *told.hive))
    return Log(rows, {**dtypes, **dict.fromkeys(told.hive, pl.String())}, label, scans, texts)


def as_files(source: object) -> Files | None:
    """Return the files of a source with reading options; None if the source is not files."""
    told = source if isinstance(source, Files) else Files(source)  # type: ignore[arg-type]
    paths = told.paths if isinstance(told.paths, (list, tuple)) else [told.paths]
    names_files = table_of(source) is None and all(isinstance(path, (str, Path)) for path in paths)
    return told if names_files or (isinstance(source, Files) and table_of(source) is not None) else None


def table_of(source: object) -> object | None:
    """Return the source if it is a table of Delta or Iceberg (object or text), else None."""
    told = source.paths if isinstance(source, Files) else source
    one = told[0] if isinstance(told, (list, tuple)) and len(told) == 1 else told
    return one if is_table(one) else None


def found_files(told: Files) -> list[Seen]:
    """Return all files of the paths and patterns, each with a text that changes with the file."""
    paths = told.paths if isinstance(told.paths, (list, tuple)) else [told.paths]
    return [seen for path in paths for seen in _found(str(path), told)]


def _found(path: str, told: Files) -> Iterator[Seen]:
    if is_remote(path):
        yield from remote_files(path, told.storage_options, in_folders=bool(told.hive))
        return
    for file in _matches(path, told):
        about = Path(file).stat()
        yield Seen(file, f"{Path(file).absolute()} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns}")


def _matches(path: str, told: Files) -> list[str]:
    """List the files that match a path; refuse unreadable directories, which a search would skip silently."""
    place, found, rights = Path(path), [path], os.X_OK
    folders = [Path(folder) for folder in glob.glob(str(place.parent), recursive=True)]
    if told.hive and place.is_dir():
        within, rights = list(place.rglob("*")), os.R_OK | os.X_OK
        folders += [place, *within]
        hidden = [any(part[0] in "._" for part in one.relative_to(place).parts) for one in within]
        found = sorted(str(one) for one, out in zip(within, hidden, strict=True) if not out and one.is_file())
    elif glob.has_magic(path) and not place.is_file():
        found, rights = sorted(glob.glob(path, recursive=True)), os.R_OK | os.X_OK
    for folder in folders:
        if os.path.isdir(folder) and not os.access(folder, rights):  # noqa: PTH112  Path's own may fail
            raise DataError(f"directory {shown(f'{folder}/')!r} cannot be read: permission is denied")
    if found and all(Path(file).is_file() for file in found):
        return found
    # A path that does not look like a file may be a row of the log, so it is not shown.
    several = not isinstance(told.paths, (str, Path)) and len(told.paths) > 1
    if several and not path.lower().endswith(tuple(_KINDS)):
        raise NotFoundError("one of the paths given names no file")
    raise NotFoundError(
        f"{bare(path)!r} names no regular file: give a file, a pattern such as 'log/*.parquet', or a URL of s3, gs, "
        f"az or https; for columns in the names of folders, {_HIVE_HINT}; in Python, SQL is sh.Query('select …')"
    )


def _kind(file: str) -> str:
    found = [kind for suffix, kind in _KINDS.items() if bare(file).lower().endswith(suffix)]
    if not found:
        raise DeclarationError(f"file {shown(file)!r} must end in one of {', '.join(_KINDS)}")
    return found[0]


def _scanned(
    file: str, kind: str, told: Files, columns: Sequence[str]
) -> tuple[pl.LazyFrame, dict[str, pl.DataType]]:
    """Scan a file; from a file of JSON lines, read only the requested columns."""
    storage = dict(told.storage_options) if is_remote(file) else None
    label = f"file {shown(file)!r}"
    if kind == "json":
        if not columns:
            raise DeclarationError("JSON lines do not declare columns: give a frame as the table")
        schema: dict[str, pl.DataType] = dict.fromkeys(columns, pl.String())
        return pl.scan_ndjson(file, schema=schema, storage_options=storage), schema
    with engine_errors(label):
        if kind == "parquet":  # the path is taken literally, and the columns are those in the file
            scan = pl.scan_parquet(file, glob=False, hive_partitioning=False, storage_options=storage)
            return scan, dict(scan.collect_schema())
        tabs = bare(file).lower().removesuffix(".gz").endswith(".tsv")
        scan = pl.scan_csv(
            file, infer_schema=False, separator=told.delimiter or ("\t" if tabs else ","), glob=False,
            storage_options=storage,
        )  # fmt: skip
        schema = {**scan.collect_schema()}
    if any("\r" in name for name in schema):  # an error would show rows as names of columns
        raise DataError(f"{label} ends its lines with carriage returns alone: write it with line feeds")
    for name in columns:
        if name in schema and f"{name}_duplicated_0" in schema:
            raise DeclarationError(f"{label} has more than one column {name!r}: rename one of them")
    # Read all fields: otherwise rows swallowed by a stray quote would not be noticed.
    kept = {name: schema[name] for name in columns or schema if name in schema}
    whole = scan.map_batches(
        lambda batch: batch.select(list(kept)), projection_pushdown=False, streamable=True, schema=pl.Schema(kept)
    )
    return whole, schema


def _common(
    known: dict[str, pl.DataType], other: dict[str, pl.DataType], columns: Sequence[str], file: str
) -> dict[str, pl.DataType]:
    """Return the dtypes of all files: whole numbers may differ in width, and text in type."""
    found = dict(known)
    for name in [name for name in columns or known if name in known]:
        if name not in other:
            raise DataError(f"file {shown(file)!r} has no column {name!r}, which earlier files have")
        both = known[name], other[name]
        if both[0] == both[1]:
            continue
        if all(dtype.is_integer() for dtype in both):
            found[name] = pl.Int64() if all(dtype.is_signed_integer() for dtype in both) else pl.Int128()
        elif all(dtype in (pl.String, pl.Categorical, pl.Enum) for dtype in both):
            found[name] = pl.String()
        else:
            raise DataError(
                f"column {name!r} is {both[0]} in one file and {both[1]} in {shown(file)!r}: one id would be two; "
                "write the column alike in all files"
            )
    return found


def _folders(file: str, names: Sequence[str]) -> list[tuple[str, str | None]]:
    """Return the values of columns in the names of a file's folders."""
    pairs = [part.partition("=") for part in Path(file).parts[:-1]]
    found = {name: None if value == _NO_VALUE else unquote(value) for name, equal, value in pairs if equal}
    for name in set(names) - set(found):
        raise DataError(f"file {shown(file)!r} is not in a folder {name}=…, as declared for this column")
    return [(name, found[name]) for name in names]
