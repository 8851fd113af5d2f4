"""A whole script, read and checked before any of it runs.

The query of a series is checked in full unless a statement above it may make what it reads; then its words are
checked, and the rest when it runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
from sqlglot import TokenType

from sparsehist.declaration import Declaration
from sparsehist.errors import DeclarationError, NotFoundError, SparsehistError, StatementError, present
from sparsehist.privacy.guarantees import level_or_goal
from sparsehist.release.calendar import span_of
from sparsehist.release.cell_parameters import requested
from sparsehist.release.releases import check_target
from sparsehist.sqlfront.declaring import Declared, declared, declared_discovery, declared_for_step
from sparsehist.sqlfront.engine_words import parser_failure
from sparsehist.sqlfront.reading import NO_VALUE, Statement, meant, read_statement
from sparsehist.sqlfront.script import Piece, Place, pieces, pointed

_BEGUN = re.compile(r'create\s+(?:running\s+)?series\s+(?:if\s+not\s+exists\s+)?"?(\w+)', re.IGNORECASE)
_NOTHING_DONE = frozenset({"SELECT", "EXPLAIN", "LOAD"})


@dataclass(frozen=True)
class Problem:
    """What is wrong with a statement, by its number and line; 0 where the script cannot be cut into statements."""

    number: int
    line: int
    error: SparsehistError


@dataclass
class Known:
    """What a script may refer to, as it changes from statement to statement.

    Attributes:
        series: By name, the declaration of each that goes on, and None for others.
        complete: Whether these are all there are; if not, any series may be named.
        check_query: Checks the query of a series; with False, its words alone, as its tables are not there yet.
        store: Directory of the store, which no release is written into.
        settled: Whether no statement so far makes tables, files or settings that a later query may read.
    """

    check_query: Callable[[Statement, Declared, bool], object]
    series: dict[str, Declaration | None] = field(default_factory=dict)
    complete: bool = True
    store: Path | None = None
    settled: bool = True

    def check_series(self, statement: Statement, name: str) -> None:
        """Refuse a statement that names a series which is not there."""
        if self.complete and name not in self.series:
            listed = ", ".join(sorted(self.series)) or "none"
            place = statement.place("series" if "series" in statement.asked else "name")
            raise NotFoundError(
                pointed(f"there is no series {name}; there are: {listed}", statement.piece.script, place)
            )


def checked(
    script: str, parameters: Mapping[str, Any], known: Known, connection: duckdb.DuckDBPyConnection
) -> tuple[list[Statement], list[Problem]]:
    """Read a script and check every statement, running none: those that were read, and what is wrong with the others.

    `known` is what there is before the first statement, and is left as it is after the last.
    """
    try:
        found = pieces(script)
    except StatementError as problem:
        return [], [Problem(0, 1, problem)]
    statements, problems = [], []
    for piece in found:
        try:
            statement = read_statement(piece, parameters)
            if statement.kind:
                _check(statement, known, connection)
            else:
                check_plain(piece, parameters, connection)
                known.settled &= connection.extract_statements(piece.text)[0].type.name in _NOTHING_DONE
            statements.append(statement)
        except SparsehistError as problem:
            problems.append(Problem(piece.number, piece.line, problem))
            if begun := _BEGUN.match(piece.text):  # each mistake is told once
                known.series.setdefault(begun[1].lower(), None)
    return statements, problems


def check_plain(piece: Piece, parameters: Mapping[str, Any], connection: duckdb.DuckDBPyConnection) -> set[str]:
    """Check that DuckDB takes a statement for one, and that its parameters have values; returns their names."""
    (statement,) = parsed(piece, piece.place, connection, hint=meant(piece))
    names = set(statement.named_parameters)
    for name in sorted(names):
        place = _parameter_place(piece, name)
        if name.isdecimal():
            raise piece.error("a parameter is given by its name: $name", place)
        if name.lower() not in parameters:
            raise piece.error(NO_VALUE.format(name), place)
    return names


def _parameter_place(piece: Piece, name: str) -> Place:
    for dollar, word in pairwise(piece.tokens):
        if dollar.token_type == TokenType.PARAMETER and str(word.text).lower() == name.lower():
            return Place(dollar.start, word.end + 1)
    unnamed = [token for token in piece.tokens if token.token_type == TokenType.PLACEHOLDER]
    return Place(unnamed[0].start, unnamed[0].end + 1) if unnamed else piece.place


def parsed(piece: Piece, place: Place, connection: duckdb.DuckDBPyConnection, *, hint: str = "") -> list[Any]:
    """Let DuckDB parse a part of a script that is one statement."""
    text = piece.script[place.start : place.end]
    try:
        found = connection.extract_statements(text)
    except duckdb.Error as problem:
        message, at = parser_failure(text, problem)
        where = place if at is None else Place(place.start + at, place.start + at + 1)
        raise piece.error(message + hint, where) from None
    if len(found) != 1:
        raise piece.error(f"DuckDB takes this for {len(found)} statements", place)
    return list(found)


def _check(statement: Statement, known: Known, connection: duckdb.DuckDBPyConnection) -> None:
    """Check a statement of our own; an error shows the place."""
    kind, asked = statement.kind, statement.asked
    if kind == "create series" and statement.name in known.series and "flag" not in asked:
        told = f"there is a series {statement.name} already: IF NOT EXISTS keeps it"
        raise statement.error(told, "name")
    if kind in ("append", "set cap") or (kind == "drop series" and "flag" not in asked):
        known.check_series(statement, statement.name)
    if "series" in asked:
        known.check_series(statement, asked["series"])
    if kind in ("create series", "append"):
        _check_log(statement, known, connection)
    elif kind == "choose keys":
        check_select(statement, connection)
        known.check_query(statement, declared_discovery(statement)[0], known.settled)
        if "target" in asked:
            check_target("TO", Path(asked["target"]), known.store)
    elif kind == "drop series":
        known.series.pop(statement.name, None)
    elif kind in ("release", "plan"):
        _check_release(statement, known)
        known.settled &= kind == "plan"
    elif kind == "show ledger" and not 0 <= asked.get("delta", 0) < 1:
        raise statement.error(f"delta must be at least 0 and below 1, got {asked['delta']:g}", "delta")


def _check_log(statement: Statement, known: Known, connection: duckdb.DuckDBPyConnection) -> None:
    """Check what declares a series or appends to it, with its query."""
    kept = statement.kind == "create series" and statement.name in known.series
    wanted = check_log(statement, known.series.get(statement.name), connection)
    if wanted is None:
        return
    if statement.kind == "create series":
        known.series[statement.name] = wanted.declaration
    elif "period" in statement.asked:
        try:
            span = span_of(present(wanted.declaration.every).period, statement.asked["period"])
        except DeclarationError as problem:
            raise statement.error(str(problem), "period") from None
        known.series[f"{statement.name}_{span.name}"] = None
    if statement.query:
        known.check_query(statement, wanted, known.settled and not kept)


def _check_release(statement: Statement, known: Known) -> None:
    asked = statement.asked
    name = requested if statement.name else lambda _: None

    def check_false_keys(asked: str) -> Callable[[Any], object]:
        return lambda value: requested("any", **{asked: value})

    checks: dict[str, Callable[[Any], object]] = {
        "levels": lambda levels: [level_or_goal(level) for level in levels],
        "threshold": check_false_keys("threshold"),
        "false_keys": check_false_keys("false_keys"),
        "delta": check_false_keys("open_delta"),
        "name": name,
        "workload": _check_workload,
        "strategy": _check_strategy,
        "target": lambda target: check_target("TO", Path(target), known.store),
    }
    if statement.kind == "release" and len(asked.get("levels", ())) > 1:
        raise statement.error("a release has one level; a plan may have several", "levels")
    if "strategy" in asked and "workload" not in asked:
        raise statement.error("STRATEGY belongs to a workload: USING names it", "strategy")
    for parameter, check in checks.items():
        if parameter in asked:
            try:
                check(asked[parameter])
            except SparsehistError as problem:
                raise statement.error(str(problem), parameter) from None


def _check_workload(text: str) -> None:
    from sparsehist.workload import Workload

    Workload.parse(text)


def _check_strategy(text: str) -> None:
    from sparsehist.workload.strategies.names import check_strategy

    check_strategy(text)


def check_log(
    statement: Statement, known: Declaration | None, connection: duckdb.DuckDBPyConnection
) -> Declared | None:
    """Check the options, and that the query is one SELECT; returns what it is checked by, if its series is known."""
    if statement.query:
        check_select(statement, connection)
    if statement.kind == "create series":
        return declared(statement)
    if not {"step", "period"} & statement.asked.keys():
        raise statement.error("expected STEP or PERIOD", "query")
    return declared_for_step(statement, known)


def check_select(statement: Statement, connection: duckdb.DuckDBPyConnection) -> None:
    """Refuse a statement whose query is not one SELECT."""
    (found,) = parsed(statement.piece, statement.places["query"], connection)
    if found.type != duckdb.StatementType.SELECT:
        raise statement.error("expected one query after AS", "query")
