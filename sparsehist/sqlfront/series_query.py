"""The query of a series, checked against what the session knows of the tables it reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import duckdb

from sparsehist.errors import GuaranteeError
from sparsehist.guarantee.check import PublicSources, check_planned
from sparsehist.guarantee.places import Place
from sparsehist.guarantee.plan import plan
from sparsehist.sqlfront.declaring import Declared
from sparsehist.sqlfront.heads import CreateSeries
from sparsehist.sqlfront.lineage import Lineage
from sparsehist.sqlfront.script import Piece, pointed

_BLIND = "the statement in line {} may have changed what the query reads"
_UNLESS = "; say unverified = true if each unit's rows depend on that unit alone"


def check_series_query(
    piece: Piece,
    head: CreateSeries,
    wanted: Declared,
    lineage: Lineage,
    connection: duckdb.DuckDBPyConnection,
    parameters: Mapping[str, Any],
) -> None:
    """Refuse a query that may break the guarantee, unless the series is declared unverified.

    Args:
        piece: The statement.
        head: What it says.
        wanted: Its options.
        lineage: What the session did before.
        connection: Where it is to run.
        parameters: Values of its parameters.

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
