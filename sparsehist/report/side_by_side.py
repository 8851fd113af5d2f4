"""Releases of one series side by side: one row per key, one column of noisy counts per release."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from sparsehist.release.releases import Release


def coarse_to_fine(releases: Sequence[Release]) -> list[Release]:
    """Return the releases by level, the most private first."""
    return sorted(releases, key=lambda release: release.level)


def side_by_side(releases: Sequence[Release], key: Sequence[str]) -> pl.DataFrame:
    """Join the counts of releases of one series by key columns.

    Returns:
        The key columns, then a column of noisy counts for each release, named after it, the most private first; null
        if a key was not published. Sorted by the finest published count, largest first, then by key.

    Example:
        >>> from sparsehist import Release
        >>> coarse = Release(pl.DataFrame({"url": ["/a"], "noisy_count": [12.5]}), {"name": "a", "level": "2"})
        >>> fine = Release(pl.DataFrame({"url": ["/b"], "noisy_count": [3.0]}), {"name": "b", "level": "10"})
        >>> side_by_side([fine, coarse], ["url"]).rows()
        [('/a', 12.5, None), ('/b', None, 3.0)]
    """
    ordered = coarse_to_fine(releases)
    frames = [release.frame.select(*key, pl.col("noisy_count").alias(release.name)) for release in ordered]
    joined = reduce(lambda left, right: left.join(right, on=key, how="full", coalesce=True), frames)
    finest_first = [release.name for release in reversed(ordered)]
    return (
        joined.with_columns(pl.coalesce(finest_first).alias("finest known"))
        .sort("finest known", *key, descending=[True] + [False] * len(key))
        .drop("finest known")
    )
