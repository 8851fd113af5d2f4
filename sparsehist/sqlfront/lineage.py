"""What the tables and views of a session were made from, so that a query over them is checked down to the log.

CREATE TABLE … AS and CREATE VIEW … AS are followed: the checker reads their queries too. Whatever this cannot
follow (rows inserted from a query, macros, variables, renamed tables, a name that two tables may have) is noted with
the line that did it, and a series over it is refused, unless it is declared unverified.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from sqlglot import Token

from sparsehist.sqlfront.guarantee_functions import of_rows
from sparsehist.sqlfront.guarantee_relations import Behind
from sparsehist.sqlfront.identifiers import folded
from sparsehist.sqlfront.script import Piece
from sparsehist.sqlfront.written_files import Written, target
from sparsehist.sqlfront.written_names import brackets, last, names, plain, qualified

_HARMLESS = frozenset(
    "SELECT FROM VALUES TABLE ( SHOW DESCRIBE DESC SUMMARIZE EXECUTE ATTACH DETACH USE PRAGMA SET RESET INSTALL "
    "LOAD ANALYZE VACUUM CHECKPOINT COMMENT PIVOT UNPIVOT DEALLOCATE FORCE UPDATE_EXTENSIONS".split()
)
_MODIFIERS = frozenset({"OR", "REPLACE", "TEMP", "TEMPORARY", "LOCAL", "PERSISTENT", "UNLOGGED", "RECURSIVE"})
_TEMPORARY = frozenset({"TEMP", "TEMPORARY"})
_TRANSACTION = frozenset({"BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT"})
_BEFORE_NAME = frozenset({"OR", "REPLACE", "IGNORE", "INTO", "FROM", "TABLE", "VIEW", "IF", "EXISTS", "ONLY"})
_CHANGES = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE"})
_HIDING = {
    "WITH": _CHANGES,
    "EXPLAIN": _CHANGES | {"CREATE", "COPY"},
    "PREPARE": _CHANGES | {"CREATE", "COPY", "DROP", "ALTER"},
}
_TELLING = ("PRAGMA_", "DUCKDB_", "ENABLE_LOG", "DISABLE_LOG", "LOAD_AWS_CREDENTIALS", "START_UI")
_NOT_CALLED = frozenset({"values", "(", ",", "decimal", "numeric", "varchar"})
_MOVES = frozenset({"SCHEMA", "SEARCH_PATH"})
# They change what a query means: which texts are equal, how it is read, where files are, what tables hold.
_MEANING = frozenset(
    "DEFAULT_COLLATION CURRENT_DIALECT DIALECT_COMPATIBILITY_MODE ACTIVE_GRAMMAR_EXTENSIONS "
    "IMPORT_DATABASE ALLOW_PARSER_OVERRIDE_EXTENSION REGEX_MATCH_OPERATOR_SEMANTICS FILE_SEARCH_PATH".split()
)
_FOLLOWED = "was made or changed in line {} in a way that cannot be followed"
_FILLED = (
    "was filled in line {} in a way that cannot be followed; fill it by CREATE TABLE … AS SELECT … FROM read_parquet "
    "or read_csv"
)
_TWO = "may be the name of two tables since line {}"


@dataclass(frozen=True)
class Lineage:
    """What is known of the relations of a session; names as DuckDB compares them, qualified as they were written.

    Attributes:
        queries: The query behind each view, and each table made by CREATE TABLE … AS.
        unknown: Names of tables that cannot be followed, and why.
        lasting: Plain names that stay unclear, and why: macros, types, variables, what two tables may be called.
        blind: The line of a statement after which nothing can be followed; 0 if there is none.
        tables: Names of tables made with columns and no query.
        temporary: Which of the names are those of temporary tables and views.
        files: Files written by COPY … TO, with the query behind each.
        given: Plain names of the frames the session was given.
        moved: The line of a statement after which a name without schema may mean another table; 0 if there is none.
        attached: Whether a database was attached, which may hold tables already.
        in_transaction: What was known when the transaction began.
    """

    queries: dict[str, Behind] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    lasting: dict[str, str] = field(default_factory=dict)
    blind: int = 0
    tables: frozenset[str] = frozenset()
    temporary: frozenset[str] = frozenset()
    files: Written = field(default_factory=Written)
    given: frozenset[str] = frozenset()
    moved: int = 0
    attached: bool = False
    in_transaction: Lineage | None = None

    def after(self, piece: Piece) -> Lineage:
        """What is known once a statement of DuckDB has run."""
        words = [plain(token, piece.script) for token in piece.tokens]
        first = words[0].upper()
        upper = {word.upper() for word in words}
        if first in _TRANSACTION:
            return self._transaction(first)
        if any(one == "(" and other.upper() in _CHANGES for one, other in pairwise(words)):
            return replace(self, blind=piece.line)  # rows are changed within a query
        if first == "CREATE":
            return self._created(piece, words)
        if first in _HIDING:
            return replace(self, blind=piece.line) if upper & _HIDING[first] else self
        if first == "INSERT" and _inserts_values(words, self.lasting):
            return self
        if first in _CHANGES or first == "ALTER":
            return self._with_unknown(_changed(piece, words), _FOLLOWED.format(piece.line))
        if first in ("COPY", "EXPORT"):
            return self._copied(piece, words)
        if first == "DROP":
            return self._dropped(piece, words)
        if first in ("SET", "RESET", "PRAGMA", "USE", "ATTACH", "DETACH"):
            return self._set(first, words, piece.line)
        known = first in _HARMLESS or (first == "CALL" and words[1].upper().startswith(_TELLING))
        return self if known else replace(self, blind=piece.line)

    def after_failure(self, piece: Piece) -> Lineage:
        """What is known once a statement of DuckDB has failed: a COMMIT that fails takes all back."""
        first = plain(piece.tokens[0], piece.script).upper()
        return self.taken_back() if first in ("COMMIT", "END") else self

    def taken_back(self) -> Lineage:
        """What is known once a transaction has been taken back."""
        return self._transaction("ROLLBACK")

    def unclear(self) -> dict[str, str]:
        """Why tables and functions cannot be followed, by their plain names."""
        return {last(name): why for name, why in self.unknown.items()} | self.lasting

    def _reached(self, tokens: Iterable[Token], script: str) -> str:
        """Why what a statement makes cannot be followed: what it rests on may be unclear now and clear later.

        Args:
            tokens: Words of the statement.
            script: The script they stand in.

        Returns:
            What it rests on that cannot be followed; empty if all can be.
        """
        found, unclear = names(tokens, script), self.unclear()
        left = set(found)
        while left:
            name = left.pop()
            if name in unclear:
                return f"rests on {name}, which {unclear[name]}"
            for made, behind in self.queries.items():
                if last(made) == name:
                    new = _names_of_text(behind.text) - found
                    found |= new
                    left |= new
        return ""

    def holds(self, name: str) -> bool:
        """Whether a statement made or changed the relation of this qualified name, or a name may mean another one."""
        return bool(self.moved) or name in self.queries or name in self.tables or last(name) in self.unclear()

    def _created(self, piece: Piece, words: list[str]) -> Lineage:
        at = 1
        while at < len(words) and words[at].upper() in _MODIFIERS:
            at += 1
        modifiers = {word.upper() for word in words[1:at]}
        kind = words[at].upper() if at < len(words) else ""
        if kind in ("SCHEMA", "SEQUENCE", "INDEX", "UNIQUE", "SECRET"):
            return self
        if kind not in ("TABLE", "VIEW", "MACRO", "FUNCTION", "TYPE"):
            return replace(self, blind=piece.line)
        at += 1
        kept = [word.upper() for word in words[at : at + 3]] == ["IF", "NOT", "EXISTS"]
        name, behind = qualified(piece, at + 3 * kept)
        if kind in ("MACRO", "FUNCTION", "TYPE"):
            return self._with_lasting([name], _FOLLOWED.format(piece.line))
        temporary = bool(modifiers & _TEMPORARY)
        if self._is_another(name, temporary=temporary, may_be_there=kept, replaced="REPLACE" in modifiers):
            return self._with_lasting([name], _TWO.format(piece.line))
        if kept and self._knows(name):
            return self
        known = self._without(name)
        if temporary:
            known = replace(known, temporary=known.temporary | {name})
        unclear = self._reached(piece.tokens[behind:], piece.script) if kind == "TABLE" else ""
        if unclear:
            return known._with_unknown([name], unclear)  # noqa: SLF001
        return known._made(piece, words, name, behind, self.queries if kind == "TABLE" else None)  # noqa: SLF001

    def _made(
        self, piece: Piece, words: list[str], name: str, behind: int, views: Mapping[str, Behind] | None
    ) -> Lineage:
        """What is known once there is a new table or view; the words behind its name say what of."""
        start = next((i for i in range(behind, len(words)) if words[i].upper() == "AS"), None)
        if start is None and "COLLATE" not in {word.upper() for word in words}:
            return replace(self, tables=self.tables | {name})  # what is put into it later is its log
        if start is None or start + 1 >= len(words):  # two texts may be one to a column with a collation
            return self._with_unknown([name], _FOLLOWED.format(piece.line))
        query = piece.script[piece.tokens[start + 1].start : piece.place.end]
        if start > behind:  # a list of columns gives new names to those of the query
            columns = piece.script[piece.tokens[behind].start : piece.tokens[start - 1].end + 1]
            query = f"select * from ({query}) as named {columns}"  # noqa: S608  checked, never run
        return replace(self, queries={**self.queries, name: Behind(query, views)})

    def _is_another(self, name: str, *, temporary: bool, may_be_there: bool, replaced: bool) -> bool:
        """Whether there is or may be another table of this name: a temporary one, or one of another schema."""
        if last(name) in self.given:
            return True
        if self._knows(name):
            return (name in self.temporary) is not temporary or not (may_be_there or replaced)
        return may_be_there and self.attached

    def _knows(self, name: str) -> bool:
        return name in self.queries or name in self.tables or name in self.unknown

    def _copied(self, piece: Piece, words: list[str]) -> Lineage:
        if (
            words[0].upper() == "COPY"
            and words[1:3]
            and [word.upper() for word in words[1:3]] == ["FROM", "DATABASE"]
        ):
            return replace(self, blind=piece.line)
        written = target(piece, words)
        if written is not None:
            path, query = written
            followed = query and not self._reached(piece.tokens, piece.script)
            behind = Behind(query if followed else "", self.queries)
            return replace(self, files=self.files.with_file(path, behind)) if path else self
        name = qualified(piece, 1)[0]
        depth = brackets(words)
        source = next((i + 1 for i, word in enumerate(words) if word.upper() == "FROM" and not depth[i]), len(words))
        file = str(piece.tokens[source].text) if source < len(words) else ""
        is_log = name in self.tables and file.lower().endswith(".parquet") and not self.files.behind(file)
        return self if is_log else self._with_unknown([name], _FILLED.format(piece.line))

    def _dropped(self, piece: Piece, words: list[str]) -> Lineage:
        if words[1].upper() not in ("TABLE", "VIEW"):
            return self
        at = 4 if [word.upper() for word in words[2:4]] == ["IF", "EXISTS"] else 2
        name = qualified(piece, at)[0] if at < len(words) else ""
        return replace(self._without(name), given=self.given - {name})

    def _set(self, first: str, words: list[str], line: int) -> Lineage:
        meant = {word.upper() for word in words[1:4]}
        if first == "SET" and "VARIABLE" in meant:
            return self._with_lasting(["getvariable"], _FOLLOWED.format(line))
        if first == "USE" or meant & _MOVES or (first == "RESET" and "ALL" in meant):
            return self._as_moved(line)
        if first == "DETACH":
            gone = f"{folded(words[-1])}."
            made_there = any(name.startswith(gone) for name in (*self.queries, *self.tables, *self.unknown))
            return replace(self, blind=line) if self.moved or made_there else self
        if first == "ATTACH":
            return replace(self, attached=True)
        return replace(self, blind=line) if meant & _MEANING else self

    def _as_moved(self, line: int) -> Lineage:
        """What is known once names are looked up elsewhere: nothing of those made before, unless named in full."""
        before = [name for name in (*self.queries, *self.tables, *self.unknown) if name.count(".") < 2]
        return replace(self._with_lasting(before, _TWO.format(line)), moved=line)

    def _with_unknown(self, changed: Iterable[str], why: str) -> Lineage:
        return replace(self, unknown={**self.unknown, **dict.fromkeys(changed, why)})

    def _with_lasting(self, made: Iterable[str], why: str) -> Lineage:
        return replace(self, lasting={**self.lasting, **{last(name): why for name in made}})

    def _without(self, name: str) -> Lineage:
        queries = {known: query for known, query in self.queries.items() if known != name}
        unknown = {known: why for known, why in self.unknown.items() if known != name}
        known = replace(self, queries=queries, unknown=unknown, tables=self.tables - {name})
        return replace(known, temporary=self.temporary - {name})

    def _transaction(self, word: str) -> Lineage:
        before = self.in_transaction
        if word in ("BEGIN", "START"):
            return replace(self, in_transaction=self)
        if word in ("COMMIT", "END") or before is None:
            return replace(self, in_transaction=None)
        # Files, settings and the like stay as they are.
        again = replace(before, blind=self.blind, files=self.files, lasting=self.lasting, attached=self.attached)
        again = replace(again, in_transaction=None)
        return again if self.moved == before.moved else again._as_moved(self.moved)  # noqa: SLF001


def leaves_transaction(piece: Piece) -> bool:
    """Whether a statement ends a transaction."""
    return plain(piece.tokens[0], piece.script).upper() in _TRANSACTION - {"BEGIN", "START"}


def _inserts_values(words: list[str], made: Collection[str]) -> bool:
    """Whether INSERT puts rows in that are written out, so that they are the log's: no queries, no macros."""
    upper = [word.upper() for word in words]
    if "VALUES" not in upper or {"SELECT", "FROM", "TABLE", "WITH", "PIVOT", "UNPIVOT", "CONFLICT"} & set(upper):
        return False
    rows = words[upper.index("VALUES") :]
    called = {folded(word) for word, behind in pairwise(rows) if behind == "("}
    return called <= of_rows() | _NOT_CALLED and not of_rows() & set(made)


def _changed(piece: Piece, words: list[str]) -> list[str]:
    """Names of what INSERT, UPDATE, DELETE, MERGE, TRUNCATE or ALTER changes, and of what it becomes."""
    at = 1
    while at < len(words) and words[at].upper() in _BEFORE_NAME:
        at += 1
    changed = [qualified(piece, at)[0]]
    upper = [word.upper() for word in words]
    if upper[0] == "ALTER" and "RENAME" in upper:
        changed.append(folded(words[-1]))
    return changed


def _names_of_text(query: str) -> set[str]:
    from sparsehist.sqlfront.script import pieces

    return {name for piece in pieces(query) for name in names(piece.tokens, query)}
