"""A whole script, read and checked before any of it runs.

The query of a series is checked in full unless a statement above it may make what it reads; then its words are
checked, and the rest when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
from sqlglot import TokenType

from sparsehist.declaration import Declaration
from sparsehist.errors import (
    DeclarationError,
    NameTakenError,
    NotFoundError,
    SparsehistError,
    StatementError,
    of_kind,
    present,
)
from sparsehist.privacy.guarantees import level_or_goal
from sparsehist.release.calendar import span_of
from sparsehist.release.cell_parameters import requested
from sparsehist.release.releases import check_target
from sparsehist.sqlfront.declaring import Declared, declared, declared_for_step
from sparsehist.sqlfront.engine_words import parser_failure
from sparsehist.sqlfront.heads import (
    AppendStep,
    Counted,
    CreateSeries,
    DropSeries,
    Head,
    MakeRelease,
    Show,
    Statement,
)
from sparsehist.sqlfront.reading import NO_VALUE, meant, read_head
from sparsehist.sqlfront.script import Piece, Place, pieces, pointed

_NOTHING_DONE = frozenset({"SELECT", "EXPLAIN", "LOAD"})
_ASKED = ("threshold", "false_keys", "delta", "workload", "strategy", "step", "what", "measures")


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
        series: Names of the series; None where there is no store to ask.
        check_query: Checks the query of a series; with False, its words alone, as its tables are not there yet.
        store: Directory of the store, which no release is written into.
        check_name: Refuses a release whose name stands for another request in the store.
        made: The releases of the script so far, by series and name.
        dropped: Series the script drops.
        declared: Series that go on, as they stand or will; None for others, as far as they are known.
        settled: Whether no statement so far makes tables, files or settings that a later query may read.
    """

    series: set[str] | None
    check_query: Callable[[Piece, Counted, Declared, bool], object]
    store: Path | None = None
    check_name: Callable[[MakeRelease], None] = lambda _: None
    made: dict[tuple[str, str], MakeRelease] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    declared: dict[str, Declaration | None] = field(default_factory=dict)
    settled: bool = True


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
            head = read_head(piece, parameters)
            if head is None:
                check_plain(piece, parameters, connection)
                known.settled &= connection.extract_statements(piece.text)[0].type.name in _NOTHING_DONE
            else:
                _check_head(piece, head, known, connection)
            statements.append(Statement(piece, head))
        except SparsehistError as problem:
            problems.append(Problem(piece.number, piece.line, problem))
            _go_on(piece, known)
    return statements, problems


def _go_on(piece: Piece, known: Known) -> None:
    """Treat a series that is badly declared as one that exists, so that each mistake is told once."""
    words = piece.text.split()
    first = [word.upper() for word in words[:3]]
    if known.series is not None and first[:1] == ["CREATE"] and "SERIES" in first[1:]:
        names = [word for word in words[1:8] if word.upper() not in ("RUNNING", "SERIES", "IF", "NOT", "EXISTS")]
        name = names[0].strip('"(').lower() if names else ""
        known.series.add(name)
        known.declared.pop(name, None)


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


def _check_head(piece: Piece, head: Head, known: Known, connection: duckdb.DuckDBPyConnection) -> None:
    """Check a statement of our own; an error shows the place."""
    if isinstance(head, Counted):
        _check_counted(piece, head, known, connection)
    elif isinstance(head, DropSeries):
        if not head.if_exists:
            _check_known(piece, head.name, head.place, known)
        if known.series is not None:
            known.series.discard(head.name)
        known.dropped.add(head.name)
        known.made = {made: release for made, release in known.made.items() if made[0] != head.name}
    elif isinstance(head, Show):
        _check_show(piece, head, known)
    elif isinstance(head, MakeRelease):
        _check_known(piece, head.series, head.places["series"], known)
        _check_release(piece, head, known)
        known.settled &= head.only_plan


