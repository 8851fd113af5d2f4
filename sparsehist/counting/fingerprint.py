"""What a series was made from, as keyed digests: so that a log or a query that has changed is noticed.

Files are compared by paths, sizes and times first, and only where these differ by content: of Parquet the footer and
the columns that are read; of all else, and of files that a query reads, every byte. Files elsewhere are compared by
URL (without what gives access to it), size and etag, or time where the store has no etag, and not read for it; tables
of Delta and Iceberg by their version first, and by rows where it differs. Rows (frames, relations, queries
of tables) are hashed one by one while they are counted, and added up, so that their order does not matter. Digests
are secret like the key they are made with: whoever had both could test guesses of the log.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from sparsehist.counting.contract import ClosedQuery, Counts, Files, Query
from sparsehist.counting.lakes import bare, is_remote, open_table, seen
from sparsehist.counting.sources import (
    SPARK_LABEL,
    Log,
    as_closed,
    engine_errors,
    open_log,
    source_files,
    source_table,
)
from sparsehist.counting.spark_sources import hashed_rows
from sparsehist.errors import DataError

_BLOCK = 1 << 22
_ROWS_AT_ONCE = 1 << 22
# A text in quotes is compared as it stands; comments and the width of blanks say nothing, nor does the case of words.
_SQL = re.compile(
    r"(?P<text>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)"
    r"|(?P<blank>\s+|--[^\n]*|/\*.*?\*/)|(?P<word>\w+|.)",
    re.DOTALL,
)


@dataclass(frozen=True, repr=False)
class Fingerprint:
    """What a log was when it was counted. Secret.

    Attributes:
        key: Of the digests, hex; each fingerprint of a store has one of its own.
        query: Digest of the text of the query and its parameters.
        places: Digest of the paths, sizes and times of the files, or of the version of a table; empty for rows.
        content: Digest of the content.
        hashed_by: Version of Polars whose hashes of rows went into the content; empty for files.
    """

    key: str
    query: str
    places: str
    content: str
    hashed_by: str = ""

    def as_text(self) -> str:
        """As it is stored."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Fingerprint:
        """Undo `as_text`."""
        return cls(**json.loads(text))


class Trace:
    """Takes the fingerprint of the columns of a source that are read, while it is counted; a new key if None."""

    def __init__(self, source: object, columns: Sequence[str], key: str | None = None) -> None:
        if isinstance(source, Query) and not isinstance(source, ClosedQuery):
            source = as_closed(source)
        self._columns = tuple(columns)
        self._key = key or secrets.token_hex(16)
        self._source = source.frame if isinstance(source, Counts) else source
        self._query = self._digest(_normal(source)) if isinstance(source, Query) else self._digest("")
        self._files = _files(self._source)
        told = self._source if isinstance(self._source, Files) else Files("")
        self._read_by = [told.delimiter, list(told.hive)]
        self._storage, self._table = told.storage_options, source_table(self._source)
        self._places = self._look()
        self._rows = _Rows(self._key)

    def watch(self, log: Log) -> Log:
        """The log, its rows noted as they are read; each has to be read once."""
        if self._files is not None:
            return log
        columns = list(self._columns)
        if log.kind == "frame":
            self._rows.note(log.content.select(columns))
            return log
        if log.kind == "spark":
            self._rows.look(log.content, columns)
            return log
        if log.kind == "stream":
            return replace(log, content=_NotedRelation(log.content, columns, self._rows.note))
        noted = log.lazy(columns).map_batches(self._rows.note, streamable=True)
        return replace(log, kind="lazy", files=(), content=noted)

    def finish(self) -> Fingerprint:
        """The fingerprint, once the log was read; refused if its files were changed meanwhile."""
        if self._files is None:
            content, hashed_by = self._rows.summary(), pl.__version__
        else:
            content, hashed_by = self._content(), ""
        if self._look() != self._places:
            raise DataError("files of the log changed while it was counted: count it again once they are whole")
        return Fingerprint(self._key, self._query, self._places, self._digest(content), hashed_by)

    def changed(self, known: Fingerprint) -> list[str]:
        """What is not as it was, "query" or "source"; reads as little as will do."""
        changed = [] if self._query == known.query else ["query"]
        if self._places and self._places == known.places:
            return changed
        if self._files is None:
            self._read_rows()
        found = self.finish()
        same = (found.content, found.hashed_by) == (known.content, known.hashed_by)
        return changed if same else [*changed, "source"]

    def _read_rows(self) -> None:
        log = self.watch(open_log(self._source, self._columns))
        if log.kind in ("frame", "spark"):
            return
        with engine_errors(log.label, log):
            if log.kind == "stream":
                for _ in log.content.to_arrow_reader():
                    pass
            else:
                for _ in log.lazy(self._columns).collect_batches():
                    pass

    def _look(self) -> str:
        """Digest of what the system says of the files, or of the version of a table; empty for rows."""
        if self._table is not None:
            return self._digest(json.dumps(open_table(self._table, self._storage).state))
        if self._files is None:
            return ""
        found: list[object] = [self._read_by, *self._elsewhere()]
        for file in sorted(file for file in self._files if not is_remote(file)):
            about = Path(file).stat()
            found.append([str(Path(file).absolute()), about.st_size, about.st_mtime_ns, about.st_ctime_ns])
        return self._digest(json.dumps(found))

    def _elsewhere(self) -> list[list[object]]:
        """What their stores say of files elsewhere; what gives access to them is no part of it."""
        files = [file for file in self._files or () if is_remote(file)]
        return sorted([bare(one.url), one.size, one.version] for one in seen(files, self._storage))

    def _content(self) -> str:
        columns = None if isinstance(self._source, Query) else self._columns
        near = [file for file in self._files or () if not is_remote(file)]
        folders = [re.findall(r"[^/]+=[^/]+(?=/)", file) for file in near]
        found = [[*parts, _file_digest(file, columns)] for parts, file in zip(folders, near, strict=True)]
        return json.dumps([self._read_by, sorted(found), *self._elsewhere()])

    def _digest(self, text: str) -> str:
        data = text.encode("utf-8", "surrogateescape")
        return hashlib.blake2b(data, key=bytes.fromhex(self._key), digest_size=16).hexdigest()


