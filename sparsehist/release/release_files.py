"""Write releases to files atomically, list them in the public ledger, and check files that are read."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from sparsehist.declaration.checks import checked_output
from sparsehist.errors import DeclarationError, InputError, NotFoundError, raise_alone
from sparsehist.ledger.content_digest import content_digest
from sparsehist.release.home import Home
from sparsehist.release.metadata import CellMetadata, Metadata, read_metadata
from sparsehist.store import publish, write_published
from sparsehist.store.witnesses import LEDGER_NAME

PARQUET = (".parquet", ".pq")
ENDINGS = (*PARQUET, ".csv", ".json", ".arrow")
MOST_ROWS = 20_000_000
"""Largest number of rows that are read: a forged file of one megabyte can claim 10⁸ rows, which need gigabytes."""
_METADATA_KEY = "sparsehist"
_FORMAT = 1
_LISTED = ("store", "series", "level", "noise", "threshold", "generation", "round")
_FORMULA = "^[=+\\-@\t\r\n'\uff1d\uff0b\uff0d\uff20]"
"""Pattern of texts that a spreadsheet runs as formulas (also with full-width characters), or that look escaped."""
_ESCAPED = {chr(code): f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}
_ESCAPED["\\"] = "\\\\"
"""Dict from control characters, which terminals obey, to escapes. Doubled backslashes keep escapes unambiguous."""
_KEYS = (pl.String, pl.Binary, pl.Date, pl.Datetime, pl.Boolean, pl.Categorical, pl.Enum)


def check_target(
    what: str, target: Path, store: Path | None = None, endings: tuple[str, ...] = ENDINGS, *, free: bool = False
) -> None:
    """Raise an error if a release cannot be written to the file `target`, or if `free` is set and the file exists."""
    try:
        checked_output(what, target, endings)
        inside = store is not None and store.resolve() in target.resolve().parents
    except OSError as problem:
        raise_alone(DeclarationError(f"{str(target)!r} names no file: {os.strerror(problem.errno or 0)}"))
    if inside:
        raise DeclarationError(f"{what}: {str(target)!r} is inside the store, which is secret")
    if target.name == LEDGER_NAME:
        raise InputError(f"{target} is the name of the public ledger: name another file")
    if free and os.path.lexists(target):
        raise InputError(f"{target} exists and is not this release: name another file, or move the existing file")


def write_release(
    path: str | os.PathLike[str],
    frame: pl.DataFrame,
    metadata: Mapping[str, Any],
    home: Home | None,
    endings: tuple[str, ...],
    *,
    spreadsheet_safe: bool = True,
) -> None:
    """Write a release in the format given by the file name's ending, and list it in the directory's public ledger.

    Before the file is written, the store records the file's directory. Whenever the store is opened, the public
    ledgers in all recorded directories are read, and an outdated copy of the store is refused.
    """
    target = Path(path)
    check_target("the release", target, home.path if home else None, endings)
    content = _content(frame, metadata, target.suffix, spreadsheet_safe=spreadsheet_safe)
    check_target("the release", target, endings=endings, free=not _holds(target, metadata, content))
    if home is not None:
        entry = {name: metadata.get(name) for name in _LISTED}
        entry |= {"release": metadata["name"], "digest": content_digest(frame, metadata)}
        directory = target.resolve().parent
        with home.hold() as state:
            if directory not in state.publications:
                state.record_publication(directory)
        publish(directory, entry)
    write_published(target, content)


def _holds(target: Path, metadata: Mapping[str, Any], content: bytes) -> bool:
    """Return whether a file contains exactly `content`, or is a Parquet file with the random id of this release."""
    try:
        if target.stat().st_size == len(content) and target.read_bytes() == content:
            return True
        round_id = metadata.get("round")
        return round_id is not None and target.suffix in PARQUET and read_release(target)[1].get("round") == round_id
    except (InputError, OSError):
        return False


def _content(frame: pl.DataFrame, metadata: Mapping[str, Any], ending: str, *, spreadsheet_safe: bool) -> bytes:
    sink = io.BytesIO()
    stored = {_METADATA_KEY: json.dumps({"format": _FORMAT, **metadata}, ensure_ascii=False)}
    if ending in PARQUET:
        frame.write_parquet(sink, metadata=stored)
    elif ending == ".csv":
        if spreadsheet_safe:
            letters = str.maketrans(_ESCAPED)
            frame = frame.rename(lambda name: re.sub(f"({_FORMULA})", r"'\1", name.translate(letters)))
            texts = pl.col(pl.String).str.replace_many(_ESCAPED)
            frame = frame.with_columns(texts.str.replace(f"({_FORMULA})", "'$1"))
        frame.write_csv(sink, quote_style="non_numeric")
    elif ending == ".json":  # no escapes are needed here: `write_json` escapes control characters
        rows = frame.with_columns(pl.col(pl.Binary).bin.encode("hex")).write_json()
        return f'{{"metadata":{json.dumps(dict(metadata))},"rows":{rows}}}\n'.encode()
    else:
        import pyarrow as pa

        rows = frame.to_arrow(compat_level=pl.CompatLevel.oldest()).replace_schema_metadata(stored)
        with pa.ipc.new_file(sink, rows.schema) as file:
            file.write_table(rows)
    return sink.getvalue()


def read_release(path: str | os.PathLike[str]) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Read the rows and metadata of a Parquet file from an untrusted source; see `sparsehist.read`."""
    source = Path(path)
    if source.is_dir():
        raise InputError(f"{source} is a directory: name a file in it")
    if not source.is_file():
        raise NotFoundError(f"there is no file {source}")
    try:
        return _read(source)
    except InputError as error:
        wrong = str(error)
    except (pl.exceptions.PolarsError, OSError, KeyError, ValueError, TypeError, AttributeError, RuntimeError):
        wrong = f"it must be an undamaged file that sparsehist wrote, with the ending {' or '.join(PARQUET)}"
    raise InputError(f"{source} is not a release: {wrong}")


