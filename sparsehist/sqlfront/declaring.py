"""From the options of CREATE SERIES to the parameters of `sparsehist.create`, and the check of its query.

The signature of `sparsehist.create` says what options there are.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import duckdb

from sparsehist.errors import DeclarationError, GuaranteeError, SparsehistError, StatementError
from sparsehist.guarantee.check import PublicSources, check_planned
from sparsehist.guarantee.plan import Place, plan
from sparsehist.series.creation import create
from sparsehist.series.declaration import Declaration, declare
from sparsehist.sqlfront.heads import AppendStep, CreateSeries
from sparsehist.sqlfront.lineage import Lineage
from sparsehist.sqlfront.script import Piece, pointed

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
    """What WITH (…) says.

    Attributes:
        parameters: For `sparsehist.create`.
        declaration: What they declare.
        public_tables: Tables that hold nothing of any unit, as they were written.
    """

    parameters: dict[str, Any]
    declaration: Declaration
    public_tables: frozenset[str]


def declared(script: str, head: CreateSeries) -> Declared:
    """Check the options of a series.

    Raises:
        StatementError: If an option is unknown, missing or of the wrong kind; says where.
    """
    if head.name in TAKEN_NAMES:
        raise StatementError(
            pointed(
                f"{head.name} cannot name a series here: in SQL, {head.name}.public would be DuckDB's own",
                script,
                head.name_place,
            )
        )
    _check_names(script, head)
    values = {name: option.value for name, option in head.options.items()}
    public = values.pop("public_tables", ())
    parameters = {"name": head.name, **values}
    return Declared(parameters, _declaration(script, head, parameters), frozenset(_listed(public)))


def declared_for_step(script: str, head: AppendStep, declaration: Declaration | None) -> Declared | None:
    """What an appended query is checked by; None where its series is not known yet.

    Raises:
        StatementError: If an option is unknown, the series is no running one, or has no such step; says where.
    """
    for name, option in head.options.items():
        if name not in _OWN_OPTIONS:
            raise StatementError(
                pointed(f"there is no option {name}; the one option is public_tables", script, option.place)
            )
    if declaration is None:
        return None
    if declaration.steps is None:
        raise StatementError(pointed(f"{head.name} is no running series", script, head.name_place))
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


def _check_names(script: str, head: CreateSeries) -> None:
    known = options(running=head.steps is not None)
    for name, option in head.options.items():
        if name not in known:
            listed = ", ".join(known)
            raise StatementError(pointed(f"there is no option {name}; options are {listed}", script, option.place))
        if isinstance(option.value, tuple) and name not in ("unit", "key", "public_tables"):
            raise StatementError(pointed(f"{name} takes one value", script, option.place))
    missing = [name for name in NEEDED if name not in head.options]
    if missing:
        example = ", ".join(f"{name} = {_EXAMPLES[name]}" for name in missing)
        message = f"WITH has no {' and no '.join(missing)}; for example {example}"
        raise StatementError(pointed(message, script, head.name_place))


def _listed(tables: str | tuple[str, ...]) -> tuple[str, ...]:
    return (tables,) if isinstance(tables, str) else tables


def _declaration(script: str, head: CreateSeries, parameters: Mapping[str, Any]) -> Declaration:
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
        raise StatementError(pointed(str(problem), script, _place_of(problem, head))) from None


def _place_of(problem: SparsehistError, head: CreateSeries) -> Place:
    """The option that an error is about: the first one it names."""
    message = str(problem)
    named = [(message.find(name), name) for name in head.options if name in message]
    return head.options[min(named)[1]].place if named else head.name_place


_BLIND = "the statement in line {} may have changed what the query reads"
_UNLESS = "; say unverified = true if each unit's rows depend on that unit alone"


def check_series_query(
    piece: Piece,
    head: CreateSeries | AppendStep,
    wanted: Declared,
    lineage: Lineage,
    connection: duckdb.DuckDBPyConnection,
    parameters: Mapping[str, Any],
) -> None:
    """Refuse a query that may break the guarantee, unless the series is declared unverified.

    Raises:
        GuaranteeError: If the rows of one unit may depend on others; shows the place.
        duckdb.Error: If DuckDB does not know a name in it.
    """
    if wanted.declaration.unverified:
        return
    place = head.query_place
    named = {name.lower() for name in re.findall(r"\$(\w+)", head.query)}
    given = {name: value for name, value in parameters.items() if name.lower() in named}
    if lineage.blind:
        reason = _BLIND.format(lineage.blind) + _UNLESS
        message = pointed(reason, piece.script, place)
        raise GuaranteeError(message, reason=reason, start=place.start, end=place.end)
    try:
        origins = lineage.origins(connection)
        planned = plan(head.query, connection, parameters=given, origins=origins)
        public = PublicSources(wanted.public_tables, connection, origins)
        check_planned(planned, unit=wanted.declaration.unit or (), key=wanted.declaration.key, public=public)
    except GuaranteeError as problem:
        reason, where = problem.reason, Place(place.start + problem.start, place.start + problem.end)
    else:
        return
    message = pointed(reason, piece.script, where)
    raise GuaranteeError(message, reason=reason, start=where.start, end=where.end)
