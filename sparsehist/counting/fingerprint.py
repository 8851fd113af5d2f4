"""Fingerprints: keyed digests of the log and query of a series, so that changes are noticed.

Local files are compared by path, size and times; queries by their text and the files they read. Remote files and rows
that a program hands over (frames, relations, streams) cannot be compared. Digests are as secret as their key: with
both, guesses can be tested.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from sparsehist.counting.contract import ClosedQuery, Counts, Query
from sparsehist.counting.files import as_files, is_remote, paths_of
from sparsehist.counting.queries import checked


@dataclass(frozen=True, repr=False)
class Fingerprint:
    """The state of a log. Secret.

    Attributes:
        key: Key of the digests, hex; each series has its own.
        query: Digest of the query's text and parameters.
        files: Digest of the state of the files; empty for logs that cannot be compared.
    """

    key: str
    query: str
    files: str

    @classmethod
    def of(cls, source: object, key: str | None = None) -> Fingerprint:
        """Take the fingerprint of a source now; with a new key by default."""
        key = key or secrets.token_hex(16)
        source = source.frame if isinstance(source, Counts) else source
        if isinstance(source, Query) and not isinstance(source, ClosedQuery):
            source = checked(source, ())
        state = _state(source)
        return cls(key, _digest(key, _words(source)), "" if state is None else _digest(key, state))

    def changed(self, source: object) -> list[str]:
        """List what differs from this fingerprint: "query" or "source"; "rows" where rows cannot be compared."""
        now = Fingerprint.of(source, self.key)
        found = [] if now.query == self.query else ["query"]
        if not now.files and not self.files:
            return [*found, "rows"]
        return found if now.files == self.files else [*found, "source"]

    def as_text(self) -> str:
        """Return the fingerprint as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Fingerprint:
        """Read the result of `as_text`."""
        return cls(**json.loads(text))


def _digest(key: str, text: str) -> str:
    data = text.encode("utf-8", "surrogateescape")
    return hashlib.blake2b(data, key=bytes.fromhex(key), digest_size=16).hexdigest()


def _state(source: object) -> str | None:
    """Return the state of the local files of a source; None if it cannot be compared."""
    if isinstance(source, ClosedQuery):
        read = [] if source.world is None or source.unverified else list(source.world.sources.values())
        states = [_state(list(one.files) if one.files else one.origin) for one in read]
        return json.dumps(states) if states and all(states) else None
    files = as_files(source)
    paths = [] if files is None else paths_of(files)
    if files is None or any(map(is_remote, paths)):
        return None
    return json.dumps([files.delimiter, list(files.hive), sorted(map(_state_of_file, paths))])


def _state_of_file(path: str) -> str:
    file = Path(path).stat()
    return f"{Path(path).absolute()} {file.st_size} {file.st_mtime_ns} {file.st_ctime_ns}"


def _words(source: object) -> str:
    """Return the text, the parameters and the public sources of a query; empty for other sources."""
    if not isinstance(source, Query):
        return ""
    values = sorted((name, repr(value)) for name, value in (source.parameters or {}).items())
    return json.dumps([source.sql.strip().rstrip(";"), sorted(source.public), values])
