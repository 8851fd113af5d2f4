"""From the options of CREATE SERIES to the parameters of `sparsehist.create`, and the check of its query.

The signature of `sparsehist.create` says what options there are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import duckdb

from sparsehist.errors import DeclarationError, GuaranteeError, SparsehistError, raise_alone
from sparsehist.guarantee.check import PublicSources, check_planned
from sparsehist.guarantee.plan import Place, plan
from sparsehist.series.creation import create
from sparsehist.series.declaration import Declaration, declare
from sparsehist.sqlfront.heads import Counted, CreateSeries
from sparsehist.sqlfront.lineage import Lineage
from sparsehist.sqlfront.script import Piece, asked_for, pointed

# These are said by the statement itself, by the session, or not at all: a seed is for tests.
_NOT_OPTIONS = {
    "store",
    "source",
    "name",
    "steps",
    "key_types",
    "if_exists",
    "progress",
    "wait",
    "seed",
    "who",
    "counts_directory",
}
_OWN_OPTIONS = {"public_tables"}
_EXAMPLES = {"unit": "user_id", "key": "query", "max_keys": "20", "domain": "'strings(max_bytes=32)'"}
NEEDED = tuple(_EXAMPLES)
# A schema of the name would be DuckDB's own, or could not be told from a catalog.
TAKEN_NAMES = frozenset({"main", "memory", "temp", "system", "information_schema", "pg_catalog"})


class Declared(NamedTuple):
    """What WITH (…) says: parameters of `sparsehist.create`, what they declare, and names of public tables."""

    parameters: dict[str, Any]
    declaration: Declaration
    public_tables: frozenset[str]


def declared(piece: Piece, head: CreateSeries) -> Declared:
    """Check the options of a series; errors show the place."""
    if head.name in TAKEN_NAMES:
        message = f"{head.name} cannot name a series here: in SQL, {head.name}.public would be DuckDB's own"
        raise piece.error(message, head.name_place)
    _check_names(piece, head)
    values = {name: option.value for name, option in head.options.items()}
    public = values.pop("public_tables", ())
    parameters = {"name": head.name, **values}
    return Declared(parameters, _declaration(piece, head, parameters), frozenset(_listed(public)))


def declared_for_step(piece: Piece, head: Counted, declaration: Declaration | None) -> Declared | None:
    """What an appended query is checked by; None where its series is not known yet. Errors show the place."""
    for name, option in head.options.items():
        if name not in _OWN_OPTIONS:
            raise piece.error(f"there is no option {name}; the one option is public_tables", option.place)
    if declaration is None:
        return None
    if declaration.steps is None:
        raise piece.error(f"{head.name} is not a running series", head.name_place)
    tables = [option.value for option in head.options.values()]
    return Declared({}, declaration, frozenset(name for given in tables for name in _listed(given)))


def options(*, running: bool = False) -> list[str]:
    """Names of all options, those that are needed first."""
    known = inspect.signature(_maker(running=running)).parameters.keys() - _NOT_OPTIONS | _OWN_OPTIONS
    return [*NEEDED, *sorted(known - set(NEEDED))]


def _maker(*, running: bool) -> Callable[..., object]:
    if not running:
        return create
    from sparsehist.running.running_series import create_running  # linear algebra, which other series do without

    return create_running


def _check_names(piece: Piece, head: CreateSeries) -> None:
    known = options(running=head.steps is not None)
    for name, option in head.options.items():
        if name not in known:
            raise piece.error(f"there is no option {name}; options are {', '.join(known)}", option.place)
        if isinstance(option.value, tuple) and name not in ("unit", "key", "public_tables"):
            raise piece.error(f"{name} takes one value", option.place)
    missing = [name for name in NEEDED if name not in head.options]
    if missing:
        example = ", ".join(f"{name} = {_EXAMPLES[name]}" for name in missing)
        raise piece.error(f"WITH has no {' and no '.join(missing)}; for example {example}", head.name_place)


def _listed(tables: str | tuple[str, ...]) -> tuple[str, ...]:
    return (tables,) if isinstance(tables, str) else tables


def _declaration(piece: Piece, head: CreateSeries, parameters: Mapping[str, Any]) -> Declaration:
    wanted = inspect.signature(declare).parameters
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(_maker(running=head.steps is not None)).parameters.items()
        if name in wanted and parameter.default is not parameter.empty
    }
    given = {name: value for name, value in parameters.items() if name in wanted}
    try:
        if head.steps is None:
            return declare(**{**defaults, **given})
        from sparsehist.running.running_series import declare_running

        return declare_running(**{**defaults, **given}, steps=head.steps)
    except DeclarationError as problem:
        raise piece.error(str(problem), _place_of(problem, head)) from None


def _place_of(problem: SparsehistError, head: CreateSeries) -> Place:
    """The option that an error is about: the first one it names."""
    message = str(problem)
    named = [(message.find(name), name) for name in head.options if name in message]
    return head.options[min(named)[1]].place if named else head.name_place


_BLIND = "the statement in line {} may have changed what the query reads"
_UNLESS = "; say unverified = true if each unit's rows depend on that unit alone"


def check_series_query(
    piece: Piece,
    head: Counted,
    wanted: Declared,
    lineage: Lineage,
    connection: duckdb.DuckDBPyConnection,
    parameters: Mapping[str, Any],
) -> None:
    """Refuse a query that may break the guarantee, unless the series is unverified; errors show the place."""
    if wanted.declaration.unverified:
        return
    place = head.query_place

    def refused(reason: str, where: Place) -> GuaranteeError:
        message = pointed(reason, piece.script, where)
        return GuaranteeError(message, reason=reason, start=where.start, end=where.end)

    if lineage.blind:
        raise refused(_BLIND.format(lineage.blind) + _UNLESS, place)
    try:
        origins = lineage.origins(connection)
        planned = plan(head.query, connection, parameters=asked_for(head.query, parameters), origins=origins)
        public = PublicSources(wanted.public_tables, connection, origins)
        check_planned(planned, unit=wanted.declaration.unit or (), key=wanted.declaration.key, public=public)
    except GuaranteeError as problem:
        where = Place(place.start + problem.start, place.start + problem.end)
        raise_alone(refused(problem.reason, where))
