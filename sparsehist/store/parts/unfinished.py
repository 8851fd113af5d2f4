"""A round that drew what it could not look up is drawn again as it was.

Where the counts of a series lie elsewhere, which of their files a round reads depends on what it drew. If one of them
cannot be read, the round fails; to draw anew would condition what is published on nothing of that file being looked
up, so that a key there is published only if it has a count. So what was asked is kept with the key of its randomness,
from before it is drawn until it is committed, and nothing else is released meanwhile.
"""

from __future__ import annotations

import json
from typing import Any

from sparsehist.entropy import generator
from sparsehist.errors import StoreError, raise_alone
from sparsehist.store.layout import UNFINISHED
from sparsehist.store.private_files import altered, read_json, write_file
from sparsehist.store.records import SeriesRecord
from sparsehist.store.state import State
from sparsehist.typing import Generator, secret


@secret
class UnfinishedRound:
    """The round of a series that is being drawn, or was, and was not committed."""

    def __init__(self, state: State, record: SeriesRecord, name: str, request: dict[str, Any]) -> None:
        """Find the round that was not finished, if there is one."""
        self._path, self._durable = record.directory / UNFINISHED, state.durable
        self._asked = json.loads(json.dumps({"name": name, "request": request}))
        self._key: str | None = None
        if not self._path.exists():
            return
        try:
            kept = read_json(self._path)
            asked, key = kept["asked"], str(kept["key"])
        except (OSError, ValueError, KeyError, TypeError):
            raise_alone(altered(self._path))
        if state.release_named(record, asked["name"]) is not None:  # a run died once it was committed
            return
        if asked != self._asked:
            told = ", ".join(f"{field}={value!r}" for field, value in asked["request"].items() if value is not None)
            raise StoreError(
                f"the release {asked['name']!r} of {record.name!r} was begun and not finished: ask for it again "
                f"first, with {told}"
            )
        self._key = key

    def generator(self, rng: Generator) -> Generator:
        """The randomness of the round, which is kept before anything is drawn from it."""
        if self._key is None:
            self._key = rng.bytes(16).hex()
            write_file(
                self._path, json.dumps({"asked": self._asked, "key": self._key}).encode(), durable=self._durable
            )
        return generator(int(self._key, 16))

    def forget(self) -> None:
        """It is committed, or refused for what was asked."""
        self._path.unlink(missing_ok=True)
