"""A whole script, read and checked before any of it runs.

The query of a series is checked in full unless a statement above it may make what it reads; then its words are
checked, and the rest when it runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
from sqlglot import TokenType

from sparsehist.declaration import Declaration
from sparsehist.errors import DeclarationError, NotFoundError, SparsehistError, StatementError, present
from sparsehist.release import any_kind
from sparsehist.release.calendar import span_of
from sparsehist.release.release_files import ENDINGS, check_target
from sparsehist.sqlfront.declaring import Declared, declared, declared_discovery, declared_for_step, pointed_at
from sparsehist.sqlfront.engine_words import parser_failure
from sparsehist.sqlfront.parameters import NO_VALUE
from sparsehist.sqlfront.reading import Statement, read_statement
from sparsehist.sqlfront.results import Outcome
from sparsehist.sqlfront.script import Piece, Place, pieces, pointed

if TYPE_CHECKING:
    from sparsehist.sqlfront.session import Session

_BEGUN = re.compile(r'create\s+(?:running\s+)?series\s+(?:if\s+not\s+exists\s+)?"?(\w+)', re.IGNORECASE)
_NOTHING_DONE = frozenset({"SELECT", "EXPLAIN", "LOAD"})
_CLAUSES = {
    **{name: name for name in ("threshold", "false_keys", "workload", "strategy", "step", "what", "measures")},
    "level": "levels",
    "open_delta": "delta",
}
"""Parameters of a release, and the fields of the statement that say them."""
_ENDINGS = {"release": ENDINGS, "choose keys": (".parquet",), "report store": (".html",)}


def asked_of(statement: Statement) -> dict[str, Any]:
    """What RELEASE or PLAN asks, as `any_kind.release` takes it; of several levels the first."""
    asked = {name: statement.asked[field] for name, field in _CLAUSES.items() if field in statement.asked}
    return asked | ({"level": asked["level"][0]} if "level" in asked else {})


@dataclass
class ScriptCheck:
    """What a script may refer to, as it changes from statement to statement.

    Attributes:
        session: Where the script is to run; nothing in it changes.
        series: By name, the declaration of each series, and None where that is not known.
        settled: Whether no statement so far makes tables, files or settings that a later query may read.
    """

    session: Session
    series: dict[str, Declaration | None] = field(default_factory=dict)
    settled: bool = True

    def checked(self, script: str) -> list[Statement | Outcome]:
        """Read and check every statement of a script; an outcome stands for one that is wrong."""
        try:
            found = pieces(script)
        except StatementError as problem:
            return [Outcome(0, 1, "not run", error=problem)]
        steps: list[Statement | Outcome] = []
        for piece in found:
            try:
                statement = read_statement(piece, self.session.parameters)
                if statement.kind:
                    statement = replace(statement, wanted=self._check(statement))
                else:
                    kind, _ = check_plain(piece, self.session)
                    self.settled &= kind in _NOTHING_DONE
                steps.append(statement)
            except SparsehistError as problem:
                steps.append(Outcome(piece.number, piece.line, "not run", error=problem))
                if begun := _BEGUN.match(piece.text):  # each mistake is told once
                    self.series.setdefault(begun[1].lower(), None)
        return steps

    def _check(self, statement: Statement) -> Declared | None:
        """Check a statement of our own, and return what its query must satisfy; an error shows the place."""
        kind, asked = statement.kind, statement.asked
        if kind == "create series" and statement.name in self.series and "flag" not in asked:
            raise statement.error(f"there is a series {statement.name} already: IF NOT EXISTS keeps it", "name")
        if kind in ("append", "set cap") or (kind == "drop series" and "flag" not in asked):
            self._check_series(statement, "name")
        if "series" in asked:
            self._check_series(statement, "series")
        if kind in ("release", "plan"):
            self._check_release(statement)
        self._check_target(statement)
        if kind == "drop series":
            self.series.pop(statement.name, None)
        return self._check_log(statement)

    def _check_target(self, statement: Statement) -> None:
        if "target" in statement.asked:
            store = None if self.session.store is None else self.session.store.path
            try:
                check_target("TO", Path(str(statement.asked["target"])), store, _ENDINGS[statement.kind])
            except SparsehistError as problem:
                raise statement.error(str(problem), "target") from None

    def _check_series(self, statement: Statement, field: str) -> None:
        name = str(statement.asked[field])
        if self.session.store is not None and name not in self.series:
            listed = ", ".join(sorted(self.series)) or "none"
            told = f"there is no series {name}; there are: {listed}"
            raise NotFoundError(pointed(told, statement.piece.script, statement.places[field]))

    def _check_log(self, statement: Statement) -> Declared | None:
        """Check what declares a series, appends to it or chooses keys, with its query."""
        kept = False
        if statement.kind == "create series":
            wanted, kept = declared(statement), statement.name in self.series
            self.series[statement.name] = wanted.declaration
        elif statement.kind == "choose keys":
            wanted = declared_discovery(statement)
        elif statement.kind == "append" and (declaration := self.series.get(statement.name)) is not None:
            wanted = declared_for_step(statement, declaration)
            if "period" in statement.asked:
                try:
                    span = span_of(present(declaration.every).period, statement.asked["period"])
                except DeclarationError as problem:
                    raise statement.error(str(problem), "period") from None
                self.series[f"{statement.name}_{span.name}"] = None
        else:
            return None
        if statement.query:
            (found,) = parsed(statement.piece, statement.places["query"], self.session.connection)
            if found.type != duckdb.StatementType.SELECT:
                raise statement.error("expected one query after AS", "query")
            self.session.check_query(statement, wanted, settled=self.settled and not kept)
        return wanted

    def _check_release(self, statement: Statement) -> None:
        declaration, levels = self.series.get(statement.asked["series"]), statement.asked.get("levels", ())
        self.settled &= statement.kind == "plan"
        if statement.kind == "release" and len(levels) > 1:
            raise statement.error("a release has one level; a plan may have several", "levels")
        if declaration is None:
            return
        places = {name: statement.places[field] for name, field in _CLAUSES.items() if field in statement.places}
        try:
            for level in levels or (None,):
                any_kind.request_of(declaration, statement.name or "plan", **asked_of(statement) | {"level": level})
            if "strategy" in statement.asked:
                from sparsehist.workload.strategies.names import check_strategy  # and linear algebra

                check_strategy(str(statement.asked["strategy"]))
        except SparsehistError as problem:
            raise pointed_at(statement, problem, places, {}) from None


def check_plain(piece: Piece, session: Session) -> tuple[str, set[str]]:
    """Check that DuckDB takes a statement for one whose parameters have values; return its kind and their names."""
    (statement,) = parsed(piece, piece.place, session.connection)
    names = set(statement.named_parameters)
    for name in sorted(names):
        place = _parameter_place(piece, name)
        if name.isdecimal():
            raise piece.error("a parameter is given by its name: $name", place)
        if name.lower() not in session.parameters:
            raise piece.error(NO_VALUE.format(name), place)
    return statement.type.name, names


def _parameter_place(piece: Piece, name: str) -> Place:
    for dollar, word in pairwise(piece.tokens):
        if dollar.token_type == TokenType.PARAMETER and str(word.text).lower() == name.lower():
            return Place(dollar.start, word.end + 1)
    unnamed = [token for token in piece.tokens if token.token_type == TokenType.PLACEHOLDER]
    return Place(unnamed[0].start, unnamed[0].end + 1) if unnamed else piece.place


def parsed(piece: Piece, place: Place, connection: duckdb.DuckDBPyConnection) -> list[Any]:
    """Let DuckDB parse a part of a script that is one statement."""
    text = piece.script[place.start : place.end]
    try:
        found = connection.extract_statements(text)
    except duckdb.Error as problem:
        message, at = parser_failure(text, problem)
        where = place if at is None else Place(place.start + at, place.start + at + 1)
        raise piece.error(message, where) from None
    if len(found) != 1:
        raise piece.error(f"DuckDB takes this for {len(found)} statements", place)
    return list(found)