def _read(source: Path) -> tuple[pl.DataFrame, dict[str, Any]]:
    from pyarrow import parquet

    footer = parquet.read_metadata(source)
    rows = max(footer.num_rows, sum(footer.row_group(at).num_rows for at in range(footer.num_row_groups)))
    if rows > MOST_ROWS:
        raise InputError(
            f"the file has too many rows: if you trust it, use polars.scan_parquet; got {rows:,}, limit {MOST_ROWS:,}"
        )
    stored = json.loads(footer.metadata[_METADATA_KEY.encode()])
    if stored.pop("format", None) != _FORMAT:
        raise InputError("this version of sparsehist cannot read the format of the file: upgrade sparsehist")
    frame, metadata = pl.read_parquet(source, glob=False, hive_partitioning=False), read_metadata(stored)
    _check_rows(frame, metadata)
    return frame, metadata.as_dict()


def _check_rows(frame: pl.DataFrame, metadata: Metadata) -> None:
    """Raise an error if `frame` cannot be the rows of a release. Do not quote column names: they may be forged."""
    columns = dict(frame.schema)
    counts = [name for name in ("noisy_answer", "noisy_count") if name in columns]
    if not counts:
        raise InputError("it has no column noisy_count")
    for name in (*counts, *({"std"} & columns.keys())):
        if not columns[name].is_numeric():
            raise InputError(f"its column {name} does not contain numbers")
    if not frame[counts[0]].cast(pl.Float64).is_finite().all() or frame[counts[0]].null_count():
        raise InputError("the file has a count that is not a finite number")
    for key in metadata.declaration.key if isinstance(metadata, CellMetadata) else ():
        if key not in columns:
            raise InputError("a key column named in the metadata is missing")
        if not (columns[key] in _KEYS or columns[key].is_integer()):
            raise InputError("keys must be numbers, strings, dates or times")
