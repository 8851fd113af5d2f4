"""Logs larger than memory: rows wait on disk while they are read, and DuckDB reads relations.

Counting is that of `with_polars.py`, part by part: the distinct keys stay in memory, and one part per thread.
"""

from __future__ import annotations

import polars as pl

from sparsehist.counting import with_polars
from sparsehist.counting.contract import CountRequest, UnitPairs
from sparsehist.counting.sources import Log
from sparsehist.store.layout import spill_directory


def name() -> str:
    """Name what counts and its version."""
    import duckdb

    return f"duckdb {duckdb.__version__}, {with_polars.name()}"


def count(log: Log, wanted: CountRequest) -> pl.DataFrame:
    """Count units by key: columns key_0, …, count."""
    with spill_directory(wanted.temporary_directory) as directory:
        return with_polars.count(log, wanted, directory)


def kept_pairs(log: Log, wanted: CountRequest) -> UnitPairs:
    """List the pairs that count."""
    with spill_directory(wanted.temporary_directory) as directory:
        return with_polars.kept_pairs(log, wanted, directory)
