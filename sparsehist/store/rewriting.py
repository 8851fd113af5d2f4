"""Dropping a series: its secrets leave the state file, not only its tables."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from sparsehist.errors import StoreError
from sparsehist.store.database import Database
from sparsehist.store.layout import SPILL, STATE
from sparsehist.store.private_files import PRIVATE, disk_errors, sync_directory


def rewrite_state(store: Path, change: Callable[[Database], None], *, durable: bool) -> None:
    """Replace the state file by one with a change made, in which nothing deleted can be read any more.

    Deleted rows stay readable in the free blocks of a database file. So the change is made in a copy, what then
    is in the tables is copied into a new file, and that file takes the place of the state: before the rename
    nothing has happened, after it everything has. No connection to the state is open, its log is written back.

    Args:
        store: Its directory; locked.
        change: Runs statements, inside a transaction.
        durable: Whether to wait for the disk.
    """
    state, work = store / STATE, store / SPILL / "rewriting"
    if state.with_name(STATE + ".wal").exists():
        raise StoreError(f"{state} could not be written back: is the disk full? Nothing was changed")
    with disk_errors(work):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(mode=0o700)
        shutil.copyfile(state, work / STATE)
    copy, rewritten = Database(work / STATE, durable=False), work / "rewritten.duckdb"
    try:
        with copy.transaction():
            change(copy)
        copy.change("state_attach_copy", path=str(rewritten))
        copy.change("state_copy_all")
        copy.change("state_detach_copy")
    finally:
        copy.close()
    with disk_errors(state):
        rewritten.chmod(PRIVATE)
        if durable:
            with rewritten.open("rb") as file:
                os.fsync(file.fileno())
        rewritten.replace(state)
        if durable:
            sync_directory(store)
        shutil.rmtree(work)
