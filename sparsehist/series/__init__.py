"""From a request to a release: lock, draw a round, commit, and only then publish; for cells and for workloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from sparsehist.release.query_session import QuerySession
    from sparsehist.sqlfront.results import SqlResult

in_notebook: Callable[[object], str]
open_queries: Callable[..., QuerySession]
plan_queries: Callable[..., pl.DataFrame]
plot_largest: Callable[..., Any]
plot_plan: Callable[..., Any]
save_plot: Callable[..., None]
store_report: Callable[..., str]
sql: Callable[..., SqlResult]
"""Lent by the top of the package: stores and series stand below SQL, sessions of queries, plots and reports."""
