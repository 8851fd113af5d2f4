"""What the parts of `Series` share: its store, its declaration, and a way to hold both."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparsehist.series.declaration import Declaration
    from sparsehist.series.store_handle import Store
    from sparsehist.store import SeriesRecord, State


class HeldSeries:
    """A series of a store, of which a part of the calls stands in a file of its own.

    Attributes:
        store: Where it is.
        declaration: Its public parameters.
    """

    store: Store
    declaration: Declaration

    def held(self, wait: float | None = None) -> AbstractContextManager[tuple[State, SeriesRecord]]:
        """Hold the store and find the series in it; for the package's own use.

        Raises:
            NotFoundError: If the series was dropped.
            StoreInUseError: If another process or thread holds the store.
        """
        raise NotImplementedError
