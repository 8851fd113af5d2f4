"""Draw uniformly from the cells of a domain outside a given set of taken cells, without listing the domain."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from sparsehist.domain.base import Domain
from sparsehist.errors import promise
from sparsehist.typing import BoolArray

if TYPE_CHECKING:
    import polars as pl


def draw_free(
    domain: Domain,
    n: int,
    *,
    n_taken: int,
    taken: Callable[[pl.DataFrame], BoolArray],
    taken_keys: Callable[[], pl.DataFrame],
    rng: np.random.Generator,
) -> pl.DataFrame:
    """Draw n distinct cells, in random order, uniformly from all cells that are not `taken`; return a frame of keys.

    If the taken and the new cells make up at most half of the domain, use rejection sampling, with at most two draws
    per new cell on average. Otherwise, number the free cells and draw distinct numbers.
    """
    import polars as pl

    promise(0 <= n <= domain.size - n_taken, "the domain has fewer free cells than wanted")
    found = domain.draw(0, rng=rng)
    if n and 2 * (n_taken + n) > domain.size:
        occupied = np.sort(domain.index(taken_keys()))
        promise(occupied.size == n_taken, "the list of taken cells does not match their number")
        ranks = rng.choice(domain.size - n_taken, size=n, replace=False, shuffle=True)
        return domain.keys(ranks + np.searchsorted(occupied - np.arange(n_taken), ranks, side="right"))
    while (missing := n - found.height) > 0:
        drawn = domain.draw(missing * domain.size // (domain.size - n_taken - n) + 8, rng=rng)
        free = drawn.filter(~np.asarray(taken(drawn), dtype=np.bool_))
        # keep the first occurrence of each cell in the order drawn, as if cells were drawn one at a time
        found = pl.concat([found, free]).unique(keep="first", maintain_order=True)
    return found.head(n)
