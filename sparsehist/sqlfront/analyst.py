"""A session for readers of releases: a DuckDB in memory that holds copies of what was published, and nothing else.

It never opens the store. Releases and the public ledger are copied in, then files, network, extensions and Python
variables are shut off and the configuration is locked. What a statement may do is on lists: kinds of statements,
tables, table functions; what a later DuckDB adds is refused until somebody has looked at it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import duckdb
import polars as pl
import pyarrow as pa

from sparsehist.errors import (
    InputError,
    NotAllowedError,
    NotFoundError,
    SignatureError,
    StatementError,
    StoreError,
    raise_alone,
)
from sparsehist.guarantee.plan import Node, entries, nodes
from sparsehist.ledger.signatures import content_digest, public_keys, verify_chain
from sparsehist.series.release import Release, check_signature, read_signed
from sparsehist.sqlfront import release_tables
from sparsehist.store import LEDGER_NAME, is_store, read_json
from sparsehist.store.statements import statement

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from sparsehist.ledger.signatures import PublicKeys


_TABLE_FUNCTIONS = frozenset(
    """
    range generate_series unnest repeat json_each json_tree histogram histogram_values
    duckdb_columns duckdb_functions duckdb_keywords duckdb_schemas duckdb_tables duckdb_types
    duckdb_views pragma_table_info pragma_version
    """.split()
)
_CATALOGUE = frozenset(
    """
    duckdb_columns duckdb_tables duckdb_views duckdb_types duckdb_functions sqlite_master
    information_schema.tables information_schema.columns information_schema.schemata
    """.split()
)
# They act, wait, or tell of the machine rather than of the releases.
_FUNCTIONS = frozenset(
    """
    write_log sleep_ms nextval currval setval getenv current_setting current_query getvariable stats vector_type
    json_execute_serialized_sql index_key parse_duckdb_log_message pg_sleep
    """.split()
)
_SHOWN = ('"tables"', "__show_tables_expanded")
_QUERIES = frozenset(("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"))
_EXPLAIN = re.compile(r"\s*explain\s+(analyze\s+)?", re.IGNORECASE)
_NAME = r'(?:[a-z_][a-z0-9_]*|"(?:[^"]|"")+")'
_OWN = re.compile(
    rf"\s*create\s+(?:or\s+replace\s+)?temp(?:orary)?\s+(?:table|view)\s+(?:if\s+not\s+exists\s+)?({_NAME})\s+as\b",
    re.IGNORECASE,
)
_CURATORS = re.compile(
    r"\s*(release|plan|create\s+series|drop\s+series|show\s+(?:series|releases|ledger))\b", re.IGNORECASE
)
_MAY = "readers may run SELECT, DESCRIBE, SUMMARIZE, SHOW, EXPLAIN and CREATE TEMP TABLE or VIEW … AS SELECT"


@dataclass(frozen=True)
class Allowed:
    """A statement that may be run; `makes` is the table or view of the reader's own that it makes."""

    text: str
    makes: str | None = None


def allow(text: str, tables: Callable[[tuple[str, ...]], bool], connection: duckdb.DuckDBPyConnection) -> Allowed:
    """Check one statement; `tables` tells whether a name, in parts and in lower case, is one of the session's.

    Raises:
        NotAllowedError: If it is none that a reader may run.
        StatementError: If it cannot be read.
    """
    one = _single(text, connection)
    try:
        kind = one.type.name
    except ValueError:  # a kind that DuckDB's Python names do not list
        raise_alone(NotAllowedError(f"this kind of statement is not allowed here; {_MAY}"))
    if kind == "EXPLAIN":
        head = _EXPLAIN.match(one.query)
        if head is None:
            raise NotAllowedError("EXPLAIN is for one query, as in EXPLAIN SELECT …, without options")
        _check(one.query[head.end() :], tables, connection)
        return Allowed(one.query)
    if kind == "CREATE":
        own = _OWN.match(one.query)
        if own is None:
            raise NotAllowedError(f"CREATE is not allowed but for CREATE TEMP TABLE or VIEW name AS SELECT …; {_MAY}")
        name = own[1].removeprefix('"').removesuffix('"').replace('""', '"').casefold()
        if tables((name,)) and name == "ledger":
            raise NotAllowedError("ledger is the public ledger; take another name")
        _check(one.query[own.end() :], tables, connection)
        return Allowed(one.query, name)
    if kind != "SELECT":
        raise NotAllowedError(f"{kind.replace('_', ' ')} is not allowed here; {_MAY}")
    _check(one.query, tables, connection)
    return Allowed(one.query)


