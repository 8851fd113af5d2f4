"""Enter releases into the public ledger beside them: one list per store, to which entries are only added."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparsehist.errors import StoreRolledBackError
from sparsehist.store import editing_ledger

Entry = dict[str, Any]


def publish(directory: Path, entry: Entry) -> None:
    """Add a release to the public ledger of a directory, unless it is there.

    An entry holds public parameters only: what tells store, release and round, level, noise, threshold, and the
    digest of the content.
    """
    with editing_ledger(directory) as stores:
        store = stores.setdefault(entry["store"], {"generation": -1, "releases": []})
        listed: list[Entry] = store["releases"]
        known = next((each for each in listed if each["generation"] == entry["generation"]), None)
        if known is not None and known["round"] != entry["round"]:
            raise StoreRolledBackError(
                f"the public ledger shows another release of generation {entry['generation']} of this store: the "
                "store was put back from an older copy, and what it drew since must not be published. Restore the "
                "newest copy"
            )
        store["generation"] = max(store["generation"], entry["generation"])
        if known is None:
            listed.append({name: value for name, value in entry.items() if name != "store"})
        elif known.get("digest") != entry["digest"]:
            raise StoreRolledBackError(
                f"the public ledger in {directory} shows other rows of this release: restore the ledger, or publish "
                "elsewhere"
            )
