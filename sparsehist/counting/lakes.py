"""Remote logs: files in object stores and on web servers, and tables of Delta and Iceberg.

Polars reads them. obstore lists object stores, with the options that Polars takes, and returns the state of files;
for a web server, the headers of a request for one byte do. Credentials are passed to these only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import polars as pl

from sparsehist.counting.log import STORES, Log, bare, engine_errors
from sparsehist.errors import DeclarationError, NotFoundError, needing

_WEB = ("http", "https")
_TABLE = re.compile(r"(delta|iceberg):(?!//)(.+)", re.DOTALL)
_MAGIC = re.compile(r"[*?\[]")
_WEB_SECONDS = 30.0
# Options of the HTTP client: obstore takes them separately from those of the store.
_OF_CLIENT = ("allow_http", "allow_invalid_certificates", "connect_timeout", "proxy_url", "timeout", "user_agent")
_LAKES = "'sparsehist[lakes]'"


class Seen(NamedTuple):
    """A file, and a text that changes with it: its location, size, and etag or times, without credentials."""

    path: str
    state: str


def is_remote(path: object) -> bool:
    """Return whether a path is a URL that Polars reads."""
    return isinstance(path, str) and "://" in path and path.partition("://")[0].lower() in (*STORES, *_WEB)


def remote_files(url: str, options: Mapping[str, str], *, in_folders: bool) -> list[Seen]:
    """Return the files of a URL: the file itself, all that match a pattern, or all below it; refuse if none."""
    scheme, _, rest = url.partition("://")
    web, (place, _, path) = scheme.lower() in _WEB, rest.partition("/")
    user, at, _ = place.rpartition("@")
    if at and (web or ":" in user):
        raise DeclarationError(
            f"{bare(url)!r}: a user and a password in a URL are not sent: take a signed URL, or storage_options="
        )
    if web and _MAGIC.search(re.split(r"[?#]", url)[0]):
        raise DeclarationError(f"{bare(url)!r}: a web server lists no files: name each of them")
    if web:
        with engine_errors(f"file {bare(url)!r}", clients=True):
            return [_on_web(url)]
    root = f"{scheme}://{place}"
    one = not in_folders and not _MAGIC.search(path)
    with engine_errors(f"file {bare(url)!r}" if one else repr(bare(url)), clients=True):
        found = _in_store(root, path, options, one=one)
    if in_folders and not _MAGIC.search(path):
        path = f"{re.escape(path.rstrip('/'))}(?:/[^._/][^/]*)+"
    elif not one:
        path = _pattern(path)
    files = [
        Seen(
            f"{root}/{file['path']}", f"{root}/{file['path']} {file['size']} {file['e_tag'] or file['last_modified']}"
        )
        for file in found
        if one or re.fullmatch(path, file["path"], re.DOTALL)
    ]
    if not files:
        raise NotFoundError(f"there is no file {bare(url)!r}")
    return sorted(files)


def _pattern(path: str) -> str:
    """Return a pattern as a regular expression: `*` and `?` match within a name, `**` matches folders."""
    means = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    tokens = re.split(r"(\*\*/|\*|\?|\[!?[^]]+\])", path)
    return "".join(
        means.get(token) or (token.replace("[!", "[^") if token.startswith("[") else re.escape(token))
        for token in tokens
    )


def _in_store(root: str, path: str, options: Mapping[str, str], *, one: bool) -> list[Any]:
    """Return one file of an object store (without listing), or all files below the first folder of a pattern."""
    with needing("an object store", _LAKES):
        import obstore
        from obstore.store import from_url
    config = {name: value for name, value in options.items() if name.lower() not in _OF_CLIENT}
    client = {name.lower(): value for name, value in options.items() if name.lower() in _OF_CLIENT}
    store: Any = from_url(root, config=cast("Any", config), client_options=cast("Any", client))
    if one:
        return [obstore.head(store, path)]
    folder = _MAGIC.split(path)[0].rpartition("/")[0] if _MAGIC.search(path) else path.rstrip("/")
    return [file for batch in obstore.list(store, prefix=folder or None) for file in batch]


def _on_web(url: str) -> Seen:
    """Request one byte of a file: a URL that is signed for reading does not allow a HEAD request."""
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    asked = Request(url, headers={"Range": "bytes=0-0"})  # noqa: S310  http or https alone
    try:
        with urlopen(asked, timeout=_WEB_SECONDS) as answer:  # noqa: S310  http or https alone
            told = answer.headers
    except HTTPError as refused:
        refused.close()
        raise
    size = (told["Content-Range"] or "").rpartition("/")[2] or told["Content-Length"] or ""
    return Seen(url, f"{bare(url)} {size} {told['ETag'] or told['Last-Modified'] or ''}")


def is_table(source: object) -> bool:
    """Return whether a source is a table of Delta or Iceberg: an object, or a text such as `delta:path`."""
    if isinstance(source, str):
        return _TABLE.fullmatch(source) is not None and not Path(source).exists()
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(source).__mro__}
    return bool(kinds & {("deltalake", "DeltaTable"), ("pyiceberg", "Table")})


def open_table(source: Any, options: Mapping[str, str]) -> tuple[Log, tuple[str, ...]]:
    """Open the current version of a table; return also the version."""
    label = f"the table {bare(source)!r}" if isinstance(source, str) else "the table"
    storage = dict(options) or None
    with engine_errors(label, clients=True), needing("a table of Delta or Iceberg", _LAKES):
        table = _named(source, dict(options)) if isinstance(source, str) else source
        if hasattr(table, "metadata_location"):
            snapshot = table.metadata.current_snapshot_id
            state = ("iceberg", str(table.metadata.table_uuid), str(snapshot))
            rows = pl.scan_iceberg(table, snapshot_id=snapshot, storage_options=storage)
        else:
            state = ("delta", str(table.metadata().id), str(table.version()))
            rows = pl.scan_delta(table, storage_options=storage)
        return Log(rows, dict(rows.collect_schema()), label), state


def _named(source: str, options: dict[str, str]) -> Any:
    kind, _, path = source.partition(":")
    if kind == "delta":
        from deltalake import DeltaTable

        return DeltaTable(path, storage_options=options or None)
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(newest_metadata(path), options)


def newest_metadata(path: str) -> str:
    """Return the newest metadata of an Iceberg table in a local directory; any other path unchanged."""
    written = sorted((Path(path) / "metadata").glob("*.metadata.json"), key=lambda file: _number(file.name))
    return str(written[-1].absolute()) if written else path


def _number(name: str) -> int:
    """Return the version in a file name: 12 for `00012-….metadata.json` and `v12.metadata.json`."""
    found = re.match(r"v?(\d+)", name)
    return int(found[1]) if found else -1
