"""Fingerprints: keyed digests of the log and query of a series, so that changes are noticed.

Local files are compared by path, size and times; queries by their text and the files they read. Remote files and rows
that a program hands over (frames, relations, streams) cannot be compared. Digests are as secret as their key: with
both, guesses can be tested.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from pathlib import Path
from typing import Any

from sparsehist.counting.contract import ClosedQuery, Counts, Query
from sparsehist.counting.files import files_of, is_remote
from sparsehist.counting.sources import checked_query


def fingerprint(source: object, key: str | None = None) -> dict[str, str]:
    """Return digests of a source as it is now, with their key (random by default). Secret.

    The entry "query" is the digest of the text, parameters and public sources of a query; "source" that of the files,
    empty if they cannot be compared.
    """
    key = key or secrets.token_hex(16)
    source = source.frame if isinstance(source, Counts) else source
    query: list[Any] = []
    if isinstance(source, Query):
        source = checked_query(source, ())
        values = sorted((name, repr(value)) for name, value in (source.parameters or {}).items())
        query = [source.sql.strip().rstrip(";"), sorted(source.public), values]
    files = _files(source)
    return {"key": key, "query": _digest(key, query), "source": "" if files is None else _digest(key, files)}


def changes(before: dict[str, str], source: object) -> list[str]:
    """List the entries that differ from an earlier fingerprint; "rows" instead of "source" if that is unknown."""
    now = fingerprint(source, before["key"])
    differ = [part for part in ("query", "source") if now[part] != before[part]]
    return differ if now["source"] or before["source"] else [*differ, "rows"]


def _digest(key: str, state: list[Any]) -> str:
    data = json.dumps(state).encode()
    return hashlib.blake2b(data, key=bytes.fromhex(key), digest_size=16).hexdigest()


def _files(source: object) -> list[Any] | None:
    """Return the state of the local files of a source; None if it cannot be compared."""
    if isinstance(source, ClosedQuery):
        sources = [] if source.world is None or source.unverified else source.world.sources.values()
        states = [_files(list(one.files) or one.origin) for one in sources]
        return states if states and None not in states else None
    named = files_of(source)
    if named is None or any(map(is_remote, named[1])):
        return None
    files, paths = named
    stats = [(Path(path).absolute(), Path(path).stat()) for path in paths]
    entries = sorted((str(path), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for path, stat in stats)
    return [files.delimiter, list(files.hive), entries]
