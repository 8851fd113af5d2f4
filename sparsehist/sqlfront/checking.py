"""A whole script, read and checked before any of it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
from sqlglot import TokenType

from sparsehist.errors import NotFoundError, SparsehistError, StatementError
from sparsehist.guarantee.places import Place
from sparsehist.privacy.guarantees import level_or_goal
from sparsehist.series.request import requested
from sparsehist.sqlfront.declaring import Declared, declared
from sparsehist.sqlfront.engine_words import parser_failure
from sparsehist.sqlfront.heads import CreateSeries, DropSeries, Head, MakeRelease, Show, Statement
from sparsehist.sqlfront.lineage import Lineage
from sparsehist.sqlfront.publishing import check_target
from sparsehist.sqlfront.reading import meant, read_head
from sparsehist.sqlfront.rehearsal import Rehearsal
from sparsehist.sqlfront.script import Piece, pieces, pointed
from sparsehist.sqlfront.series_query import check_series_query


@dataclass(frozen=True)
class Problem:
    """What is wrong with a statement.

    Attributes:
        number: Of the statement in the script, from 1; 0 where the script cannot be cut into statements.
        line: Where it begins.
        error: What is wrong; its message shows the place.
    """

    number: int
    line: int
    error: SparsehistError


@dataclass
class Known:
    """What a script may refer to, as it changes from statement to statement.

    Attributes:
        series: Names of the series; None where there is no store to ask.
        lineage: What tables and views were made from.
        store: Directory of the store, which no release is written into.
        in_transaction: Whether a transaction is open.
    """

    series: set[str] | None
    lineage: Lineage = field(default_factory=Lineage)
    store: Path | None = None
    in_transaction: bool = False


def checked(
    script: str, parameters: Mapping[str, Any], known: Known, connection: duckdb.DuckDBPyConnection
) -> tuple[list[Statement], list[Problem]]:
    """Read a script and check every statement, running none.

    Args:
        script: Any number of statements.
        parameters: Values for $name, by name in lower case.
        known: What there is before the first statement; left as it is after the last.
        connection: Parses what goes to DuckDB.

    Returns:
        The statements that were read, and what is wrong with the others, in order.
    """
    try:
        found = pieces(script)
    except StatementError as problem:
        return [], [Problem(0, 1, problem)]
    statements, problems = [], []
    with Rehearsal(connection, known.lineage, parameters, in_transaction=known.in_transaction) as rehearsal:
        for piece in found:
            try:
                head = read_head(piece, parameters)
                if head is None:
                    rehearsal.run(piece, check_plain(piece, parameters, connection))
                else:
                    _check_head(piece, head, known, rehearsal)
                statements.append(Statement(piece, head))
            except SparsehistError as problem:
                problems.append(Problem(piece.number, piece.line, problem))
                _go_on(piece, known)
    return statements, problems


def _go_on(piece: Piece, known: Known) -> None:
    """Take a series that is badly declared for one that exists: each mistake is told once."""
    words = piece.text.split()
    if known.series is not None and [word.upper() for word in words[:2]] == ["CREATE", "SERIES"]:
        names = [word for word in words[2:7] if word.upper() not in ("IF", "NOT", "EXISTS")]
        known.series.add(names[0].strip('"(').lower() if names else "")


def check_plain(piece: Piece, parameters: Mapping[str, Any], connection: duckdb.DuckDBPyConnection) -> set[str]:
    """Check that DuckDB takes a statement for one, and that its parameters have values; returns their names.

    Raises:
        StatementError: If not; says where.
    """
    (statement,) = parsed(piece.script, piece.place, connection, hint=meant(piece))
    names = set(statement.named_parameters)
    for name in sorted(names):
        place = _parameter_place(piece, name)
        if name.isdecimal():
            raise StatementError(pointed("a parameter is given by its name: $name", piece.script, place))
        if name.lower() not in parameters:
            message = f"the parameter ${name} has no value: give it with --param {name}=… or parameters={{…}}"
            raise StatementError(pointed(message, piece.script, place))
    return names


def _parameter_place(piece: Piece, name: str) -> Place:
    for dollar, word in pairwise(piece.tokens):
        if dollar.token_type == TokenType.PARAMETER and str(word.text).lower() == name.lower():
            return Place(dollar.start, word.end + 1)
    unnamed = [token for token in piece.tokens if token.token_type == TokenType.PLACEHOLDER]
    return Place(unnamed[0].start, unnamed[0].end + 1) if unnamed else piece.place


def parsed(script: str, place: Place, connection: duckdb.DuckDBPyConnection, *, hint: str = "") -> list[Any]:
    """Let DuckDB parse a part of a script that is one statement."""
    text = script[place.start : place.end]
    try:
        found = connection.extract_statements(text)
    except duckdb.Error as problem:
        message, at = parser_failure(text, problem)
        where = place if at is None else Place(place.start + at, place.start + at + 1)
        raise StatementError(pointed(message + hint, script, where)) from None
    if len(found) != 1:
        raise StatementError(pointed(f"DuckDB takes this for {len(found)} statements", script, place))
    return list(found)


def _check_head(piece: Piece, head: Head, known: Known, rehearsal: Rehearsal) -> None:
    """Check a statement of our own.

    Raises:
        SparsehistError: If it cannot succeed; shows the place.
    """
    if isinstance(head, CreateSeries):
        if known.series is not None and head.name in known.series and not head.reuse:
            message = f"there is a series {head.name} already: IF NOT EXISTS keeps it"
            raise StatementError(pointed(message, piece.script, head.name_place))
        wanted = check_options(piece, head, rehearsal.connection)
        seen = (rehearsal.lineage, rehearsal.connection, rehearsal.parameters)
        rehearsal.check(lambda: check_series_query(piece, head, wanted, *seen))
        if known.series is not None:
            known.series.add(head.name)
    elif isinstance(head, DropSeries):
        if not head.if_exists:
            _check_known(piece, head.name, head.place, known)
        if known.series is not None:
            known.series.discard(head.name)
    elif isinstance(head, Show):
        _check_show(piece, head, known)
    else:
        _check_known(piece, head.series, head.places["series"], known)
        _check_release(piece, head, known)


def _check_show(piece: Piece, head: Show, known: Known) -> None:
    if head.series is not None:
        _check_known(piece, head.series, head.place, known)
    if head.delta is not None and not 0 <= head.delta < 1:
        message = f"delta must be at least 0 and below 1, got {head.delta:g}"
        raise StatementError(pointed(message, piece.script, head.place or piece.place))


def _check_known(piece: Piece, name: str, place: Place | None, known: Known) -> None:
    if known.series is not None and name not in known.series:
        listed = ", ".join(sorted(known.series)) or "none"
        message = pointed(f"there is no series {name}; there are: {listed}", piece.script, place or piece.place)
        raise NotFoundError(message)


def _check_release(piece: Piece, head: MakeRelease, known: Known) -> None:
    def at(field: str, check: Callable[[], object]) -> None:
        try:
            check()
        except SparsehistError as problem:
            raise StatementError(pointed(str(problem), piece.script, head.places.get(field, piece.place))) from None

    for level in head.levels:
        at("levels", lambda level=level: level_or_goal(level))  # type: ignore[misc]
    for asked in ("threshold", "false_keys", "delta"):
        given = {"threshold": None, "false_keys": None, "delta": None, asked: getattr(head, asked)}
        at(asked, lambda given=given: requested("any", level=None, **given))  # type: ignore[misc]
    if head.name is not None:
        at("name", lambda: requested(str(head.name), level=None, threshold=None, false_keys=None))
    if head.workload is not None:
        at("workload", lambda: _check_workload(str(head.workload)))
    if head.strategy is not None:
        at("strategy", lambda: _check_strategy(str(head.strategy)))
    if head.target is not None:
        at("target", lambda: check_target(str(head.target), known.store))


def _check_workload(text: str) -> None:
    from sparsehist.workload import Workload

    Workload.parse(text)


def _check_strategy(text: str) -> None:
    from sparsehist.workload.strategies.strategy_text import check_name

    check_name(text)


def check_options(piece: Piece, head: CreateSeries, connection: duckdb.DuckDBPyConnection) -> Declared:
    """Check the options of a series, and that it is made from one query.

    Raises:
        StatementError: If an option is wrong, or the query is no SELECT.
    """
    (statement,) = parsed(piece.script, head.query_place, connection)
    if statement.type != duckdb.StatementType.SELECT:
        raise StatementError(pointed("expected one query after AS", piece.script, head.query_place))
    return declared(piece.script, head)
