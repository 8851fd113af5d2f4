"""From the options of CREATE SERIES to the parameters of `sparsehist.create`, and the check of its query.

The fields of `Declaration` say what options there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sparsehist.counting.contract import ClosedQuery, Query
from sparsehist.counting.queries import checked
from sparsehist.declaration import Declaration
from sparsehist.declaration.parameters import needed, parameters, sql_words
from sparsehist.errors import DeclarationError, GuaranteeError, SparsehistError, raise_alone
from sparsehist.guarantee.statement import Lookup, check_words
from sparsehist.sqlfront.heads import AppendStep, Counted, CreateSeries
from sparsehist.sqlfront.script import Piece, Place, pointed

# What CREATE SERIES takes besides the parameters of the declaration.
_OWN_OPTIONS = {"public_tables"}
_HOW_TO_COUNT = {"memory_limit", "threads"}
_OF_THE_STATEMENT = {"steps"}
_NOT_FOR_STEPS = {"bounding", "noise"}
_WORDS = sql_words(Declaration)
NEEDED = ("unit", *(word for word, name in _WORDS.items() if name in needed(Declaration)))
# A schema of the name would be DuckDB's own, or could not be told from a catalog.
TAKEN_NAMES = frozenset({"main", "memory", "temp", "system", "information_schema", "pg_catalog"})


class Declared(NamedTuple):
    """What WITH (…) says: the declaration, names of public tables, and how the log is counted."""

    declaration: Declaration
    public_tables: frozenset[str]
    counting: Mapping[str, Any] = {}


def declared(piece: Piece, head: CreateSeries) -> Declared:
    """Check the options of a series; errors show the place."""
    if head.name in TAKEN_NAMES:
        message = f"{head.name} cannot name a series here: in SQL, {head.name}.public would be DuckDB's own"
        raise piece.error(message, head.name_place)
    _check_names(piece, head)
    values = {name: option.value for name, option in head.options.items()}
    public = values.pop("public_tables", ())
    counting = {name: values[name] for name in values.keys() & _HOW_TO_COUNT}
    declaration = _declaration(piece, head, {"name": head.name, **values})
    return Declared(declaration, frozenset(_listed(public)), counting)


def declared_for_step(piece: Piece, head: AppendStep, declaration: Declaration | None) -> Declared | None:
    """What an appended query is checked by; None where its series is not known yet. Errors show the place."""
    for name, option in head.options.items():
        if name not in _OWN_OPTIONS:
            raise piece.error(f"there is no option {name}; the one option is public_tables", option.place)
    if declaration is None:
        return None
    if (declaration.steps if head.period is None else declaration.every) is None:
        kind = "running series, which has steps" if head.period is None else "series of periods"
        raise piece.error(f"{head.name} is not a {kind}", head.name_place)
    tables = [option.value for option in head.options.values()]
    return Declared(declaration, frozenset(name for given in tables for name in _listed(given)))


def options(*, running: bool = False) -> list[str]:
    """Names of all options, those that are needed first."""
    known = (_WORDS.keys() | _OWN_OPTIONS) - _OF_THE_STATEMENT
    known = known - _NOT_FOR_STEPS - {"every"} if running else known | _HOW_TO_COUNT
    return [*NEEDED, *sorted(known - set(NEEDED))]


def _check_names(piece: Piece, head: CreateSeries) -> None:
    known = options(running=head.steps is not None)
    for name, option in head.options.items():
        if name not in known:
            raise piece.error(f"there is no option {name}; options are {', '.join(known)}", option.place)
        several = name in _OWN_OPTIONS or (name in _WORDS and parameters(Declaration)[_WORDS[name]].several)
        if isinstance(option.value, tuple) and not several:
            raise piece.error(f"{name} takes one value", option.place)
    missing = [name for name in NEEDED if name not in head.options]
    if missing:
        example = ", ".join(f"{name} = {parameters(Declaration)[_WORDS[name]].example}" for name in missing)
        raise piece.error(f"WITH has no {' and no '.join(missing)}; for example {example}", head.name_place)


def _listed(tables: str | tuple[str, ...]) -> tuple[str, ...]:
    return (tables,) if isinstance(tables, str) else tables


def _declaration(piece: Piece, head: CreateSeries, given: Mapping[str, Any]) -> Declaration:
    told = {_WORDS.get(name, name): given[name] for name in given if name not in _HOW_TO_COUNT}
    if head.steps is not None:
        told["steps"] = head.steps
    try:
        return Declaration(**told)
    except DeclarationError as problem:
        raise piece.error(str(problem), _place_of(problem, head)) from None


def _place_of(problem: SparsehistError, head: CreateSeries) -> Place:
    """The option that an error is about."""
    words = {field: word for word, field in _WORDS.items()}
    named = words.get(problem.parameter or "", "")
    if named in head.options:
        return head.options[named].place
    message = str(problem)
    found = [(message.find(name), name) for name in head.options if name in message]
    return head.options[min(found)[1]].place if found else head.name_place


def checked_query(
    piece: Piece, head: Counted, wanted: Declared, query: Query, lookup: Lookup, *, settled: bool
) -> ClosedQuery | None:
    """Return the query of a series as it is to be run, or refuse it; errors show the place.

    Args:
        piece: The statement.
        head: What it says.
        wanted: The declaration that the query must satisfy.
        query: The query, with its tables.
        lookup: What further names in FROM stand for.
        settled: Whether all that it reads is there; if not, its words alone are checked, and None is returned.
    """
    place = head.query_place
    try:
        if not settled:
            if not query.unverified:
                check_words(query.sql, query.parameters or {})
            return None
        return checked(query, wanted.declaration.unit or (), wanted.declaration.key, lookup)
    except GuaranteeError as problem:
        where = Place(place.start + problem.start, place.start + problem.end)
        message = pointed(problem.reason, piece.script, where)
        raise_alone(GuaranteeError(message, reason=problem.reason, start=where.start, end=where.end))
    except SparsehistError as problem:
        raise_alone(type(problem)(pointed(str(problem), piece.script, place)))
