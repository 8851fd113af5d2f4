"""The engine of an analyst's session: the other side of a pipe, a process that holds copies of releases alone.

What a statement may do is on lists: kinds of statements, tables, table functions; what a later DuckDB adds is refused
until somebody has looked at it. Under that, DuckDB is shut off from files, network, extensions and settings, and the
process may take no more memory than was declared: DuckDB does not count what one value takes while it is made.

This module imports DuckDB, Arrow and little else, since every session starts a process of it.
"""

from __future__ import annotations

import json
import os
import queue
import re
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import duckdb
import pyarrow as pa

from sparsehist.errors import NotAllowedError, SparsehistError, StatementError, raise_alone
from sparsehist.guarantee.statement import Node, nodes

HEAD = struct.Struct(">cQ")
"""Before each message: what it is, and its length in bytes."""
SETTINGS, PIECE, QUERY, STOP = b"s", b"p", b"q", b"i"
ROWS, DONE, REFUSED = b"r", b"d", b"e"
_ROWS_AT_ONCE = 2048  # of DuckDB's vectors
_BYTES_AT_ONCE = 1 << 20
_ROOM = 64 << 20  # for the engine itself, which small limits would leave nothing
_WARM_UP = "select i, repeat('x', 20) as x from range(200_000) t(i)"
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


def allow(text: str, engine: Engine) -> tuple[str, str | None]:
    """Check one statement; returns its text, and the reader's own table or view that it makes, if any."""
    one = _single(text, engine.connection)
    try:
        kind = one.type.name
    except ValueError:  # a kind that DuckDB's Python names do not list
        raise_alone(NotAllowedError(f"this kind of statement is not allowed here; {_MAY}"))
    if kind == "EXPLAIN":
        head = _EXPLAIN.match(one.query)
        if head is None:
            raise NotAllowedError("EXPLAIN is for one query, as in EXPLAIN SELECT …, without options")
        _check(one.query[head.end() :], engine)
        return one.query, None
    if kind == "CREATE":
        own = _OWN.match(one.query)
        if own is None:
            raise NotAllowedError(f"CREATE is not allowed but for CREATE TEMP TABLE or VIEW name AS SELECT …; {_MAY}")
        name = own[1].removeprefix('"').removesuffix('"').replace('""', '"').casefold()
        if name == "ledger" and engine.has((name,)):
            raise NotAllowedError("ledger is the public ledger; take another name")
        _check(one.query[own.end() :], engine)
        return one.query, name
    if kind != "SELECT":
        raise NotAllowedError(f"{kind.replace('_', ' ')} is not allowed here; {_MAY}")
    _check(one.query, engine)
    return one.query, None


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


def _check(query: str, engine: Engine) -> None:
    """Check a query by the tree DuckDB makes of it."""
    found = engine.connection.execute(engine.tree, {"query": query}).fetchall()
    tree: Node = json.loads(found[0][0])
    if tree["error"] or len(tree["statements"]) != 1:
        raise NotAllowedError(
            f"only a plain query can be checked: {tree.get('error_message', 'this is not one')}; {_MAY}"
        )
    named = {
        str(entry["key"]).casefold() for part in nodes(tree) for entry in (part.get("cte_map") or {}).get("map", [])
    }
    for part in nodes(tree):
        _check_part(part, named, engine.has)


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


class Engine:
    """A DuckDB that holds tables and nothing else, and runs what a reader may run.

    `settings` has the `config` of DuckDB; `tables`, each with `path` in lower case and the statements that `fill` it
    from the table `arriving`; the statement that makes the `tree` of a query, and the one that `lock`s.
    """

    def __init__(self, settings: dict[str, Any], arriving: Iterator[pa.Table]) -> None:
        self.tree: str = settings["tree"]
        self._tables = {tuple(table["path"]) for table in settings["tables"]}
        self._own: set[str] = set()
        self.connection = duckdb.connect(":memory:", config=settings["config"])
        for table, rows in zip(settings["tables"], arriving, strict=True):
            self.connection.register(settings["arriving"], rows)
            for text in table["fill"]:
                self.connection.execute(text)
            self.connection.unregister(settings["arriving"])
        self.limit = str(self.connection.execute(settings["limit"]).fetchall()[0][0])
        self.connection.execute(settings["lock"])

    def run(self, text: str) -> Iterator[pa.RecordBatch]:
        """Run one statement: its rows as they come, since DuckDB does not count what has left it."""
        try:
            allowed, makes = allow(text, self)
            result = self.connection.sql(allowed)
            if result is not None:
                yield from self._rows(result)
        except duckdb.PermissionException:
            raise_alone(NotAllowedError("this reaches outside of the session, which is closed"))
        except (duckdb.Error, pa.ArrowException, OSError, MemoryError) as problem:
            said = first_line(problem)
            if isinstance(problem, MemoryError) or said.startswith("Out of Memory"):
                self._too_large()
            raise_alone(StatementError(said))
        if makes is not None:
            self._own.add(makes)

    def _rows(self, result: duckdb.DuckDBPyRelation) -> Iterator[pa.RecordBatch]:
        left = bytes_of(self.limit)
        with result.to_arrow_reader(_ROWS_AT_ONCE) as reader:
            yield pa.RecordBatch.from_pylist([], reader.schema)
            for batch in reader:
                left -= batch.nbytes
                if left < 0:
                    self._too_large()
                yield batch

    def _too_large(self) -> NoReturn:
        raise_alone(
            StatementError(
                f"this needs more than the memory limit of this session, {self.limit}: ask for fewer rows or smaller "
                "values, or open the session with a larger memory_limit"
            )
        )

    def has(self, path: tuple[str, ...]) -> bool:
        """Whether a name in a query is one of the tables."""
        inside = path[1:] if path[:1] == ("memory",) and len(path) > 2 else path
        inside = inside[1:] if inside[:1] == ("main",) and len(inside) == 2 else inside
        return inside in self._tables or (len(path) == 1 and path[0] in self._own)


