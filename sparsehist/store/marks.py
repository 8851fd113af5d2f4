"""High-water marks: how far a store has come, noted outside it.

A directory put back from a backup forgets the noise it drew since, and would draw other noise for a level that
is already out. A sibling file `<store>.generation` remembers, for every store that ever stood at that place,
the highest generation it committed; it is raised after each commit and before anything is published. The file
is read by people who restore backups, so it is a small JSON object.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from sparsehist.errors import StoreDamagedError
from sparsehist.store.private_files import write_file

MARK_SUFFIX = ".generation"


def mark_path(store: Path) -> Path:
    """The sibling file of a store."""
    return store.with_name(store.name + MARK_SUFFIX)


def read_mark(store: Path, store_id: str) -> int:
    """The highest generation noted at a place for a store; -1 when there is none.

    Raises:
        StoreDamagedError: If the file is no mark; it is never guessed around, since it guards against rollback.
    """
    return _read_all(mark_path(store)).get(store_id, _NOTHING).generation


def read_token(store: Path, store_id: str) -> str | None:
    """By which adoption the highest generation was noted; None if by a release."""
    return _read_all(mark_path(store)).get(store_id, _NOTHING).token


def raise_mark(store: Path, store_id: str, generation: int, *, token: str | None = None) -> None:
    """Note a generation durably; a mark never falls, and those of other stores at the place are kept."""
    path = mark_path(store)
    marks = _read_all(path)
    if marks.get(store_id, _NOTHING).generation >= generation:
        return
    marks[store_id] = _Mark(generation, token)
    stored = {
        "format": 1,
        "generations": {known: mark.generation for known, mark in marks.items()},
        "adoptions": {known: mark.token for known, mark in marks.items() if mark.token is not None},
    }
    write_file(path, (json.dumps(stored, indent=1) + "\n").encode(), durable=True)


class _Mark(NamedTuple):
    generation: int
    token: str | None


_NOTHING = _Mark(-1, None)


def _read_all(path: Path) -> dict[str, _Mark]:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        tokens = stored.get("adoptions", {})
        return {str(known): _Mark(int(at), tokens.get(known)) for known, at in stored["generations"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise StoreDamagedError(
            f"{path} cannot be read as a mark of generations; restore it, for it guards against drawing "
            "noise twice from an old copy of the store"
        ) from None