class _Rows:
    """The number of rows and the sum of their hashes: the same in any order. Secret."""

    def __init__(self, key: str) -> None:
        self._seed = int(key[:16], 16)
        self._lock = threading.Lock()  # an engine may read in several threads
        self._count = self._sum = 0
        self._schema = ""

    def note(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Add rows; gives them back."""
        texts = [column.cast(pl.String) if column.dtype in (pl.Categorical, pl.Enum) else column for column in rows]
        for part in pl.DataFrame([text.alias(str(place)) for place, text in enumerate(texts)]).iter_slices(
            _ROWS_AT_ONCE
        ):
            total = int(part.hash_rows(self._seed).to_numpy().sum()) if part.height else 0
            with self._lock:
                self._count += part.height
                self._sum = (self._sum + total) % 2**64
        self._schema = str([str(text.dtype) for text in texts])
        return rows

    def look(self, frame: Any, columns: Sequence[str]) -> None:
        """Let Spark add up the hashes of the rows of its frame."""
        with engine_errors(SPARK_LABEL):
            self._schema, self._count, self._sum = hashed_rows(frame, columns, self._seed)

    def summary(self) -> str:
        return json.dumps([self._schema, self._count, self._sum])


class _NotedRelation:
    """A relation whose rows are noted as they are read."""

    def __init__(self, relation: Any, columns: Sequence[str], note: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        self._relation, self._columns, self._note = relation, columns, note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._relation, name)

    def pl(self) -> pl.DataFrame:
        frame: pl.DataFrame = self._relation.pl()
        self._note(frame.select(self._columns))
        return frame

    def to_arrow_reader(self) -> Any:
        import pyarrow as pa

        reader = self._relation.to_arrow_reader(1 << 20)

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in reader:
                self._note(pl.DataFrame(batch).select(self._columns))
                yield batch

        return pa.RecordBatchReader.from_batches(reader.schema, batches())


def _normal(query: Query) -> str:
    """The words of a query, the values of its parameters, and what was called public of what it reads."""
    found = [one for one in _SQL.finditer(query.sql) if one["blank"] is None]
    words = [one["text"] or one["word"].casefold() for one in found]
    while words and words[-1] == ";":
        words.pop()
    return json.dumps(
        [
            words,
            sorted(query.public),
            sorted((name, repr(value)) for name, value in (query.parameters or {}).items()),
        ]
    )


def _files(source: object) -> list[str] | None:
    """The files of a source; None where its rows have to be looked at."""
    if isinstance(source, ClosedQuery) and source.world is not None and not source.unverified:
        every = source.world.sources.values()
        return source.world.files() if every and all(one.files for one in every) else None
    return source_files(source)


def _file_digest(file: str, columns: Sequence[str] | None) -> str:
    """Digest of what is read of a file."""
    digest = hashlib.sha256()
    with Path(file).open("rb") as content:
        for start, size in _parts(file, columns):
            content.seek(start)
            while size:
                block = content.read(min(size, _BLOCK))
                if not block:
                    break
                digest.update(block)
                size -= len(block)  # noqa: PLW2901  what is left of this part
    return digest.hexdigest()


def _parts(file: str, columns: Sequence[str] | None) -> list[tuple[int, int]]:
    """Start and size of the parts of a file that count: of Parquet its footer and some columns, else all of it."""
    size = Path(file).stat().st_size
    if columns is None or not file.lower().endswith((".parquet", ".pq")):
        return [(0, size)]
    import pyarrow as pa
    from pyarrow import parquet

    try:
        about = parquet.read_metadata(file)
    except (pa.ArrowException, OSError):
        return [(0, size)]
    chunks = [about.row_group(i).column(j) for i in range(about.num_row_groups) for j in range(about.num_columns)]
    found = [
        (chunk.dictionary_page_offset or chunk.data_page_offset, chunk.total_compressed_size)
        for chunk in chunks
        if chunk.path_in_schema.split(".")[0] in columns
    ]
    return [*found, (max(0, size - about.serialized_size - 8), size)]
