"""Lock and open stores. Refuse a store that is damaged, that is a copy, or that lacks some published releases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sparsehist.errors import NotFoundError, StoreRolledBackError
from sparsehist.store.database import Database
from sparsehist.store.layout import (
    LOCK,
    SPILL,
    STATE,
    check_format,
    exclusive_lock,
    identity_of,
    is_store,
    remove_dead,
)
from sparsehist.store.private_files import NEW, disk_errors
from sparsehist.store.state import State
from sparsehist.store.witnesses import LEDGER_NAME, listed_in_ledger, mark_path, read_mark


@contextmanager
def open_state(path: Path, *, wait: float = 0.0, durable: bool = True, who: str | None = None) -> Iterator[State]:
    """Lock a store while the block runs, and yield its `State`.

    If `durable` is false, writes are not synchronised, so a power cut can destroy the store, and no generation file
    is written (see `witnesses`). The state records `who` with every event; the default is the name of the OS user.

    Raises:
        StoreDamagedError: If a part is missing or altered.
        StoreRolledBackError: If the store is a copy, or older than what was published from it.
    """
    with locked_state(path.resolve(), wait=wait, durable=durable, who=who) as state:
        if durable:
            check_is_newest(state)
        check_is_original(state)
        with disk_errors(state.path):
            # When the state was opened, SQLite rolled back any unfinished transaction, so its journal can be removed.
            (state.path / f"{STATE}-journal").unlink(missing_ok=True)
        # If a process died just after a commit, obsolete files may still exist, and generation files may be outdated.
        state.erase_unknown()
        state.raise_marks()
        yield state


@contextmanager
def locked_state(path: Path, *, wait: float, durable: bool = True, who: str | None = None) -> Iterator[State]:
    """Lock a store and open its state; do not check whether the store is the original and the newest copy."""
    if not is_store(path):
        raise NotFoundError(f"no store at {path}: create one with `sparsehist create`, or check the path")
    with exclusive_lock(path / LOCK, wait=wait):
        check_format(path)
        with disk_errors(path):
            (path / SPILL).mkdir(mode=0o700, exist_ok=True)
            for unfinished in (*path.glob(f"*{NEW}"), Path(f"{mark_path(path)}{NEW}")):
                unfinished.unlink(missing_ok=True)
        remove_dead(path / SPILL, "")
        with closing(Database(path, durable=durable)) as database:
            yield State(path, database, durable=durable, who=who)


def check_is_newest(state: State) -> None:
    """Raise an error if a generation file or public ledger shows that this store was restored from an older copy."""
    seen = {}
    for path in {state.path, state.home}:
        mark = read_mark(path, state.store_id)
        # If the file shows the same generation with a different identity, a different copy has been adopted.
        overtaken = mark.generation == state.generation and mark.identity != state.identity
        seen[mark_path(path)] = mark.generation + overtaken
    for directory in state.publications:
        seen[directory / LEDGER_NAME] = listed_in_ledger(directory, state.store_id)["generation"]
    witness, newest = max(seen.items(), key=lambda item: item[1])
    if newest > state.generation:
        raise StoreRolledBackError(
            f"store {state.path} was restored from an older copy, and would draw new noise for published levels. "
            "Restore the newest copy; if it is lost, create a new store with a new budget. The generation of this "
            f"store is {state.generation}, but it must be at least {newest} according to {witness}"
        )


def check_is_original(state: State) -> None:
    """Raise an error if the store is a copy, because a copy would not draw the same noise as the original."""
    if identity_of(state.path) != state.identity:
        raise StoreRolledBackError(
            f"the store is a copy of {state.home}, or the owner, mode or number of hard links of its files "
            "was changed. If there is no newer copy, and no other copy will be used, adopt this store: "
            f"`sparsehist adopt {state.path} --home-is-gone`"
        )