def _single(text: str, connection: duckdb.DuckDBPyConnection) -> duckdb.Statement:
    try:
        found = connection.extract_statements(text)
    except duckdb.Error as problem:
        ours = _CURATORS.match(text)
        if ours is not None:
            raise_alone(NotAllowedError(f"{' '.join(ours[0].upper().split())} is for a session with a store; {_MAY}"))
        raise_alone(StatementError(f"this cannot be read: {first_line(problem)}"))
    if len(found) != 1:
        raise NotAllowedError(f"one statement at a time; this has {len(found)}")
    return found[0]


def _check(query: str, tables: Callable[[tuple[str, ...]], bool], connection: duckdb.DuckDBPyConnection) -> None:
    """Check a query by the tree DuckDB makes of it."""
    found = connection.execute(statement("guarantee_tree"), {"query": query}).fetchall()
    tree: Node = json.loads(found[0][0])
    if tree["error"] or len(tree["statements"]) != 1:
        raise NotAllowedError(
            f"only a plain query can be checked: {tree.get('error_message', 'this is none')}; {_MAY}"
        )
    named = {str(entry["key"]).casefold() for part in nodes(tree) for entry in entries(part)}
    for part in nodes(tree):
        _check_part(part, named, tables)


def _check_part(part: Node, named: set[str], tables: Callable[[tuple[str, ...]], bool]) -> None:
    for key in ("node", "query_node", "query"):
        inner = part.get(key)
        if isinstance(inner, dict) and inner.get("type") not in _QUERIES:
            raise NotAllowedError(f"{str(inner.get('type')).lower().replace('_', ' ')} is not allowed; {_MAY}")
    if part.get("type") == "TABLE_FUNCTION":
        name = str(part["function"]["function_name"]).casefold()
        if name not in _TABLE_FUNCTIONS:
            raise NotAllowedError(f"{name} is not open to readers: it could read files, run texts or change settings")
    elif part.get("class") in ("FUNCTION", "WINDOW"):
        name = str(part["function_name"]).casefold()
        if name in _FUNCTIONS:
            raise NotAllowedError(f"{name} is not open to readers: it acts, or tells of the machine")
    elif part.get("table_name") and not (part.get("type") == "SHOW_REF" and part["table_name"] in _SHOWN):
        path = part.get("qualified_name", {}).get("path") or [part["table_name"]]
        names = tuple(str(name).casefold() for name in path)
        known = tables(names) or ".".join(names) in _CATALOGUE or (len(names) == 1 and names[0] in named)
        if not known:
            raise NotAllowedError(f"there is no table {'.'.join(path)} among the releases; SHOW TABLES lists them")


def first_line(problem: Exception) -> str:
    """What DuckDB says, without the lines that follow."""
    return str(problem).split("\n", maxsplit=1)[0]


_ROWS_AT_ONCE = 2048  # of DuckDB's vectors: at most one is made beyond the limit
_SHOW_TABLES = re.compile(r"\s*show\s+tables\s*;?\s*", re.IGNORECASE)
_LEDGER: dict[str, pl.DataType | type[pl.DataType]] = {
    "store": pl.String,
    "series": pl.String,
    "release": pl.String,
    "level": pl.String,
    "noise": pl.String,
    "threshold": pl.Float64,
    "generation": pl.Int64,
    "round": pl.String,
    "digest": pl.String,
}


