"""The part of an open state that is its ledger: what was spent, who did what, and where it was published."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from sparsehist.errors import StoreError, StoreRolledBackError
from sparsehist.store import committing
from sparsehist.store.database import Database, now
from sparsehist.store.marks import raise_mark
from sparsehist.store.path_history import PathHistory
from sparsehist.store.public_ledger import published_rounds
from sparsehist.store.reading import event_frame, ledger_frame


class StateLedger:
    """What `State` knows beside its arrays."""

    path: Path
    store_id: str
    generation: int
    publications: frozenset[Path]
    _database: Database
    _durable: bool
    _histories: dict[int, PathHistory]

    def ledger(self) -> pl.DataFrame:
        """What was spent, a row for each noise path, dropped series included.

        Returns:
            series, series_id, population, path_id, kind, workload, strategy, family, level (the finest spent,
            exact text), level_float, n_releases, cap (exact text, as declared), first_release, last_release,
            numerical_slack, dropped (UTC), delta_infinity, first_generation, unit, max_keys.
        """
        return ledger_frame(self._database.rows("state_read_ledger"))

    def events(self) -> pl.DataFrame:
        """Who did what, when, in order.

        Returns:
            number, generation, happened (UTC), who, what, series, series_id, path_id, level, population, release,
            reason, details (JSON).
        """
        return event_frame(self._database.rows("state_read_events"))

    def limit_events(self) -> pl.DataFrame:
        """Those of the events that declare a limit; a release reads no others."""
        return event_frame(self._database.rows("state_read_limit_events"))

    def declare(self, what: str, **said: Any) -> None:
        """Record a limit or another declaration; an older copy of the store is refused from then on.

        Args:
            what: "set budget", "raise cap" or "declare disjoint".
            said: who, series_id, population, level, reason, details: as `state_insert_event` has them.
        """
        committing.declare(self._database, self.generation, now(), what, **said)
        self._committed()

    def record_refusal(self, **asked: Any) -> None:
        """Record what was refused, as far as the disk allows: the refusal itself must reach whoever asked."""
        with suppress(StoreError):
            committing.record_refusal(self._database, self.generation, now(), **asked)

    def record_publication(self, directory: Path) -> None:
        """Remember a directory whose public ledger will know this store; before anything is published there.

        Raises:
            StoreRolledBackError: If the ledger knows rounds of this store that it has forgotten itself.
        """
        known = {round_id for (round_id,) in self._database.rows("state_read_rounds")}
        if not published_rounds(directory, self.store_id) <= known:
            raise StoreRolledBackError(
                f"the public ledger in {directory} shows releases that store {self.path} knows nothing of: it was "
                "put back from an older copy, and what it drew since must not be published. Restore the newest copy"
            )
        directory = directory.resolve()
        with self._database.transaction():
            self._database.change("state_insert_publication", directory=str(directory))
        self.publications |= {directory}

    def _committed(self) -> None:
        """Raise what guards against an old copy, before anything is published."""
        self.generation += 1
        self._histories.clear()
        if self._durable:
            raise_mark(self.path, self.store_id, self.generation)