def _check_counted(piece: Piece, head: Counted, known: Known, connection: duckdb.DuckDBPyConnection) -> None:
    """Check what declares a series or appends to it, with its query."""
    if not isinstance(head, CreateSeries):
        _check_known(piece, head.name, head.name_place, known)
    elif known.series is not None and head.name in known.series and not head.reuse:
        raise piece.error(f"there is a series {head.name} already: IF NOT EXISTS keeps it", head.name_place)
    kept = known.series is not None and head.name in known.series and isinstance(head, CreateSeries)
    wanted = check_counted(piece, head, known.declared.get(head.name), connection)
    if isinstance(head, CreateSeries) and wanted is not None:
        known.declared[head.name] = wanted.declaration
        if known.series is not None:
            known.series.add(head.name)
    if isinstance(head, AppendStep) and head.period is not None and wanted is not None and known.series is not None:
        try:
            every = present(wanted.declaration.every)
            known.series.add(f"{head.name}_{span_of(every.period, head.period).name}")
        except DeclarationError as problem:
            raise piece.error(str(problem)) from None
    if head.query and wanted is not None:
        known.check_query(piece, head, wanted, known.settled and not kept)


def _check_show(piece: Piece, head: Show, known: Known) -> None:
    if head.series is not None:
        _check_known(piece, head.series, head.place, known)
    if head.delta is not None and not 0 <= head.delta < 1:
        raise piece.error(f"delta must be at least 0 and below 1, got {head.delta:g}", head.place)


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
            kind = NameTakenError if isinstance(problem, NameTakenError) else StatementError
            raise kind(pointed(str(problem), piece.script, head.places.get(field, piece.place))) from None

    for level in head.levels:
        at("levels", lambda level=level: level_or_goal(level))  # type: ignore[misc]
    for asked in ("threshold", "false_keys", "delta"):
        given = {"open_delta" if asked == "delta" else asked: getattr(head, asked)}
        at(asked, lambda given=given: requested("any", **given))  # type: ignore[misc]
    if head.name is not None:
        at("name", lambda: requested(str(head.name)))
    checks: dict[str, Callable[[], object]] = {
        "workload": lambda: _check_workload(str(head.workload)),
        "strategy": lambda: _check_strategy(str(head.strategy)),
        "target": lambda: check_target("TO", Path(str(head.target)), known.store),
    }
    for asked, check in checks.items():
        if getattr(head, asked) is not None:
            at(asked, check)
    if head.name is not None and not head.only_plan:
        at("name", lambda: _check_name(head, known))


def _check_name(head: MakeRelease, known: Known) -> None:
    """Refuse a name that stands for another release, in the store or above in the script.

    What one of two statements leaves out agrees with the other.
    """
    if head.series not in known.dropped:
        known.check_name(head)
    before = known.made.setdefault((head.series, str(head.name)), head)
    asked = {name: (getattr(before, name), getattr(head, name)) for name in _ASKED}
    asked["level"] = (list(map(level_or_goal, before.levels)), list(map(level_or_goal, head.levels)))
    differing = [name for name, (one, other) in asked.items() if one and other and one != other]
    if differing:
        told = " and ".join(differing)
        raise NameTakenError(f"{head.name} stands above in this script with another {told}: use another name")


def _check_workload(text: str) -> None:
    from sparsehist.workload import Workload

    Workload.parse(text)


def _check_strategy(text: str) -> None:
    from sparsehist.workload.strategies.names import check_strategy

    check_strategy(text)


def check_counted(
    piece: Piece, head: Counted, known: Declaration | None, connection: duckdb.DuckDBPyConnection
) -> Declared | None:
    """Check the options, and that the query is one SELECT; returns what it is checked by, if its series is known."""
    if head.query:
        (statement,) = parsed(piece, head.query_place, connection)
        if statement.type != duckdb.StatementType.SELECT:
            raise piece.error("expected one query after AS", head.query_place)
    return (
        declared(piece, head)
        if isinstance(head, CreateSeries)
        else declared_for_step(piece, of_kind(head, AppendStep), known)
    )