class AnalystSession:
    """Queries over published releases: tables `series.release` and the table `ledger`. A context manager.

    Example:
        >>> rows = pl.DataFrame({"url": ["/a"], "noisy_count": [12.5]})
        >>> release = Release(rows, {"series": "visits", "name": "public"})
        >>> with AnalystSession([release], pl.DataFrame(schema=_LEDGER)) as session:
        ...     session.sql("select url from visits.public").to_series().to_list()
        ['/a']
    """

    def __init__(
        self,
        releases: Iterable[Release],
        ledger: pl.DataFrame,
        *,
        memory_limit: str | None = None,
        threads: int | None = None,
    ) -> None:
        """Copy releases and ledger into a DuckDB of their own, and shut it in."""
        limits: dict[str, Any] = {"memory_limit": memory_limit, "threads": threads}
        given: dict[str, str | bool | int | float | list[str]] = {}
        given.update({setting: str(value) for setting, value in limits.items() if value is not None})
        self._own: set[str] = set()
        self._published: dict[tuple[str, ...], int] = {}
        try:
            self._connection = duckdb.connect(":memory:", config=given)
        except duckdb.Error as problem:
            raise_alone(InputError(f"memory_limit or threads cannot be used: {first_line(problem)}"))
        try:
            for release in releases:
                self._copy(release)
            self._connection.register("ledger_arriving", ledger)
            self._connection.execute(statement("analyst_create_ledger"))
            self._connection.unregister("ledger_arriving")
            self._published["ledger",] = ledger.height
            self._limit = str(self._connection.execute(statement("analyst_memory_limit")).fetchall()[0][0])
            self._connection.execute(statement("analyst_lock"))
        except BaseException:
            self._connection.close()
            raise

    def sql(self, text: str) -> pl.DataFrame:
        """Run one statement.

        Args:
            text: A query (SELECT, DESCRIBE, SUMMARIZE, SHOW, EXPLAIN), or CREATE TEMP TABLE or VIEW … AS SELECT.

        Returns:
            Its result.

        Raises:
            NotAllowedError: If a reader may not run it.
            StatementError: If it is wrong, or its result needs more than the memory limit.
        """
        if _SHOW_TABLES.fullmatch(text):  # DuckDB's own names what is in its schema alone
            return self.tables()
        allowed = allow(text, self._has, self._connection)
        try:
            result = self._connection.sql(allowed.text)
            frame = pl.DataFrame() if result is None else self._fetched(result)
        except duckdb.PermissionException:
            raise_alone(NotAllowedError("this reaches out of the session, which is shut in"))
        except (duckdb.Error, pa.ArrowException, OSError) as problem:
            raise_alone(StatementError(first_line(problem)))
        if allowed.makes is not None:
            self._own.add(allowed.makes)
        return frame

    def tables(self) -> pl.DataFrame:
        """The tables that can be queried: name and number of rows, releases first, then the ledger."""
        named = {"name": [".".join(path) for path in self._published], "rows": list(self._published.values())}
        return pl.DataFrame(named, schema={"name": pl.String, "rows": pl.Int64})

    def interrupt(self) -> None:
        """Stop the statement another thread is running."""
        self._connection.interrupt()

    def close(self) -> None:
        """Forget everything."""
        self._connection.close()

    def __enter__(self) -> Self:
        """Enter a block at whose end the session is closed."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the session."""
        self.close()

    def __repr__(self) -> str:
        """How much there is to read."""
        return f"AnalystSession({len(self._published) - 1} releases)"

    def _fetched(self, result: duckdb.DuckDBPyRelation) -> pl.DataFrame:
        """Rows as they come: DuckDB does not count what has left it towards its limit."""
        left = _bytes(self._limit)
        pieces: list[pa.RecordBatch] = []
        with result.to_arrow_reader(_ROWS_AT_ONCE) as reader:
            for piece in reader:
                left -= piece.nbytes
                if left < 0:
                    raise StatementError(
                        f"the result needs more than the memory limit of this session, {self._limit}: ask for fewer "
                        "rows, or open the session with a larger memory_limit"
                    )
                pieces.append(piece)
            return pl.DataFrame(pa.Table.from_batches(pieces, reader.schema))

    def _copy(self, release: Release) -> None:
        series = str(release.metadata.get("series", ""))
        if (series, release.name) in self._published:
            raise InputError(f"two different releases are called {series}.{release.name}; open them one at a time")
        if not release_tables.put(self._connection, series, release):
            raise InputError(f"the series {series} has a name of DuckDB's own; read its releases by sparsehist.read")
        self._published[series, release.name] = len(release)

    def _has(self, path: tuple[str, ...]) -> bool:
        """Whether a name in a query is one of the tables."""
        inside = path[1:] if path[:1] == ("memory",) and len(path) > 2 else path
        inside = inside[1:] if inside[:1] == ("main",) and len(inside) == 2 else inside
        return inside in self._published or (len(path) == 1 and path[0] in self._own)


def _bytes(limit: str) -> float:
    """A memory limit as DuckDB writes it, such as 190.7 MiB."""
    amount, unit = re.fullmatch(r"([\d.]+) ?(\w+)", limit).groups()  # type: ignore[union-attr]
    return float(amount) * 1024.0 ** ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"].index(unit)


