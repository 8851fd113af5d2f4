"""Lock a store and open it if it is intact, is the original, and is not older than its published releases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sparsehist.errors import NotFoundError, StoreDamagedError, StoreRolledBackError
from sparsehist.store.database import Database
from sparsehist.store.layout import (
    FORMAT_VERSION,
    LOCK,
    SPILL,
    STATE,
    check_format,
    exclusive_lock,
    identity_of,
    is_store,
    remove_dead,
    store_id_at,
)
from sparsehist.store.private_files import NEW, disk_errors
from sparsehist.store.state import State, StoreIdentity
from sparsehist.store.witnesses import LEDGER_NAME, listed_in_ledger, mark_path, read_mark


@contextmanager
def open_state(path: Path, *, wait: float = 0.0, durable: bool = True) -> Iterator[State]:
    """Lock and open a store for a block; nothing stays open afterwards.

    A store that is not `durable` may not survive a power cut: nothing is synchronised, and no mark is kept.

    Raises:
        StoreDamagedError: If a part is missing or altered.
        StoreRolledBackError: If the store is a copy, or older than what was published from it.
    """
    path = path.resolve()
    with held(path, wait=wait, durable=durable) as database:
        identity = read_identity(database, path)
        if durable:
            check_is_newest(path, identity)
        check_is_original(path, identity)
        (path / f"{STATE}-journal").unlink(missing_ok=True)  # reading rolled back an open transaction
        state = State(path, database, identity, durable=durable)
        # Finish the work of a process that died after its commit; the mark is raised before its round is published.
        state.erase_unknown()
        state.raise_marks()
        yield state


@contextmanager
def held(path: Path, *, wait: float, durable: bool) -> Iterator[Database]:
    """Lock a store and connect to its state."""
    if not is_store(path):
        raise NotFoundError(f"no store at {path}; make one with `sparsehist create`")
    with exclusive_lock(path / LOCK, wait=wait):
        check_format(path)
        with disk_errors(path):
            (path / SPILL).mkdir(mode=0o700, exist_ok=True)
            for place in (*path.glob(f"*{NEW}"), Path(f"{mark_path(path)}{NEW}")):
                place.unlink(missing_ok=True)
        remove_dead(path / SPILL, "")
        with closing(Database(path, durable=durable)) as database:
            yield database


def read_identity(database: Database, path: Path) -> StoreIdentity:
    """Return the identity of the store from its state; it must agree with the format file."""
    rows = database.run("select format_version, store_id, generation, identity, home from store")
    if len(rows) != 1 or rows[0][:2] != (FORMAT_VERSION, store_id_at(path)):
        raise StoreDamagedError(f"the state of store {path} was altered; restore it from a backup")
    _, store_id, generation, identity, home = rows[0]
    publications = tuple(Path(place) for (place,) in database.run("select directory from publication"))
    return StoreIdentity(store_id, generation, identity, Path(home), publications)


def check_is_newest(path: Path, identity: StoreIdentity) -> None:
    """Refuse a store that is older than a mark or a public ledger: it would draw new noise for published levels."""
    seen = {}
    for place in {path, identity.home}:
        mark = read_mark(place, identity.store_id)
        # At an equal generation another copy was adopted at the same time.
        overtaken = mark.generation == identity.generation and mark.identity != identity.identity
        seen[mark_path(place)] = mark.generation + overtaken
    for directory in identity.publications:
        seen[directory / LEDGER_NAME] = listed_in_ledger(directory, identity.store_id)["generation"]
    witness, newest = max(seen.items(), key=lambda item: item[1])
    if newest > identity.generation:
        raise StoreRolledBackError(
            f"store {path} is at generation {identity.generation}, but {witness} shows that it had reached "
            f"{newest}: it was restored from an older copy, and would draw other noise for published levels. "
            "Restore the newest copy; if there is none, make a new store under a new budget"
        )


def check_is_original(path: Path, identity: StoreIdentity) -> None:
    """Refuse a copy: store and copy would draw different noise for one level."""
    if identity_of(path) != identity.identity:
        raise StoreRolledBackError(
            f"store {path} is a copy of the one at {identity.home}, or it was put back from one, or the owner, mode "
            "or links of its files were changed. If it is the newest copy and no other one will be used, take it "
            f"with `sparsehist adopt {path} --home-is-gone`"
        )
