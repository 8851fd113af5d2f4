"""Fingerprints: keyed digests of the log and the query of a series, which show whether they changed.

Local files are compared by path, size and times. A query is compared by its text, its parameters, the names of its
public sources, and the files that it reads. Remote files and rows in memory (frames, relations, streams) cannot be
compared. Keep digests and their key secret: anyone who has both can test guesses about the log.
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
    """Return digests of the current state of a source, and their key (random by default). All are secret.

    The entry "query" is the digest of the text, parameters and public sources of a query. The entry "source" is the
    digest of the files, or empty if the source cannot be compared.
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
    """List what has changed since an earlier fingerprint.

    The list contains "query" or "source" if this entry of the fingerprint has changed. It contains "rows" if the
    rows may have changed, because neither the earlier nor the present source can be compared.
    """
    now = fingerprint(source, before["key"])
    differ = [part for part in ("query", "source") if now[part] != before[part]]
    return differ if now["source"] or before["source"] else [*differ, "rows"]


def _digest(key: str, state: list[Any]) -> str:
    data = json.dumps(state).encode()
    return hashlib.blake2b(data, key=bytes.fromhex(key), digest_size=16).hexdigest()


def _files(source: object) -> list[Any] | None:
    """Return path, size and times of each local file of a source, or None if the source cannot be compared."""
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
