"""Open a log that is stored in Parquet, CSV or JSON lines files, given as paths, patterns or URLs.

Patterns of local paths are expanded here, and patterns of URLs by Polars. Columns of CSV files, JSON lines and folder
names are read as strings, so that an id such as 007 is read as the same value from every file. In CSV files, only
empty fields are null, and `NA` is a string. For other null values, pass the log as `pl.scan_csv(…, null_values=…)`.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl

from sparsehist.counting.contract import Files
from sparsehist.counting.log import TEXTS, Log, engine_errors, shown
from sparsehist.errors import DataError, DeclarationError, NotFoundError

_KINDS = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".ndjson": "json",
}  # fmt: skip
_PATH = "sparsehist: path of the file"
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def open_files(source: object, columns: Sequence[str] = ()) -> Log | None:
    """Open the files of a source as one `Log`, with the given columns, or with all columns if none are given.

    Return None if the source does not name files but is, for example, a frame.
    """
    named = files_of(source)
    if named is None:
        return None
    files, paths = named
    kinds = {_KINDS[_suffix(path)] for path in paths}
    if len(kinds) > 1:
        raise DeclarationError("the files of a log must all be Parquet, all be CSV or all be JSON lines")
    kind = kinds.pop()
    if files.delimiter is not None and kind != "csv":
        raise DeclarationError("delimiter= is for CSV files")
    columns = [name for name in columns if name not in files.hive]
    dtypes: dict[str, pl.DataType] = dict.fromkeys(columns, pl.String())
    if kind != "json":
        with engine_errors(f"file {shown(paths[0])!r}"):
            dtypes = dict(_scan(paths[0], files, columns).collect_schema())
    elif not columns:
        raise DeclarationError("SQL needs column types, which JSON lines files do not declare: pass a frame instead")
    if len(paths) > 1:
        dtypes = {name: _widest(dtype) for name, dtype in dtypes.items()}
    needed = {name: dtypes[name] for name in columns or dtypes if name in dtypes and name not in files.hive}
    in_folders = [
        pl.col(_PATH).map_batches(partial(_of_folders, name), pl.String, is_elementwise=True).alias(name)
        for name in files.hive
    ]
    scans = {path: _scan(path, files, columns, needed).select(*needed, *in_folders) for path in paths}
    label = f"file {shown(paths[0])!r}" if len(paths) == 1 else "the files"
    texts = frozenset(files.hive if kind == "parquet" else (*dtypes, *files.hive))
    return Log(pl.concat(scans.values()), dtypes | dict.fromkeys(files.hive, pl.String()), label, scans, texts)


def files_of(source: object) -> tuple[Files, list[str]] | None:
    """Return a source as `Files`, with all its file paths and URLs. Return None if the source names no files."""
    files = source if isinstance(source, Files) else Files(source)  # type: ignore[arg-type]
    paths = files.paths if isinstance(files.paths, (list, tuple)) else [files.paths]
    if not paths or not all(isinstance(path, (str, Path)) for path in paths):
        return None
    return files, [file for path in paths for file in _matches(str(path), alone=len(paths) == 1)]


def is_remote(path: str) -> bool:
    """Return whether a path is a URL."""
    return "://" in path


def _matches(path: str, *, alone: bool) -> list[str]:
    """List the files that match a pattern. Refuse unreadable directories, which `glob` would skip silently."""
    if is_remote(path) or os.path.isfile(path):  # noqa: PTH113  pathlib may raise
        return [path]
    for folder in glob.glob(str(Path(path).parent), recursive=True):
        if os.path.isdir(folder) and not os.access(folder, os.R_OK | os.X_OK):  # noqa: PTH112  pathlib may raise
            raise DataError(f"directory {shown(f'{folder}/')!r} cannot be read: permission denied")
    files = sorted(filter(os.path.isfile, glob.glob(path, recursive=True)))
    if not files:
        # A string that does not look like a path may be data of the log, passed by mistake, so it is not shown.
        name = repr(shown(path)) if alone or Path(path).suffix in _KINDS else "one of the paths"
        raise NotFoundError(
            f"{name} matches no regular file: pass a path, a pattern such as 'log/*.parquet', or an s3, gs, az or "
            "https URL; for SQL in Python, use sh.Query('select …')"
        )
    return files


def _suffix(path: str) -> str:
    suffix = Path(shown(path).lower().removesuffix(".gz")).suffix
    if suffix not in _KINDS:
        raise DeclarationError(f"file names must end in {', '.join(_KINDS)}, optionally plus .gz: {shown(path)!r}")
    return suffix


def _scan(
    path: str, files: Files, columns: Sequence[str], dtypes: dict[str, pl.DataType] | None = None
) -> pl.LazyFrame:
    """Return a lazy frame of a file, or of all files that a URL matches.

    `dtypes` contains the columns to be read and their types. If `dtypes` is None, all columns are read.
    """
    suffix, source = _suffix(path), path if is_remote(path) else glob.escape(path)
    options: dict[str, Any] = {"storage_options": dict(files.storage_options) or None}
    if files.hive and dtypes is not None:
        options["include_file_paths"] = _PATH
    if _KINDS[suffix] == "json":
        return pl.scan_ndjson(source, schema=dtypes, **options)
    if _KINDS[suffix] == "parquet":
        casts = pl.ScanCastOptions(integer_cast="upcast", categorical_to_string="allow")
        return pl.scan_parquet(
            source, schema=dtypes, hive_partitioning=False, extra_columns="ignore", cast_options=casts, **options
        )
    with engine_errors(f"file {shown(path)!r}"):
        separator = files.delimiter or ("\t" if suffix == ".tsv" else ",")
        scan = pl.scan_csv(source, infer_schema=False, separator=separator, **options)
        names = scan.collect_schema().names()
    # If lines end with carriage returns alone, Polars takes the whole file for its header, that is, for column names.
    # Refuse the file here, because later errors show column names.
    if any("\r" in name for name in names):
        raise DataError(f"lines must end with line feeds; carriage returns alone are not enough: {shown(path)!r}")
    for name in columns:
        if f"{name}_duplicated_0" in names:
            raise DeclarationError(f"two columns have the same name; rename one: {name!r} in file {shown(path)!r}")
    if dtypes is None:
        return scan
    kept = [name for name in names if name in dtypes or name == _PATH]
    # Read all fields. Otherwise, a stray quote that joins rows into one field could remain undetected.
    return scan.map_batches(
        lambda batch: batch.select(kept),
        projection_pushdown=False,
        streamable=True,
        schema=pl.Schema(dict.fromkeys(kept, pl.String)),
    )


def _widest(dtype: pl.DataType) -> pl.DataType:
    """Return the dtype to use for a column in all files, given its dtype in the first file."""
    if dtype.is_integer() and dtype not in (pl.UInt64, pl.Int128, pl.UInt128):
        return pl.Int64()
    return pl.String() if dtype in TEXTS else dtype


def _of_folders(name: str, paths: pl.Series) -> pl.Series:
    """Return the value of a column for each path, from folder names such as `day=2024-01-31`."""
    distinct = paths.unique()
    return paths.replace_strict(distinct, [_of_folder(name, path) for path in distinct], return_dtype=pl.String)


def _of_folder(name: str, path: str) -> str | None:
    folder = re.search(rf"(?:^|/){re.escape(name)}=([^/]*)/", path)
    if folder is None:
        raise DataError(f"each path must have a folder for each hive= column; {name}=… is missing in {shown(path)!r}")
    return None if folder[1] == _NO_VALUE else unquote(folder[1])
