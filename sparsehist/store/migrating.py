"""Bringing a store of an older format to this one."""

from __future__ import annotations

from pathlib import Path

from sparsehist.errors import StoreDamagedError
from sparsehist.store.committing import insert_event
from sparsehist.store.database import Database, now, open_database
from sparsehist.store.layout import (
    FORMAT_VERSION,
    LOCK,
    check_format,
    check_is_store,
    check_is_whole,
    format_at,
    make_spill,
    write_format,
)
from sparsehist.store.lock import exclusive_lock
from sparsehist.store.opening import read_identity
from sparsehist.store.rewriting import rewrite_state


def migrate(path: Path, *, wait: float = 0.0) -> int:
    """Bring a store to the format of this version: as a whole, or not at all.

    A copy may be migrated too: it draws nothing, and is a copy as before, to be adopted afterwards. What is
    released, spent and published stays as it is.

    Args:
        path: The store.
        wait: How long to wait for whoever holds it, in seconds.

    Returns:
        The format it had.

    Raises:
        StoreVersionError: If a newer version wrote it.
        StoreDamagedError: If it does not say which version wrote it, or a file is missing.
    """
    path = path.resolve()
    check_is_store(path)
    with exclusive_lock(path / LOCK, wait=wait):
        had = format_at(path)
        if not isinstance(had, int) or had not in range(1, FORMAT_VERSION):
            check_format(path)
            return FORMAT_VERSION
        check_is_whole(path)
        make_spill(path)
        store_id, has, generation = _state_of(path)
        # The state file goes first, in one rename, and says itself which format it has: a run that dies before the
        # note beside it is written leaves a store that is refused until this runs again.
        if has != FORMAT_VERSION:
            rewrite_state(path, lambda copy: _change(copy, has, generation), durable=True)
        write_format(path, store_id, durable=True)
        return had


def _state_of(path: Path) -> tuple[str, int, int]:
    """Store id, format and generation, as the state file has them; written back into one file on the way."""
    database = open_database(path, durable=True)
    try:
        identity = read_identity(database.rows("state_read_store"), path)
    finally:
        database.close()
    if identity.format_version not in range(1, FORMAT_VERSION + 1):
        raise StoreDamagedError(f"the state of store {path} was altered; restore it from a backup")
    return identity.store_id, identity.format_version, identity.generation


def _change(copy: Database, has: int, generation: int) -> None:
    for version in range(has, FORMAT_VERSION):
        copy.change(f"state_migrate_{version}")
    said = {"from format": has, "to format": FORMAT_VERSION}
    insert_event(copy, now(), "migrate store", generation=generation, details=said)
