"""The query of a series, checked against what the session knows of the tables it reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import duckdb
from sqlglot import Token

from sparsehist.errors import GuaranteeError
from sparsehist.sqlfront.declaring import Declared
from sparsehist.sqlfront.guarantee import check_query
from sparsehist.sqlfront.guarantee_relations import Behind
from sparsehist.sqlfront.guarantee_tree import below, parse
from sparsehist.sqlfront.heads import CreateSeries
from sparsehist.sqlfront.identifiers import folded
from sparsehist.sqlfront.lineage import Lineage
from sparsehist.sqlfront.release_tables import dotted_names
from sparsehist.sqlfront.script import Piece, Place, pointed

if TYPE_CHECKING:
    from sparsehist.sqlfront.checking import Known

_BLIND = "the statement in line {} may have changed what the query reads"
_UNLESS = "; say unverified = true if each unit's rows depend on that unit alone"


def check_series_query(
    piece: Piece, head: CreateSeries, wanted: Declared, known: Known, connection: duckdb.DuckDBPyConnection
) -> None:
    """Refuse a query that may break the guarantee.

    Args:
        piece: The statement.
        head: What it says.
        wanted: Its options.
        known: What there is before the statement.
        connection: Asked for columns of tables.

    Raises:
        GuaranteeError: If the rows of one unit may depend on others; shows the place.
    """
    script, lineage = piece.script, known.lineage
    tokens = [token for token in piece.tokens if token.start >= head.query_place.start]
    public = frozenset(map(folded, wanted.public_tables))
    unclear = _BLIND.format(lineage.blind) if lineage.blind else _contradiction(head.query, public, lineage)
    if unclear:
        raise GuaranteeError(pointed(unclear + _UNLESS, script, head.query_place), reason=unclear + _UNLESS)
    why = {name: reason + _UNLESS for name, reason in lineage.unclear().items()}
    try:
        check_query(
            head.query,
            unit=str(wanted.parameters["unit"]),
            keys=wanted.declaration.key,
            public_tables=wanted.public_tables,
            releases=_public_releases(tokens, script, known),
            views={name: behind for name, behind in lineage.queries.items() if name not in public},
            functions=frozenset(why),
            unclear=why,
            files=lambda path: {} if path in wanted.public_tables else lineage.files.behind(path),
            columns=lambda query: _columns(query, connection),
        )
    except GuaranteeError as problem:
        start, view = head.query_place.start, problem.view
        by_file = "" if view is None or view in lineage.queries else ", as this script wrote it"
        inside = "" if view is None else f"in {view}{by_file}: "
        place = Place(start + problem.start, start + problem.end) if view is None else head.query_place
        message = pointed(f"{inside}{problem.reason}", script, place)
        raise GuaranteeError(message, reason=problem.reason, start=place.start, end=place.end) from None


def _columns(query: str, connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Names and types of what a query would give; nothing where a table is not there yet."""
    try:
        relation = connection.sql(query)
    except duckdb.Error:
        return {}
    return dict(zip(relation.columns, map(str, relation.types), strict=True))


def _public_releases(tokens: list[Token], script: str, known: Known) -> set[tuple[str, ...]]:
    """Releases that a query names: they are public, unless a statement put something else in their place."""
    named = {pair for pair in dotted_names(tokens, script) if pair[0] in (known.series or ())}
    there = {pair for pair in named if pair in known.made or known.is_release(*pair)}
    return {pair for pair in there if not known.lineage.holds(".".join(pair))}


def _contradiction(query: str, public: frozenset[str], lineage: Lineage) -> str:
    """What is wrong where a table declared public was made from one that the query takes for private; or nothing."""
    made = sorted(name for name in public if name in lineage.queries)
    private = _sources(Behind(query), lineage.queries, stop=public) if made else set()
    for name in made:
        shared = sorted(_sources(lineage.queries[name], lineage.queries, stop=public - {name}) & private)
        if shared:
            return f"{name} is declared public, but it was made from {shared[0]}, which is not"
    return ""


def _sources(query: Behind, views: Mapping[str, Behind], *, stop: frozenset[str]) -> set[str]:
    """Tables that a query reads, and those behind its views; none of those in `stop`."""
    found: set[str] = set()
    left = [(query, views)]
    while left:
        one, current = left.pop()
        views = current if one.views is None else one.views
        try:
            parts = list(below(parse(one.text)))
        except GuaranteeError:
            continue
        named = {folded(str(entry["key"])) for part in parts for entry in part.get("map", ()) if "key" in entry}
        tables = {_name(part) for part in parts if part.get("table_name")} - named - stop - found
        found |= tables
        left += [(views[table], views) for table in tables if table in views]
    return found


def _name(table: dict[str, object]) -> str:
    name = table.get("qualified_name")
    path = name.get("path") if isinstance(name, dict) else None
    return ".".join(folded(str(part)) for part in path or [table["table_name"]])
