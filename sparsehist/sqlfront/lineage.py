"""What the tables and views of a session were made from, so that a query over them is checked down to the log.

CREATE TABLE … AS and CREATE VIEW … AS are followed: the checker reads their queries too. Whatever this cannot follow
(rows inserted from a query, macros, variables, renamed tables) is noted with the line that did it, and a series over
it is refused, unless it is declared unverified.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from sqlglot import Token, TokenType

from sparsehist.sqlfront.script import Piece, is_word, spelled

_HARMLESS = frozenset(
    "SELECT FROM VALUES TABLE WITH ( SHOW DESCRIBE DESC SUMMARIZE EXPLAIN PRAGMA CALL SET RESET USE ATTACH DETACH "
    "INSTALL LOAD EXPORT ANALYZE VACUUM CHECKPOINT COMMENT PIVOT UNPIVOT DEALLOCATE FORCE "
    "UPDATE_EXTENSIONS".split()
)
_MODIFIERS = frozenset({"OR", "REPLACE", "TEMP", "TEMPORARY", "LOCAL", "PERSISTENT", "UNLOGGED", "RECURSIVE"})
_TRANSACTION = frozenset({"BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT"})
_BEFORE_NAME = frozenset({"OR", "REPLACE", "IGNORE", "INTO", "FROM", "TABLE", "VIEW", "IF", "EXISTS", "ONLY"})
_CHANGES = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE"})


@dataclass(frozen=True)
class Lineage:
    """What is known of the relations of a session; names in lower case, qualified as they were written.

    Attributes:
        queries: The query behind each view, and each table made by CREATE TABLE … AS.
        unknown: Names of what cannot be followed, with the line of the statement that made it so.
        blind: The line of a statement after which nothing can be followed; 0 if there is none.
        tables: Names of tables made with columns and no query.
        files: Files written by COPY … TO, with the query behind each.
        in_transaction: What was known when the transaction began, and the names touched since.
    """

    queries: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    blind: int = 0
    tables: frozenset[str] = frozenset()
    files: dict[str, str] = field(default_factory=dict)
    in_transaction: Lineage | None = None

    def after(self, piece: Piece) -> Lineage:
        """What is known once a statement of DuckDB has run."""
        words = [_plain(token, piece.script) for token in piece.tokens]
        first = words[0].upper()
        if first in _TRANSACTION:
            return self._transaction(first, piece.line)
        if first == "CREATE":
            return self._created(piece, words)
        if first in ("PREPARE", "EXPLAIN", "WITH"):
            hidden = {word.upper() for word in words} & (_CHANGES | {"CREATE"})
            return replace(self, blind=piece.line) if hidden else self
        if first == "INSERT" and not {"SELECT", "FROM", "TABLE", "WITH"} & {word.upper() for word in words}:
            return self  # VALUES: rows of the log, written out
        if first in _CHANGES or first == "ALTER":
            return self._with_unknown(_changed(piece, words), piece.line)
        if first == "COPY":
            return self._copied(piece)
        if first == "DROP":
            return self._dropped(piece, words)
        if first == "SET" and words[1:2] and words[1].upper() == "VARIABLE":
            return self._with_unknown(["getvariable"], piece.line)
        if first in _HARMLESS or first == "EXECUTE":
            return self
        return replace(self, blind=piece.line)

    def reached(self, piece_tokens: Iterable[Token], script: str) -> tuple[set[str], str]:
        """What a query rests on.

        Args:
            piece_tokens: Words of the query.
            script: The script they stand in.

        Returns:
            The plain names it uses, and the reason why it cannot be checked; the reason is empty if it can.
        """
        if self.blind:
            return set(), f"the statement in line {self.blind} may have changed what the query reads"
        names = _names(piece_tokens, script)
        left = set(names)
        while left:
            name = left.pop()
            if name in self.unknown:
                line = self.unknown[name]
                return names, f"{name} was made or changed in line {line} in a way that cannot be followed"
            for made, query in self.queries.items():
                if made.rsplit(".", 1)[-1] == name:
                    new = _names_of_text(query) - names
                    names |= new
                    left |= new
        return names, ""

    def _created(self, piece: Piece, words: list[str]) -> Lineage:
        at = 1
        while at < len(words) and words[at].upper() in _MODIFIERS:
            at += 1
        kind = words[at].upper() if at < len(words) else ""
        if kind in ("SCHEMA", "SEQUENCE", "INDEX", "UNIQUE", "SECRET"):
            return self
        if kind not in ("TABLE", "VIEW", "MACRO", "FUNCTION", "TYPE"):
            return replace(self, blind=piece.line)
        at += 1
        kept = [word.upper() for word in words[at : at + 3]] == ["IF", "NOT", "EXISTS"]
        name, behind = _qualified(piece, at + 3 * kept)
        if kind in ("MACRO", "FUNCTION", "TYPE"):
            return self._with_unknown([name.rsplit(".", 1)[-1]], piece.line)
        start = next((i for i in range(behind, len(words)) if words[i].upper() == "AS"), None)
        if start is None:  # CREATE TABLE with columns: what is put into it later is its log
            known = self._without(name)
            return replace(known, tables=known.tables | {name})
        if start + 1 >= len(words) or (kept and name in self.queries):
            return self
        query = piece.script[piece.tokens[start + 1].start : piece.place.end]
        if start > behind:  # a list of columns gives new names to those of the query
            columns = piece.script[piece.tokens[behind].start : piece.tokens[start - 1].end + 1]
            query = f"select * from ({query}) as named {columns}"  # noqa: S608  checked, never run
        known = self._without(name)
        return replace(known, queries={**known.queries, name: query})

    def _copied(self, piece: Piece) -> Lineage:
        tokens = piece.tokens
        to = next((i for i, token in enumerate(tokens) if spelled(token, piece.script).upper() == "TO"), None)
        if to is None or to + 1 >= len(tokens) or tokens[to + 1].token_type != TokenType.STRING:
            return self
        source = piece.script[tokens[1].start : tokens[to - 1].end + 1]
        query = f"select * from {source}"  # noqa: S608  checked, never run
        return replace(self, files={**self.files, str(tokens[to + 1].text): query})

    def _dropped(self, piece: Piece, words: list[str]) -> Lineage:
        at = 4 if [word.upper() for word in words[2:4]] == ["IF", "EXISTS"] else 2
        return self._without(_qualified(piece, at)[0]) if at < len(words) else self

    def _with_unknown(self, names: Iterable[str], line: int) -> Lineage:
        return replace(self, unknown={**self.unknown, **dict.fromkeys(names, line)})

    def _without(self, name: str) -> Lineage:
        queries = {known: query for known, query in self.queries.items() if known != name}
        unknown = {known: line for known, line in self.unknown.items() if known != name.rsplit(".", 1)[-1]}
        return replace(self, queries=queries, unknown=unknown, tables=self.tables - {name})

    def holds(self, name: str) -> bool:
        """Whether a statement made or changed the relation of this qualified name."""
        return name in self.queries or name in self.tables or name.rsplit(".", 1)[-1] in self.unknown

    def _transaction(self, word: str, line: int) -> Lineage:
        before = self.in_transaction
        if word in ("BEGIN", "START"):
            return replace(self, in_transaction=self)
        if word in ("COMMIT", "END") or before is None:
            return replace(self, in_transaction=None)
        return replace(before, in_transaction=None) if not self.blind else replace(before, blind=line)


def _changed(piece: Piece, words: list[str]) -> list[str]:
    """Plain names of what INSERT, UPDATE, DELETE, MERGE, TRUNCATE or ALTER changes, and of what it becomes."""
    at = 1
    while at < len(words) and words[at].upper() in _BEFORE_NAME:
        at += 1
    names = [_qualified(piece, at)[0]]
    upper = [word.upper() for word in words]
    if upper[0] == "ALTER" and "RENAME" in upper:
        names.append(words[-1].lower())
    return [name.rsplit(".", 1)[-1] for name in names]


def _plain(token: Token, script: str) -> str:
    """A word; a name without its quotes."""
    return str(token.text) if token.token_type == TokenType.IDENTIFIER else spelled(token, script)


def _qualified(piece: Piece, at: int) -> tuple[str, int]:
    """The name that begins at a word, parts joined by dots, and the word behind it."""
    parts = []
    while at < len(piece.tokens):
        parts.append(_plain(piece.tokens[at], piece.script).lower())
        at += 1
        if at >= len(piece.tokens) or piece.tokens[at].token_type != TokenType.DOT:
            break
        at += 1
    return ".".join(parts), at


def _names(tokens: Iterable[Token], script: str) -> set[str]:
    return {
        _plain(token, script).lower()
        for token in tokens
        if token.token_type == TokenType.IDENTIFIER or is_word(token, script)
    }


def _names_of_text(query: str) -> set[str]:
    from sparsehist.sqlfront.script import pieces

    return {name for piece in pieces(query) for name in _names(piece.tokens, query)}
