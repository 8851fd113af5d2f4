"""Logs that lie elsewhere: files in object stores and on web servers, and tables of Delta and Iceberg.

Polars reads them. What there is under a pattern, and what state it is in, obstore tells of an object store, for the
options that Polars takes too, and a web server tells with the first byte of a file. Whatever gives access to a log
(a key, a token, a signature) is handed on to these and goes nowhere else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import polars as pl

from sparsehist.errors import DataError, DeclarationError, NotFoundError, needing, raise_alone

_STORES = ("s3", "s3a", "gs", "gcs", "az", "azure", "adl", "abfs", "abfss")
_WEB = ("http", "https")
_TABLE = re.compile(r"(delta|iceberg):(?!//)(.+)", re.DOTALL)
_MAGIC = re.compile(r"[*?\[]")
_FEW = 16
"""Files whose state is asked one by one: fewer requests than a listing of what stands beside them may take."""
_PATIENCE = 30.0
"""Seconds for a web server to tell what state a file is in."""
# Of the HTTP client, not of the store: obstore takes them apart from the rest.
_OF_CLIENT = ("allow_http", "allow_invalid_certificates", "connect_timeout", "proxy_url", "timeout", "user_agent")
_LAKES = "'sparsehist[lakes]'"
_CHECK = "check that it exists and may be read"
CREDENTIALS = "credentials are taken from the environment or from sh.Files(…, storage_options={…})"


@dataclass(frozen=True)
class Seen:
    """A file as its store describes it: its size, 0 where nobody tells, and its etag or when it was written."""

    url: str = field(repr=False)
    size: int
    version: str


def is_remote(path: object) -> bool:
    """Whether a path is a URL that Polars reads."""
    return isinstance(path, str) and "://" in path and path.partition("://")[0].lower() in (*_STORES, *_WEB)


def _is_on_web(url: str) -> bool:
    return url.partition("://")[0].lower() in _WEB


def bare(url: str) -> str:
    """A URL without what may give access to it.

    Example:
        >>> bare("https://me:word@host/log.parquet?signature=5"), bare("s3://lake/a?.parquet")
        ('https://host/log.parquet', 's3://lake/a?.parquet')
    """
    scheme, divided, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    web = _is_on_web(url)
    if web or ":" in place.rpartition("@")[0]:
        place = place.rpartition("@")[2]
    if web:
        place, path = re.split(r"[?#]", place)[0], re.split(r"[?#]", path)[0]
    return f"{scheme}{divided}{place}{slash}{path}"


def listed(url: str, options: Mapping[str, str], *, in_folders: bool) -> list[str]:
    """The files that a URL means: itself, those a pattern matches, or all below it; refuses to find none."""
    user, at, _ = url.split("/")[2].rpartition("@")
    if at and (_is_on_web(url) or ":" in user):
        raise DeclarationError(
            f"{bare(url)!r}: a user and a password in a URL are not sent: take a signed URL, or storage_options="
        )
    if _is_on_web(url):
        if _MAGIC.search(re.split(r"[?#]", url)[0]):
            raise DeclarationError(f"{bare(url)!r}: a web server lists no files: name each of them")
        return [url]
    if not in_folders and not _MAGIC.search(url):
        return [url]
    root, path = _parted(url)
    if in_folders and not _MAGIC.search(path):
        wanted = re.compile(re.escape(path.rstrip("/")) + r"(?:/[^._/][^/]*)+", re.DOTALL)
    else:
        wanted = _pattern(path)
    fixed = _MAGIC.split(path)[0]
    found = sorted(one.url for one in _in_store(root, fixed, options) if wanted.fullmatch(_parted(one.url)[1]))
    if not found:
        raise NotFoundError(f"there is no file {bare(url)!r}")
    return found


def seen(files: Sequence[str], options: Mapping[str, str]) -> list[Seen]:
    """What state files are in, in their order; all have to be there."""
    told = {file: _on_web(file) for file in files if _is_on_web(file)}
    by_root: dict[str, list[str]] = {}
    for file in files:
        if file not in told:
            by_root.setdefault(_parted(file)[0], []).append(file)
    for root, own in by_root.items():
        paths = [_parted(file)[1] for file in own]
        begins = os.path.commonprefix(paths)  # noqa: RUF071  letters, not folders
        there = {one.url: one for one in _in_store(root, begins, options, paths)}
        told |= {file: there[file] for file in own if file in there}
    gone = [file for file in files if file not in told]
    if gone:
        raise DataError(f"file {bare(gone[0])!r} cannot be read: it is not there")
    return [told[file] for file in files]


def _parted(url: str) -> tuple[str, str]:
    """The root of an object store, and a path in it."""
    scheme, _, rest = url.partition("://")
    bucket, _, path = rest.partition("/")
    return f"{scheme}://{bucket}", path


def _pattern(path: str) -> re.Pattern[str]:
    """What a pattern matches: `*` and `?` within a name, `**` any folders."""
    tokens = re.split(r"(\*\*/|\*|\?|\[!?[^]]+\])", path)
    means = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    return re.compile(
        "".join(
            means.get(token) or (token.replace("[!", "[^") if token.startswith("[") else re.escape(token))
            for token in tokens
        ),
        re.DOTALL,
    )


def _in_store(root: str, prefix: str, options: Mapping[str, str], paths: Sequence[str] = ()) -> list[Seen]:
    """The files of an object store whose paths begin so; of a few paths these alone, which needs no right to list."""
    with needing("an object store", _LAKES):
        import obstore
        from obstore.store import from_url
    config = {name: value for name, value in options.items() if name.lower() not in _OF_CLIENT}
    client = {name.lower(): value for name, value in options.items() if name.lower() in _OF_CLIENT}
    folder, _, begins = prefix.rpartition("/")
    try:
        store: Any = from_url(root, config=cast("Any", config), client_options=cast("Any", client))
        told = (
            [one for path in paths for one in _head(store, path)]
            if 0 < len(paths) <= _FEW
            else [one for batch in obstore.list(store, prefix=folder or None) for one in batch]
        )
        found = [
            Seen(f"{root}/{one['path']}", int(one["size"]), one["e_tag"] or one["last_modified"].isoformat())
            for one in told
            if one["path"].startswith(f"{folder}/{begins}" if folder else begins)
        ]
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as problem:  # noqa: BLE001  its panics are no Exception, and its words may hold credentials
        kind = type(problem).__name__
        raise_alone(DataError(f"{bare(root)!r} cannot be listed or read ({kind}): {_CHECK}; {CREDENTIALS}"))
    return found


def _head(store: Any, path: str) -> list[Any]:
    """What a store says of a file; nothing where it is not there."""
    import obstore

    try:
        return [obstore.head(store, path)]
    except FileNotFoundError:
        return []


def _on_web(url: str) -> Seen:
    """Ask for one byte of a file: a URL signed for reading is not signed for asking about it."""
    import urllib.request  # a fifteenth of what it takes to import all of this package
    from http.client import HTTPException

    try:
        asked = urllib.request.Request(url, headers={"Range": "bytes=0-0"})  # noqa: S310  http or https alone
        with urllib.request.urlopen(asked, timeout=_PATIENCE) as answer:  # noqa: S310  http or https alone
            told = answer.headers
            size = (told["Content-Range"] or "").rpartition("/")[2] or told["Content-Length"] or ""
    except (OSError, ValueError, HTTPException) as problem:
        raise_alone(DataError(f"file {bare(url)!r} cannot be read ({type(problem).__name__}): {_CHECK}"))
    return Seen(url, int(size) if size.isdigit() else 0, told["ETag"] or told["Last-Modified"] or "")


@dataclass(frozen=True)
class LakeTable:
    """A version of a table of Delta or Iceberg; `state` tells which, and errors call it `label`."""

    rows: pl.LazyFrame = field(repr=False)
    state: tuple[str, ...]
    label: str


def is_table(source: object) -> bool:
    """Whether a source is a table of Delta or Iceberg: one of their objects, or a text such as `delta:path`."""
    return _is_named(source) or any(
        (kind.__module__.partition(".")[0], kind.__name__) in (("deltalake", "DeltaTable"), ("pyiceberg", "Table"))
        for kind in type(source).__mro__
    )


def _is_named(source: object) -> bool:
    return isinstance(source, str) and _TABLE.fullmatch(source) is not None and not Path(source).exists()


def open_table(source: Any, options: Mapping[str, str]) -> LakeTable:
    """Open a table as it is now."""
    label = f"the table {bare(source)!r}" if isinstance(source, str) else "the table"
    storage = dict(options) or None
    try:
        with needing("a table of Delta or Iceberg", _LAKES):
            table = _named(source, dict(options)) if isinstance(source, str) else source
            if hasattr(table, "metadata_location"):
                snapshot = table.metadata.current_snapshot_id
                state = ("iceberg", str(table.metadata.table_uuid), str(snapshot))
                rows = pl.scan_iceberg(table, snapshot_id=snapshot, storage_options=storage)
            else:
                state = ("delta", str(table.metadata().id), str(table.version()))
                rows = pl.scan_delta(table, storage_options=storage)
    except (KeyboardInterrupt, SystemExit, NotFoundError):
        raise
    except BaseException as problem:  # noqa: BLE001  panics are no Exception, and words may hold credentials
        raise_alone(DataError(f"{label} cannot be opened ({type(problem).__name__}): {_CHECK}; {CREDENTIALS}"))
    return LakeTable(rows, state, label)


def _named(source: str, options: dict[str, str]) -> Any:
    kind, path = _TABLE.fullmatch(source).groups()  # type: ignore[union-attr]
    if kind == "delta":
        from deltalake import DeltaTable

        return DeltaTable(path, storage_options=options or None)
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(_newest(path), options)


def _newest(path: str) -> str:
    """The newest metadata of an Iceberg table in a directory of this machine; any other path as it is."""
    written = sorted((Path(path) / "metadata").glob("*.metadata.json"), key=lambda file: _number(file.name))
    return str(written[-1].absolute()) if written else path


def _number(name: str) -> int:
    """`00012-….metadata.json` and `v12.metadata.json` are the twelfth."""
    found = re.match(r"v?(\d+)", name)
    return int(found[1]) if found else -1
