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
from sparsehist.domain import Open
from sparsehist.errors import DeclarationError, GuaranteeError, SparsehistError, raise_alone
from sparsehist.guarantee.statement import Lookup, check_words
from sparsehist.sqlfront.reading import Statement
from sparsehist.sqlfront.script import Place, pointed

# What CREATE SERIES takes besides the parameters of the declaration.
_OWN_OPTIONS = {"public_tables"}
_HOW_TO_COUNT = {"memory_limit", "threads"}
_OF_THE_STATEMENT = {"steps"}
_NOT_FOR_STEPS = {"bounding", "noise"}
_OF_DISCOVERY = ("unit", "key", "most_keys", "delta", "rounds", "kind", "population", "on_null")
_WORDS = sql_words(Declaration)
NEEDED = ("unit", *(word for word, name in _WORDS.items() if name in needed(Declaration)))
# A schema of the name would be DuckDB's own, or could not be told from a catalog.
TAKEN_NAMES = frozenset({"main", "memory", "temp", "system", "information_schema", "pg_catalog"})


class Declared(NamedTuple):
    """What WITH (…) says: the declaration, names of public tables, and how the log is counted."""

    declaration: Declaration
    public_tables: frozenset[str]
    counting: Mapping[str, Any] = {}


def declared(statement: Statement) -> Declared:
    """Check the options of a series; errors show the place."""
    if statement.name in TAKEN_NAMES:
        message = f"{statement.name} cannot name a series here: in SQL, {statement.name}.public would be DuckDB's own"
        raise statement.error(message, "name")
    _check_names(statement)
    values = {name: option.value for name, option in statement.options.items()}
    public = values.pop("public_tables", ())
    counting = {name: values.pop(name) for name in values.keys() & _HOW_TO_COUNT}
    told = {"name": statement.name, **{_WORDS.get(name, name): value for name, value in values.items()}}
    if "steps" in statement.asked:
        told["steps"] = statement.asked["steps"]
    try:
        declaration = Declaration(**told)
    except DeclarationError as problem:
        raise statement.piece.error(str(problem), _place_of(problem, statement)) from None
    if not statement.query and declaration.steps is None and declaration.every is None:
        raise statement.error("expected AS and a query: it reads the log", "name")
    if statement.query and declaration.every is not None:
        raise statement.error("a series of periods has no query: APPEND TO it", "query")
    return Declared(declaration, frozenset(_listed(public)), counting)


def declared_for_step(statement: Statement, declaration: Declaration | None) -> Declared | None:
    """Return the declaration that an appended query must satisfy, or None if the series is not known yet."""
    for name, option in statement.options.items():
        if name not in _OWN_OPTIONS:
            told = f"there is no option {name}; the one option is public_tables"
            raise statement.piece.error(told, option.place)
    if declaration is None:
        return None
    if (declaration.steps if "step" in statement.asked else declaration.every) is None:
        kind = "running series, which has steps" if "step" in statement.asked else "series of periods"
        raise statement.error(f"{statement.name} is not a {kind}", "name")
    tables = [option.value for option in statement.options.values()]
    return Declared(declaration, frozenset(name for given in tables for name in _listed(given)))


def declared_discovery(statement: Statement) -> tuple[Declared, dict[str, Any]]:
    """Check the options of CHOOSE KEYS: what its query must satisfy, and the parameters of `discover_keys`."""
    asked = {name: option.value for name, option in statement.options.items()}
    for name, option in statement.options.items():
        if name not in (*_OF_DISCOVERY, *_OWN_OPTIONS):
            told = f"there is no option {name}; options are {', '.join((*_OF_DISCOVERY, *sorted(_OWN_OPTIONS)))}"
            raise statement.piece.error(told, option.place)
    if missing := [name for name in _OF_DISCOVERY[:4] if name not in asked]:
        raise statement.error(f"WITH has no {' and no '.join(missing)}", "options")
    public = frozenset(_listed(asked.pop("public_tables", ())))
    asked["delta"] = str(asked["delta"])
    try:
        declaration = Declaration(
            name=statement.name, unit=asked["unit"], key=asked["key"], max_keys=1,
            domain=Open(asked.get("kind", "string"), delta=asked["delta"]),
        )  # fmt: skip
    except DeclarationError as problem:
        raise statement.piece.error(str(problem), _place_of(problem, statement)) from None
    return Declared(declaration, public), asked


def options(*, running: bool = False) -> list[str]:
    """Names of all options, those that are needed first."""
    known = (_WORDS.keys() | _OWN_OPTIONS) - _OF_THE_STATEMENT
    known = known - _NOT_FOR_STEPS - {"every"} if running else known | _HOW_TO_COUNT
    return [*NEEDED, *sorted(known - set(NEEDED))]


def _check_names(statement: Statement) -> None:
    known = options(running="steps" in statement.asked)
    for name, option in statement.options.items():
        if name not in known:
            told = f"there is no option {name}; options are {', '.join(known)}"
            raise statement.piece.error(told, option.place)
        several = name in _OWN_OPTIONS or (name in _WORDS and parameters(Declaration)[_WORDS[name]].several)
        if isinstance(option.value, tuple) and not several:
            raise statement.piece.error(f"{name} takes one value", option.place)
    missing = [name for name in NEEDED if name not in statement.options]
    if missing:
        example = ", ".join(f"{name} = {parameters(Declaration)[_WORDS[name]].example}" for name in missing)
        raise statement.error(f"WITH has no {' and no '.join(missing)}; for example {example}", "name")


def _listed(tables: str | tuple[str, ...]) -> tuple[str, ...]:
    return (tables,) if isinstance(tables, str) else tables


def _place_of(problem: SparsehistError, statement: Statement) -> Place:
    """The option that an error is about."""
    words, given = {field: word for word, field in _WORDS.items()}, statement.options
    named = words.get(problem.parameter or "", "")
    if named in given:
        return given[named].place
    found = [(str(problem).find(name), name) for name in given if name in str(problem)]
    return given[min(found)[1]].place if found else statement.place("name")


def checked_query(
    statement: Statement, wanted: Declared, query: Query, lookup: Lookup, *, settled: bool
) -> ClosedQuery | None:
    """Return the query of a series as it is to be run, or refuse it; errors show the place.

    Args:
        statement: The statement.
        wanted: The declaration that the query must satisfy.
        query: The query, with its tables.
        lookup: What further names in FROM stand for.
        settled: Whether all that it reads is there; if not, its words alone are checked, and None is returned.
    """
    place, script = statement.place("query"), statement.piece.script
    try:
        if not settled:
            if not query.unverified:
                check_words(query.sql, query.parameters or {})
            return None
        return checked(query, wanted.declaration.unit or (), wanted.declaration.key, lookup)
    except GuaranteeError as problem:
        where = Place(place.start + problem.start, place.start + problem.end)
        message = pointed(problem.reason, script, where)
        raise_alone(GuaranteeError(message, reason=problem.reason, start=where.start, end=where.end))
    except SparsehistError as problem:
        raise_alone(type(problem)(pointed(str(problem), script, place)))
