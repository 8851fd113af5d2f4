"""What a session's own statements did to what its queries read.

Views, macros, types and names are looked up by DuckDB whenever a query is planned, so nothing has to be remembered of
them. What does is where rows came from: each table made by CREATE TABLE … AS and each file written by COPY … TO keeps
the plan of its query, as it was when it ran; over a table filled or changed in another way no series is made. Tables
are known by the numbers DuckDB gives them, which stay theirs when they are renamed, hidden by others or rolled back.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
from sqlglot import TokenType

from sparsehist.errors import GuaranteeError
from sparsehist.guarantee.plan import Made, Origins, Planned, plan
from sparsehist.guarantee.trees import nodes
from sparsehist.sqlfront.script import Piece, asked_for, brackets, last, plain, qualified
from sparsehist.store.statements import statement

Number = tuple[int, int]
_CHANGES = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE"})
_ACTS = _CHANGES | {"CREATE", "COPY", "DROP", "ALTER"}
_MODIFIERS = frozenset({"OR", "REPLACE", "TEMP", "TEMPORARY", "LOCAL", "PERSISTENT", "UNLOGGED", "RECURSIVE"})
_BEFORE_NAME = frozenset({"OR", "REPLACE", "IGNORE", "INTO", "FROM", "TABLE", "VIEW", "IF", "EXISTS", "ONLY"})
_HARMLESS = frozenset({"SELECT", "TRANSACTION", "ATTACH", "DETACH", "LOAD", "VACUUM", "SET", "DROP", "VARIABLE_SET"})
_TELLING = ("PRAGMA_", "DUCKDB_", "ENABLE_LOG", "DISABLE_LOG", "LOAD_AWS_CREDENTIALS", "START_UI")
_KEPT_APART = ("SCHEMA", "SEQUENCE", "INDEX", "UNIQUE", "SECRET", "VIEW", "MACRO", "FUNCTION", "TYPE")
_FOLLOWED = "was made or changed in line {} in a way that cannot be followed"
_FILLED = (
    "was filled in line {} in a way that cannot be followed; fill it by CREATE TABLE … AS SELECT … FROM read_parquet "
    "or read_csv"
)
_WRITTEN_BEFORE = "may have been made by this session, under another name of its database"


@dataclass(frozen=True)
class _Asked:
    """A statement of DuckDB by its words, where it runs, and what it is given."""

    piece: Piece
    connection: duckdb.DuckDBPyConnection
    parameters: Mapping[str, Any]

    @cached_property
    def words(self) -> list[str]:
        """In capitals."""
        return [plain(token, self.piece.script).upper() for token in self.piece.tokens]

    @cached_property
    def texts(self) -> dict[int, str]:
        """The texts in quotes, by the place of the word."""
        tokens = enumerate(self.piece.tokens)
        return {at: str(token.text) for at, token in tokens if token.token_type == TokenType.STRING}

    def outside(self, start: int) -> list[int]:
        """The words from one on that stand in no parentheses."""
        return [at for at, depth in enumerate(brackets(self.words)) if at >= start and not depth]

    def behind(self, at: int, words: Collection[str]) -> int:
        """The first word from one on that is none of these."""
        return next((i for i in range(at, len(self.words)) if self.words[i] not in words), len(self.words))

    def text_from(self, at: int) -> str:
        """What is written from a word on."""
        return self.piece.script[self.piece.tokens[at].start : self.piece.place.end]

    def tables(self, name: str) -> dict[Number, str | None]:
        """The tables of a name, whatever their schema and database."""
        rows = self.connection.execute(statement("session_numbers")).fetchall()
        wanted = last(name).lower()
        return {(int(one), int(two)): file for one, two, called, file in rows if str(called).lower() == wanted}

    def path(self, at: int) -> str | None:
        """The path that stands at a word, or the parameter that is one."""
        if at in self.texts:
            return self.texts[at]
        if at + 1 < len(self.words) and self.piece.tokens[at].token_type == TokenType.PARAMETER:
            value = self.parameters.get(str(self.piece.tokens[at + 1].text).lower())
            return value if isinstance(value, str) else None
        return None


@dataclass(frozen=True)
class Lineage:
    """What is known of the tables and files of a session.

    Attributes:
        tables: What its own statements made or changed, by number of database and table.
        files: What it wrote, by absolute path of the file or directory.
        databases: Numbers of the databases it made tables in, by path of their file.
        blind: The line of a statement after which nothing can be followed; 0 if there is none.
    """

    tables: Mapping[Number, Made] = field(default_factory=dict)
    files: Mapping[str, Made] = field(default_factory=dict)
    databases: Mapping[str, int] = field(default_factory=dict)
    blind: int = 0

    def origins(self, connection: duckdb.DuckDBPyConnection) -> Origins:
        """What a plan made now has to know."""

        def of_table(path: tuple[str, str, str]) -> Made:
            found = connection.execute(statement("session_table"), _named(path)).fetchall()
            if len(found) != 1:
                return Made(unclear="cannot be found in the catalogue")
            number, file = (int(found[0][0]), int(found[0][1])), found[0][2]
            if number in self.tables:
                return self.tables[number]
            made_in = self.databases.get(_absolute(str(file))) if file else None
            return Made() if made_in in (None, number[0]) else Made(unclear=_WRITTEN_BEFORE)

        return Origins(of_table, lambda paths: self._of_files(paths, connection))

    def _of_files(self, paths: tuple[str, ...], connection: duckdb.DuckDBPyConnection) -> Made:
        """What was written into the files that paths and patterns mean."""
        if not self.files:
            return Made()
        found = [connection.execute(statement("session_files"), {"path": path}).fetchall() for path in paths]
        files = [str(row[0]) for rows in found for row in rows]
        written = [[held for made, held in self.files.items() if _is_in(file, made)] for file in files]
        if not any(written):
            return Made()
        if not all(written):
            return Made(
                unclear="is read from files some of which this session wrote; read those apart from the others"
            )
        all_held = [held for some in written for held in some]
        unclear = next((held.unclear for held in all_held if held.unclear), "")
        behind = {id(one): one for held in all_held for one in held.behind or ()}
        return Made(tuple(behind.values()), unclear)

    def before(
        self, piece: Piece, connection: duckdb.DuckDBPyConnection, parameters: Mapping[str, Any]
    ) -> tuple[Lineage, Planned | str | None]:
        """What is known once a statement of DuckDB may have run, and what a table that it makes holds.

        That is a query, or why it cannot be followed; None if it makes no table, or one that holds the log.
        """
        asked = _Asked(piece, connection, parameters)
        words = asked.words
        kind = connection.extract_statements(piece.text)[0].type.name
        blind = replace(self, blind=self.blind or piece.line)
        within = any(one == "(" and other in _CHANGES for one, other in pairwise(words))
        if within or words[:3] == ["COPY", "FROM", "DATABASE"]:
            return blind, None  # rows are changed within a query, or tables in many places
        if kind in _HARMLESS or (kind == "ALTER" and words[0] == "COMMENT"):
            return self, None
        if kind == "CREATE":
            return self._create(asked)
        if kind in ("EXPLAIN", "PREPARE"):
            return (blind if _ACTS & set(words) else self), None
        if kind in ("CALL", "PRAGMA"):
            harmless = words[0] in ("CHECKPOINT", "PRAGMA") or words[1].startswith(_TELLING)
            return (self if harmless and "IMPORT_DATABASE" not in words else blind), None
        if kind == "COPY":
            return self._copy(asked), None
        if kind == "EXPORT":
            unclear = Made(unclear=_FOLLOWED.format(piece.line))
            written = next(iter(asked.texts.values()), None)
            return (blind if written is None else self._with_file(_at_home(written, connection), unclear)), None
        if kind in ("INSERT", "UPDATE", "DELETE", "MERGE_INTO", "ALTER"):
            return self._changed(asked), None
        return (self if kind == "EXECUTE" else blind), None

    def after(
        self, made: Planned | str | None, before: set[Number], connection: duckdb.DuckDBPyConnection
    ) -> Lineage:
        """What is known once a statement has made what `before` said it would."""
        if made is None:
            return self
        held = Made(unclear=made) if isinstance(made, str) else Made((made,))
        known = self
        for (database, table), file in numbered(connection).items():
            if (database, table) not in before:
                known = replace(known, tables={**known.tables, (database, table): held})
                if file:
                    known = replace(known, databases={**known.databases, _absolute(file): database})
        return known

    def with_release(self, series: str, release: str, connection: duckdb.DuckDBPyConnection) -> Lineage:
        """What is known once a release is a table of the session."""
        found = connection.execute(statement("session_table"), _named(("memory", series, release))).fetchall()
        made = {(int(database), int(table)): Made(public=True) for database, table, _ in found}
        return replace(self, tables={**self.tables, **made})

    def _create(self, asked: _Asked) -> tuple[Lineage, Planned | str | None]:
        words = asked.words
        at = asked.behind(1, _MODIFIERS)
        kind = words[at] if at < len(words) else ""
        if kind in _KEPT_APART:
            return self, None
        if kind != "TABLE":
            return replace(self, blind=self.blind or asked.piece.line), None
        _, behind = qualified(asked.piece, at + 1 + 3 * (words[at + 1 : at + 4] == ["IF", "NOT", "EXISTS"]))
        start = next((i for i in asked.outside(behind) if words[i] == "AS"), None)
        if start is None or start + 1 >= len(words):
            return self, None  # what is put into it later is its log
        return self, self._planned(asked.text_from(start + 1), asked) or _FOLLOWED.format(asked.piece.line)

    def _planned(self, query: str, asked: _Asked) -> Planned | None:
        if self.blind:
            return None
        try:
            given = asked_for(query, asked.parameters)
            return plan(query, asked.connection, parameters=given, origins=self.origins(asked.connection))
        except (GuaranteeError, duckdb.Error):
            return None

    def _changed(self, asked: _Asked) -> Lineage:
        """What INSERT, UPDATE, DELETE, MERGE, TRUNCATE or ALTER leaves of what is known; WITH may stand before it."""
        words = asked.words
        verb = next((i for i in asked.outside(0) if words[i] in (*_CHANGES, "ALTER")), len(words))
        name, behind = qualified(asked.piece, asked.behind(verb + 1, _BEFORE_NAME))
        targets = asked.tables(name)
        if not targets:
            return replace(self, blind=self.blind or asked.piece.line)
        start = next((i for i in asked.outside(behind) if words[i] not in "()"), verb)
        if (words[verb], words[start]) == ("INSERT", "VALUES") and not {"CONFLICT", "RETURNING"} & set(words):
            rows = self._planned(asked.text_from(start), asked)
            written_out = rows is not None and not rows.tables and not rows.standing and not _draws(rows)
            if written_out and not any(number in self.tables for number in targets):
                return self  # rows of the log
        return self._unclear(targets, _FOLLOWED.format(asked.piece.line))

    def _unclear(self, numbers: Mapping[Number, str | None], why: str) -> Lineage:
        files = {_absolute(file): number[0] for number, file in numbers.items() if file}
        held = dict.fromkeys(numbers, Made(unclear=why))
        return replace(self, tables={**self.tables, **held}, databases={**self.databases, **files})

    def _copy(self, asked: _Asked) -> Lineage:
        piece, words = asked.piece, asked.words
        ways = [i for i in asked.outside(1) if words[i] in ("TO", "FROM") and i not in asked.texts]
        target = ways[-1] if ways else len(words)
        path, targets = asked.path(target + 1), asked.tables(qualified(piece, 1)[0])
        if path is None or (words[target] == "FROM" and not targets):
            return replace(self, blind=self.blind or piece.line)
        if words[target] == "TO":
            source = piece.script[piece.tokens[1].start : piece.tokens[target - 1].end + 1]
            query = self._planned(f"from {source}", asked)
            held = Made(unclear=_FOLLOWED.format(piece.line)) if query is None else Made((query,))
            return self._with_file(_at_home(path, asked.connection), held)
        as_parquet = path.lower().endswith(".parquet") and not {"FORMAT", "CSV", "JSON"} & set(words)
        fresh = not any(number in self.tables for number in targets)
        if fresh and as_parquet and self._of_files((path,), asked.connection) == Made():
            return self  # the log
        return self._unclear(targets, _FILLED.format(piece.line))

    def _with_file(self, path: str, held: Made) -> Lineage:
        before = self.files.get(_absolute(path), Made(()))
        both = Made((*(before.behind or ()), *(held.behind or ())), before.unclear or held.unclear)
        return replace(self, files={**self.files, _absolute(path): both})


def numbered(connection: duckdb.DuckDBPyConnection) -> dict[Number, str | None]:
    """The file of the database of each table, by their numbers."""
    rows = connection.execute(statement("session_numbers")).fetchall()
    return {(int(database), int(table)): file for database, table, _, file in rows}


def _draws(planned: Planned) -> bool:
    """Whether a function is called whose value is not that of its arguments."""
    from sparsehist.guarantee.functions import of_rows

    called = [(node.get("qname") or {}).get("path") for node in nodes(planned.root)]
    return any(str(path[-1]).lower() not in of_rows() for path in called if path)


def _is_in(file: str, written: str) -> bool:
    """Whether a file is one that was written, by whatever name, or in a directory that was."""
    if _absolute(file) == written or _absolute(file).startswith(written.rstrip(os.sep) + os.sep):
        return True
    try:
        return Path(file).samefile(written)
    except OSError:
        return False


def _named(path: tuple[str, str, str]) -> dict[str, str]:
    """Database, schema and name of a table, as parameters."""
    return dict(zip(("database", "schema", "name"), path, strict=True))


def _at_home(path: str, connection: duckdb.DuckDBPyConnection) -> str:
    """A path with the directory that DuckDB takes ~ for."""
    ((home,),) = connection.execute(statement("session_home")).fetchall()
    return f"{home}{path[1:]}" if home and path.startswith("~") else path


def _absolute(path: str) -> str:
    bare = re.sub(r"^file:(//localhost|//)?(?=/)", "", path)
    return bare if "://" in bare else str(Path(bare).expanduser().resolve())


def leaves_transaction(piece: Piece) -> bool:
    """Whether a statement ends a transaction."""
    return plain(piece.tokens[0], piece.script).upper() in ("COMMIT", "END", "ROLLBACK", "ABORT")


def transaction_after(pieces: Sequence[Piece], *, inside: bool) -> bool:
    """Whether a transaction is open once statements have run."""
    for piece in pieces:
        first = plain(piece.tokens[0], piece.script).upper()
        inside = (inside or first in ("BEGIN", "START")) and not leaves_transaction(piece)
    return inside