def open_analyst(
    releases: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    verify: PublicKeys | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
) -> AnalystSession:
    """Open a session over published releases; no store is needed, and none is opened.

    Args:
        releases: The directory they were written to, or their files. Each is compared with the public ledger beside
            it, if that lists it.
        verify: Public keys you trust, as files or as Ed25519 keys of `cryptography`: they must have signed every
            release, and the public ledger beside it must list it and be signed as a whole.
        memory_limit: Such as "2GB", for DuckDB and, once more, for the rows of a result; what does not fit fails,
            nothing is written to disk. A single value that one function makes, as repeat does, is not bounded by it.
        threads: How many to use. There is no limit of time: call `interrupt` from another thread.

    Returns:
        The session; a context manager.

    Raises:
        NotFoundError: If nothing is there.
        InputError: If a file is no release, is not what the ledger says, or the directory is a store.
        SignatureError: If something is not signed by one of these keys, or was changed, cut or reordered after.
    """
    trusted = None if verify is None else public_keys(verify)
    files = _files(releases)
    ledgers = {file.parent: _ledger(file.parent, trusted) for file in files}
    if isinstance(releases, (str, os.PathLike)) and Path(releases).is_dir():
        ledgers[Path(releases)] = _ledger(Path(releases), trusted)
    entries = pl.concat([pl.DataFrame(schema=_LEDGER), *ledgers.values()]).unique(maintain_order=True)
    found: dict[str, Release] = {}
    for file in files:
        release, signed = read_signed(file)
        if trusted is None:
            digest = content_digest(release.frame, release.metadata)
        else:
            digest = check_signature(file, release, signed, trusted)
        _compare(file, release, digest, ledgers[file.parent], listed=trusted is not None)
        found.setdefault(digest, release)
    return AnalystSession(found.values(), entries, memory_limit=memory_limit, threads=threads)


def _files(releases: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Path]:
    if not isinstance(releases, (str, os.PathLike)):
        return [Path(file) for file in releases]
    place = Path(releases)
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise NotFoundError(f"there is no directory or file {place}")
    try:
        holds_store, files = is_store(place), sorted(place.glob("*.parquet"))
    except OSError as problem:
        raise InputError(f"{place} cannot be read: {problem.strerror}") from None
    if holds_store:
        raise InputError(f"{place} is a store, which readers never open; name the directory its releases are in")
    if not files and not (place / LEDGER_NAME).exists():
        raise NotFoundError(f"there is no release in {place}")
    return [file for file in files if _is_release(file)]


def _is_release(file: Path) -> bool:
    try:
        return file.is_file() and "sparsehist" in pl.read_parquet_metadata(file)
    except (pl.exceptions.PolarsError, OSError):
        return False


def _ledger(directory: Path, trusted: Sequence[Ed25519PublicKey] | None) -> pl.DataFrame:
    path = directory / LEDGER_NAME
    if not path.exists():
        return pl.DataFrame(schema=_LEDGER)
    try:
        stores = read_json(path)["stores"]
        rows = [{**entry, "store": store} for store, held in stores.items() for entry in held["releases"]]
        frame = pl.DataFrame([{column: row.get(column) for column in _LEDGER} for row in rows], schema=_LEDGER)
        if trusted is not None:
            for store, held in stores.items():
                verify_chain(store, held, trusted)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        pl.exceptions.PolarsError,
    ) as bad:
        if isinstance(bad, SignatureError):
            raise SignatureError(f"{path} does not verify: {bad}") from None
        raise_alone(StoreError(f"{path} is no public ledger of this version"))
    return frame


def _compare(file: Path, release: Release, digest: str, ledger: pl.DataFrame, *, listed: bool) -> None:
    """Refuse a release that is not what the ledger beside it says; one that it leaves out, if it must be listed."""
    metadata = release.metadata
    entries = ledger.filter(
        pl.col("store") == str(metadata.get("store")),
        pl.col("series") == str(metadata.get("series")),
        pl.col("release") == release.name,
    )
    if entries.height and digest not in entries["digest"].to_list():
        raise InputError(f"{file} is not the release the ledger beside it lists: it was changed after it was written")
    if listed and not entries.height:
        raise SignatureError(f"{file} does not verify: the public ledger beside it does not list it")
