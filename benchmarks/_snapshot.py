"""Putting back the state of a store, so that the same release can be timed again and again.

Only a benchmark may do that, with the witnesses outside the store put back as well: a store by itself refuses a
state that is older than what was published from it.
"""

from __future__ import annotations

from pathlib import Path

from sparsehist.store import LEDGER_NAME, adopt, open_state


class Snapshot:
    """What a store and the places it publishes in know of its releases, at the time this is made."""

    def __init__(self, store: Path, *published: Path) -> None:
        """Remember the state of a store and what stands in the directories it publishes in."""
        self._store = store
        self._places = [(store, "state*"), (store.parent, f"{store.name}.generation")]
        self._places += [(directory, name) for directory in published for name in (LEDGER_NAME, "*.parquet")]
        self._kept = {file: file.read_bytes() for file in self._files()}

    def put_back(self) -> None:
        """Forget what was released since."""
        for file in self._files():
            if file not in self._kept:
                file.unlink()
        for file, content in self._kept.items():
            file.write_bytes(content)
        adopt(self._store, home_is_gone=True)  # it can tell that its state was put back
        with open_state(self._store):
            pass  # notes beside the store when its state was changed, as every commit does

    def _files(self) -> list[Path]:
        return [file for directory, pattern in self._places for file in directory.glob(pattern)]