def bytes_of(limit: str) -> int:
    """A memory limit as DuckDB writes it, such as 190.7 MiB."""
    amount, unit = re.fullmatch(r"([\d.]+) ?(\w+)", limit).groups()  # type: ignore[union-attr]
    return int(float(amount) * 1024.0 ** ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"].index(unit))


def written(batches: Sequence[pa.RecordBatch]) -> pa.Buffer:
    """Rows as an Arrow stream of its own."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def _together(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Rows in pieces of about a megabyte: what is on its way is held twice."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        rows = max(1, batch.num_rows * _BYTES_AT_ONCE // max(batch.nbytes, 1))
        for start in range(0, max(batch.num_rows, 1), rows):
            held.append(batch.slice(start, rows))
            if sum(part.nbytes for part in held) >= _BYTES_AT_ONCE:
                yield held
                held = []
    if held:
        yield held


def bound_memory(more: int) -> None:
    """Let this process take so many bytes more than it has, where the system can hold it to that: on Linux."""
    if sys.platform == "linux":
        import resource

        status = Path("/proc/self/status").read_text().splitlines()
        taken = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData:"))
        resource.setrlimit(resource.RLIMIT_DATA, (taken + more, taken + more))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _send(out: BinaryIO, kind: bytes, body: Any) -> None:
    content = memoryview(body if kind == ROWS else json.dumps(body).encode())
    out.write(HEAD.pack(kind, content.nbytes))
    out.write(content)
    out.flush()


def _received(source: BinaryIO) -> tuple[bytes, bytes]:
    """One message; the process ends with the pipe."""
    head = source.read(HEAD.size)
    if len(head) < HEAD.size:
        os._exit(0)
    kind, length = HEAD.unpack(head)
    return kind, source.read(length)


def _pieces(source: BinaryIO, settings: dict[str, Any]) -> Iterator[pa.Table]:
    for table in settings["tables"]:
        read = (pa.ipc.open_stream(_received(source)[1]).read_all() for _ in range(table["pieces"]))
        yield pa.concat_tables(read)


def _end_with(reader: int) -> None:
    """End once the reader's process has: the pipe may stay open in a fork of it that lives on."""
    while os.getppid() == reader:
        time.sleep(1)
    os._exit(1)


def serve() -> None:
    """Read settings, tables and then statements from standard input; answer each on standard output."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    source, out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    settings = json.loads(_received(source)[1])
    try:
        engine = Engine(settings, _pieces(source, settings))
    except duckdb.Error as problem:
        return _send(out, REFUSED, {"kind": "InputError", "message": first_line(problem)})
    for _ in engine.run(_WARM_UP):  # what engine, threads and Arrow keep for themselves is not the reader's
        pass
    bound_memory(bytes_of(engine.limit) + _ROOM)
    _send(out, DONE, {})
    asked: queue.SimpleQueue[str] = queue.SimpleQueue()

    def listen() -> None:
        try:
            while True:
                kind, body = _received(source)
                if kind == STOP:
                    engine.connection.interrupt()
                else:
                    asked.put(body.decode())
        finally:
            os._exit(1)  # a statement that is itself too large would wait for ever

    threading.Thread(target=listen, daemon=True).start()
    try:
        while True:
            text = asked.get()
            try:
                for held in _together(engine.run(text)):
                    _send(out, ROWS, written(held))
                _send(out, DONE, {})
            except (SparsehistError, MemoryError, RecursionError) as problem:
                kind = type(problem).__name__ if isinstance(problem, SparsehistError) else "StatementError"
                _send(out, REFUSED, {"kind": kind, "message": str(problem) or "this takes too much memory"})
    finally:
        os._exit(1)  # nobody reads; closing a connection would wait for the query it still runs
