"""Results of DuckDB as Polars frames."""

from __future__ import annotations

import duckdb
import polars as pl

# Polars has no like of these; as text they read as DuckDB writes them.
_AS_TEXT = frozenset({"interval", "time with time zone", "bit", "union", "varint", "bignum", "geometry", "variant"})


def rows_of(relation: duckdb.DuckDBPyRelation | None, limit: int | None) -> tuple[pl.DataFrame | None, bool]:
    """Read a result.

    Args:
        relation: What DuckDB gave back; None for a statement without result.
        limit: At most so many rows.

    Returns:
        The rows, and whether there were more; None where the statement only says that it succeeded.
    """
    if relation is None:
        return None, False
    if relation.type == "MATERIALIZED_RELATION" and relation.columns in (["Success"], ["Count"]):
        relation.fetchall()
        return None, False
    if any(kind.id in _AS_TEXT for kind in relation.types):
        relation = relation.select(
            *(
                duckdb.ColumnExpression(name).cast("varchar").alias(name)
                if kind.id in _AS_TEXT
                else duckdb.ColumnExpression(name)
                for name, kind in zip(relation.columns, relation.types, strict=True)
            )
        )
    cut = relation if limit is None else relation.limit(limit + 1)
    try:
        frame: pl.DataFrame = cut.pl()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        frame = cut.select(duckdb.StarExpression().cast("varchar")).pl()
    if limit is not None and frame.height > limit:
        return frame.head(limit), True
    return frame, False
