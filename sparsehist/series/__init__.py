"""From a request to a release: lock, draw a round, commit, and only then publish; for cells and for workloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparsehist.sqlfront.results import SqlResult

sql: Callable[..., SqlResult]
"""Lent by the top of the package: a store stands below SQL."""
