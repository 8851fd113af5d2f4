"""Opening a store: locked, whole, the original, and no older than what left it."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote

from sparsehist.errors import StoreDamagedError, StoreError, StoreRolledBackError
from sparsehist.store.committing import insert_event
from sparsehist.store.database import Database, now, open_database
from sparsehist.store.layout import (
    ADOPTING,
    FORMAT_VERSION,
    LOCK,
    SERIES,
    check_format,
    check_is_store,
    directory_id,
    exclusive_lock,
    has_journal,
    is_alive,
    last_change,
    leftovers,
    make_spill,
    remove_dead_buildings,
    same_directory,
    store_id_at,
)
from sparsehist.store.private_files import disk_errors, read_regular, sync_directory, write_file
from sparsehist.store.state import State, StoreIdentity
from sparsehist.store.witnesses import (
    LEDGER_NAME,
    Anchor,
    Mark,
    mark_path,
    published_generation,
    raise_mark,
    raise_published_generation,
    read_mark,
)


@contextmanager
def open_state(path: Path, *, wait: float = 0.0, durable: bool = True) -> Iterator[State]:
    """Lock and open a store for the length of a block; nothing of it is kept afterwards.

    One that is damaged, a copy, or older than what was published from it is refused. What is not `durable` need not
    survive a power cut: no synchronisation, no marks. One that cannot be written can be looked at: nothing is put in
    order, and whatever would change it fails.
    """
    path = path.resolve()
    with held(path, wait=wait, durable=durable) as database:
        identity = read_identity(database, path)
        check_is_original(path, identity)
        if durable:
            check_is_newest(path, identity)
            if database.writable and (identity.home != path or (path / ADOPTING).exists()):
                identity = take_place(path, database, identity, "move store")
        removed, left = _put_in_order(path, database) if database.writable else ([], [])
        noting = durable and database.writable
        state = State(path, database, identity, removed=tuple(removed), left=tuple(left), durable=noting)
        try:
            # A run that died after its commit left no mark, and what it committed may be published now.
            state.note()
            yield state
        finally:
            state.tell_left()
            with suppress(StoreError):  # the next opening notes it
                state.note()


@contextmanager
def held(path: Path, *, wait: float, durable: bool) -> Iterator[Database]:
    """Lock a store and connect to its state."""
    check_is_store(path)
    with exclusive_lock(path / LOCK, wait=wait, or_shared=True) as writable:
        check_format(path)
        if writable:
            make_spill(path)
            with disk_errors(path):
                mark_path(path).with_name(f"{mark_path(path).name}.new").unlink(missing_ok=True)
        elif has_journal(path):
            raise StoreError(f"a run died in store {path}: open it first where, and as who, it can be written")
        if durable and has_journal(path) and (store_id := store_id_at(path)) is not None:
            # What is rolled back has another time of change; a run may die between that and noting it.
            raise_mark(path, store_id, read_mark(path, store_id)._replace(changed=None))
        database = open_database(path, durable=durable, writable=writable)
        try:
            yield database
        finally:
            database.close()


def read_identity(database: Database, path: Path) -> StoreIdentity:
    """Which store this is."""
    rows = database.rows("read_store")
    if len(rows) != 1 or rows[0][0] != FORMAT_VERSION:
        raise StoreDamagedError(f"the state of store {path} was altered; restore it from a backup")
    _, store_id, generation, directory, home, anchored = rows[0]
    anchor = None if anchored is None else Anchor(Path(anchored), store_id)
    publications = tuple(Path(place) for (place,) in database.rows("read_publications"))
    return StoreIdentity(store_id, generation, directory, Path(home), anchor, publications)


def _put_in_order(path: Path, database: Database) -> tuple[list[Path], list[str]]:
    """Remove what runs that died left: in the store; and elsewhere, copies and what clusters wrote.

    Returns what was removed elsewhere, and which URLs are left. Opening waits for no other machine, and a disk that
    is not there today is looked at on another day.
    """
    _remove_leftovers(path, database)
    removed: list[Path] = []
    left: list[str] = []
    for (text,) in database.rows("read_copies"):
        by_cluster = "://" in text
        if by_cluster and is_alive(path, text.rpartition("/")[2]):
            continue
        if by_cluster and not text.startswith("file:"):
            left.append(text)
            continue
        place = Path(unquote(text.removeprefix("file://")) if by_cluster else text)
        try:
            if not place.parent.is_dir():
                continue
            if not by_cluster:
                removed += remove_dead_buildings(place)
            elif place.exists():
                shutil.rmtree(place)
                removed.append(place)
            sync_directory(place.parent)  # else a power cut brings it back once it is forgotten
            with database.transaction():
                database.change("forget_copy", place=text)
        except OSError:
            left += [text] * by_cluster
    return removed, left


def _remove_leftovers(path: Path, database: Database) -> None:
    """Remove what runs that died left in the store; a series one of them was dropping leaves the state file too."""
    found = leftovers(path, database.rows("read_registered_files"))
    if any(place.parent.name == SERIES for place in found):
        database.rows("write_anew")
    with disk_errors(path):
        for place in found:
            if place.is_dir():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)  # a journal goes when the state is written anew


def check_is_original(path: Path, identity: StoreIdentity) -> None:
    """Refuse a copy: two of them, used side by side, would draw two noises for one level."""
    if is_original(path, identity):
        return
    if path == identity.home:
        raise StoreRolledBackError(
            f"store {path} was put back from a copy, or the owner, mode or links of its files were changed. If it is "
            f"the newest copy there is, take it with `sparsehist adopt {path}`"
        )
    raise StoreRolledBackError(
        f"store {path} is a copy of the one made at {identity.home}. If that one is gone for good, take "
        f"this one in its place with `sparsehist adopt {path}`; otherwise keep using that one"
    )


def is_original(path: Path, identity: StoreIdentity) -> bool:
    """Whether this is the directory that was made, moved or adopted, and nobody else wrote into its state since.

    Moving a directory keeps its inode and birth time, copying or restoring it does not; restoring what is in it
    changes the time of the last change of its files.
    """
    if not same_directory(directory_id(path), identity.directory) or stands_elsewhere(path, identity):
        return False
    times, at = last_change(path)
    marks = [read_mark(place, identity.store_id) for place in {path, identity.home}]
    noted = [mark.changed for mark in marks if mark.changed is not None and mark.generation == identity.generation]
    # Fewer changes: put back. As many, but later: put back or touched. More: a run died before it noted them. A time
    # may have been lost in a power cut, so that an earlier one says nothing.
    return all(times > known or (times == known and at <= then) for known, then in noted)


def stands_elsewhere(path: Path, identity: StoreIdentity) -> bool:
    """Whether the place this store calls its home holds the same store, in another directory.

    Numbers of directories repeat on other file systems, so that the number alone does not tell a copy.
    """
    if store_id_at(identity.home) != identity.store_id:
        return False
    with disk_errors(path):
        return not path.samefile(identity.home)


def check_is_newest(path: Path, identity: StoreIdentity, *, anchored: bool = True) -> None:
    """Refuse a store that forgot something: it would draw again what is already out.

    A mark that its own adoption or move raised, before a run died, is no witness against it. Its anchor is not asked
    where it is about to be replaced.
    """
    token = _own_token(path)
    seen = {
        mark_path(place): mark.generation
        for place in dict.fromkeys((path, identity.home))  # one after the other, so that the same one is named
        if (mark := read_mark(place, identity.store_id)).token is None or mark.token != token
    }
    seen |= {
        directory / LEDGER_NAME: published_generation(directory, identity.store_id)
        for directory in identity.publications
    }
    witness, newest = max(seen.items(), key=lambda item: item[1], default=(path, -1))
    if newest > identity.generation:
        raise StoreRolledBackError(
            f"store {path} is at generation {identity.generation}, but {witness} shows that it had reached "
            f"{newest}: it was put back from an older copy and would draw other noise for levels that are out. "
            "Restore the newest copy; if there is none, make a new store under a new budget"
        )
    if anchored and identity.anchor is not None:
        identity.anchor.check(identity.generation, path)


def take_place(
    path: Path, database: Database, identity: StoreIdentity, what: str, *, anchor: Path | None = None
) -> StoreIdentity:
    """Make this place the home of a store: of one that was moved, or of a copy in the place of one that is gone.

    It is the next generation, so that every other copy is shut out wherever a mark, a public ledger or the anchor can
    be reached. A run that dies in between is made up for by the next: what it noted is known by its token.
    """
    generation = identity.generation + 1
    token = _own_token(path) or _new_token(path)
    for place in (identity.home, path):
        if os.access(place.parent, os.W_OK):
            raise_mark(place, identity.store_id, Mark(generation, token))
    if identity.anchor is not None and (anchor is None or identity.anchor.path.exists()):
        identity.anchor.claim(generation, path)
    if anchor is not None:
        Anchor(anchor, identity.store_id).begin(generation)
    anchored = anchor or (identity.anchor and identity.anchor.directory)
    with database.transaction():
        database.change(
            "take_place",
            seen=identity.generation,
            directory=directory_id(path),
            home=str(path),
            anchor=anchored and str(anchored),
        )
        insert_event(database, now(), what, generation=generation)
    for directory in identity.publications:
        if os.access(directory, os.W_OK):
            raise_published_generation(directory, identity.store_id, generation)
    with disk_errors(path):
        (path / ADOPTING).unlink()
    return read_identity(database, path)


def _own_token(path: Path) -> str | None:
    """What tells the adoption or move of this directory from that of another copy, if one is not done yet."""
    with disk_errors(path):
        try:
            token, _, directory = str(read_regular(path / ADOPTING, at_most=1 << 10), "utf-8", "replace").partition(
                " "
            )
        except FileNotFoundError:
            return None
    return token if same_directory(directory, directory_id(path)) else None


def _new_token(path: Path) -> str:
    token = secrets.token_hex(16)
    write_file(path / ADOPTING, f"{token} {directory_id(path)}".encode(), durable=True)
    return token
