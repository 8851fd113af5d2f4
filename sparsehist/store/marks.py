"""High-water marks: how far a store has come, noted outside it.

A directory put back from a backup forgets the noise it drew since, and would draw other noise for a level that
is already out. A sibling file `<store>.generation` remembers, for every store that ever stood at that place,
the highest generation it committed; it is raised after each commit and before anything is published. The file
is read by people who restore backups, so it is a small JSON object.
"""

from __future__ import annotations

import json
from pathlib import Path

from sparsehist.errors import StoreDamagedError
from sparsehist.store.private_files import write_file


def mark_path(store: Path) -> Path:
    """The sibling file of a store."""
    return store.with_name(store.name + ".generation")


def read_mark(store: Path, store_id: str) -> int:
    """The highest generation noted at a place for a store; -1 when there is none.

    Raises:
        StoreDamagedError: If the file is no mark; it is never guessed around, since it guards against rollback.
    """
    return _read_all(mark_path(store)).get(store_id, -1)


def raise_mark(store: Path, store_id: str, generation: int) -> None:
    """Note a generation durably; a mark never falls, and those of other stores at the place are kept."""
    path = mark_path(store)
    marks = _read_all(path)
    if marks.get(store_id, -1) >= generation:
        return
    marks[store_id] = generation
    text = json.dumps({"format": 1, "generations": marks}, indent=1) + "\n"
    write_file(path, text.encode(), durable=True)


def _read_all(path: Path) -> dict[str, int]:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))["generations"]
        return {str(store_id): int(generation) for store_id, generation in stored.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise StoreDamagedError(
            f"{path} cannot be read as a mark of generations; restore it, for it guards against drawing "
            "noise twice from an old copy of the store"
        ) from None
