"""Where things are in the directory of a store, and which version of it this code reads."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from pathlib import Path

from sparsehist.errors import NotFoundError, StoreDamagedError, StoreVersionError
from sparsehist.store.private_files import disk_errors, write_file

FORMAT_VERSION = 2
STATE, LOCK, SERIES, SPILL = "state.duckdb", "lock", "series", "tmp"
_FORMAT, ADOPTING = "format", "adopting"


def write_format(store: Path, store_id: str, *, durable: bool) -> None:
    """Say that this directory is a store, which, and of which version."""
    text = json.dumps({"sparsehist store": FORMAT_VERSION, "store_id": store_id}) + "\n"
    write_file(store / _FORMAT, text.encode(), durable=durable)


def is_store(store: Path) -> bool:
    """Whether there is a store at a place, whole or damaged.

    Raises:
        StoreError: If the place may not be looked into.
    """
    with disk_errors(store):
        return (store / _FORMAT).is_file() or (store / STATE).is_file()


def store_id_at(place: Path) -> str | None:
    """Which store stands at a place, as far as its format file says."""
    try:
        return str(json.loads((place / _FORMAT).read_text(encoding="utf-8"))["store_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def check_is_store(store: Path) -> None:
    """Refuse what is no store.

    Raises:
        NotFoundError: If there is nothing, or something else.
    """
    if not is_store(store):
        raise NotFoundError(f"no store at {store}; make one with `sparsehist create`")


def format_at(store: Path) -> object:
    """Which format a store says it has.

    Raises:
        StoreDamagedError: If it does not say.
    """
    try:
        return json.loads((store / _FORMAT).read_text(encoding="utf-8"))["sparsehist store"]
    except (OSError, ValueError, KeyError, TypeError):
        raise StoreDamagedError(f"{store / _FORMAT} is missing or altered; restore the store from a backup") from None


def check_format(store: Path) -> None:
    """Refuse a store of another version, or one without its state file.

    Raises:
        StoreVersionError: If another version wrote it.
        StoreDamagedError: If it does not say which, or a file is missing.
    """
    version = format_at(store)
    if version != FORMAT_VERSION:
        remedy = "read it with `sparsehist migrate`" if version in range(FORMAT_VERSION) else "upgrade sparsehist"
        raise StoreVersionError(
            f"store {store} has format {version!r}, this sparsehist reads format {FORMAT_VERSION}; {remedy}"
        )
    check_is_whole(store)


def check_is_whole(store: Path) -> None:
    """Refuse a store without its state.

    Raises:
        StoreDamagedError: Naming what is missing.
    """
    for name in (STATE, SERIES):
        if not (store / name).exists():
            raise StoreDamagedError(f"{store / name} is missing; restore the store from a backup")


def make_spill(store: Path) -> Path:
    """An empty place for spill, whatever a dead run left there."""
    spill = store / SPILL
    with disk_errors(spill):
        shutil.rmtree(spill, ignore_errors=True)
        spill.mkdir(mode=0o700, exist_ok=True)
    return spill


def remove_leftovers(store: Path, registered: Collection[tuple[str, str]]) -> None:
    """Remove what no commit vouches for: series and rounds of runs that died.

    Args:
        store: Its directory; locked.
        registered: The files that stay, as (series, file name).
    """
    known = set(registered)
    series = {series_id for series_id, _ in known}
    with disk_errors(store):
        for directory in (store / SERIES).iterdir():
            if directory.name not in series:
                shutil.rmtree(directory)
                continue
            for file in directory.iterdir():
                if (directory.name, file.name) not in known:
                    file.unlink()
