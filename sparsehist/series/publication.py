"""Where releases of a store are published: the public ledger beside the files, and the store's memory of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsehist.errors import NotFoundError
from sparsehist.privacy import as_level
from sparsehist.store import PublishedEntry, open_state, publish_ledger


@dataclass(frozen=True)
class StoreOnDisk:
    """The store a release came from.

    Attributes:
        path: Its directory.
        publications: Directories it knew its releases to be published in.
        wait: Seconds to wait for it.
    """

    path: Path
    publications: frozenset[Path]
    wait: float

    def announce(self, target: Path, metadata: Mapping[str, Any], digest: str) -> None:
        """Note in the public ledger beside `target` what is about to be written there.

        The store remembers the directory first: from then on the ledger there guards against an old copy.
        """
        directory = target.resolve().parent
        if not directory.is_dir():
            raise NotFoundError(f"{target.parent} is no directory; make it first")
        if directory not in self.publications:
            with open_state(self.path, wait=self.wait) as state:
                if directory not in state.publications:
                    state.record_publication(directory)
        entry = PublishedEntry(
            store_id=metadata["store"],
            series=metadata["series"],
            release=metadata["name"],
            level=as_level(metadata["level"]),
            noise=metadata["noise"],
            threshold=metadata.get("threshold"),
            generation=metadata["generation"],
            round_id=metadata["round"],
            digest=digest,
        )
        publish_ledger(directory, [entry])
