"""A script's own tables and views, made without rows and taken back, so that its queries are checked before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Any, Self

import duckdb

from sparsehist.sqlfront.lineage import Lineage, numbered
from sparsehist.sqlfront.parameters import bindable
from sparsehist.sqlfront.script import Piece
from sparsehist.sqlfront.written_names import plain

_NOTHING_DONE = frozenset({"SELECT", "EXPLAIN", "LOAD"})
_MADE = frozenset({"CREATE", "DROP"})
_OF_ROWS = frozenset({"TYPE", "INDEX", "UNIQUE", "SECRET", "SEQUENCE"})


class Rehearsal:
    """What a script will have made when its next statement runs; a context manager.

    Tables are made without rows, in a transaction that is rolled back. What cannot be tried like that (files,
    settings, attached databases) makes the rest `unsure`: its queries are checked when they run, and only then.

    Args:
        connection: Where the script is to run.
        lineage: What the session did before.
        parameters: Values for $name, by name in lower case.
        in_transaction: Whether a transaction is open, which cannot be rolled back.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        lineage: Lineage,
        parameters: Mapping[str, Any],
        *,
        in_transaction: bool,
    ) -> None:
        self.connection = connection
        self.lineage = self._before = lineage
        self.parameters = {name: bindable(value) for name, value in parameters.items()}
        self._in_transaction = in_transaction
        self._begun = self.unsure = False
        self._made: list[Piece] = []

    def __enter__(self) -> Self:
        """Return the rehearsal."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take back all that was made."""
        if self._begun:
            self.connection.rollback()

    def run(self, piece: Piece, names: Collection[str]) -> None:
        """Make what a statement of DuckDB would make, without rows."""
        kind = self.connection.extract_statements(piece.text)[0].type.name
        if self.unsure or kind in _NOTHING_DONE:
            return
        words = [plain(token, piece.script).upper() for token in piece.tokens]
        if kind not in _MADE or _OF_ROWS & set(words[:5]) or self._in_transaction or names:
            self.unsure = True
            return
        try:
            self._make(piece)
            self._made.append(piece)
        except duckdb.CatalogException:  # it will fail, as when there is a table of that name, and so leave nothing
            self._again()
        except duckdb.Error:
            self.unsure = True

    def _make(self, piece: Piece) -> None:
        if not self._begun:
            self.connection.begin()
            self._begun = True
        there = set(numbered(self.connection))
        self.lineage, made = self.lineage.before(piece, self.connection, {})
        # The comment that may end a statement would hide what stands behind it.
        self.connection.execute(f"{piece.text}\n{'with no data' if made is not None else ''}")
        self.lineage = self.lineage.after(made, there, self.connection)

    def _again(self) -> None:
        """Make all anew that could be made: an error ends a transaction."""
        self.connection.rollback()
        self._begun, self.lineage = False, self._before
        for piece in self._made:
            self._make(piece)

    def check(self, checks: Callable[[], object]) -> None:
        """Check a query, unless what it reads is not known or not there yet.

        Raises:
            SparsehistError: What the check raises.
        """
        try:
            if not self.unsure:
                checks()
        except duckdb.Error:
            return
