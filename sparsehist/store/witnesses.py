"""Witnesses outside a store of how far it has come: the mark beside it and the ledgers beside its releases.

A store restored from a backup forgets the noise it drew since, and would draw other noise for a level that is
already out. `<store>.generation` holds a line for each commit of every store that stood at that place; it is raised
after the commit and before anything is published. The public ledger `sparsehist-ledger.json` lists, beside the
published files, the releases of each store that published there. Entries are only ever added.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from sparsehist.errors import StoreDamagedError, StoreError, StoreRolledBackError
from sparsehist.store.private_files import NEW, PUBLIC, disk_errors, read_json, read_regular, write_all, write_file
from sparsehist.store.records import RegisteredFile

MARK_SUFFIX = ".generation"
LEDGER_NAME = "sparsehist-ledger.json"
_UNFINISHED = ".sparsehist-new"
_FORMAT = 1
_LONGEST_MARK = 1 << 12  # bytes; then it is written anew with one line for each store


def mark_path(store: Path) -> Path:
    """Return the path of the mark of a store."""
    return store.with_name(store.name + MARK_SUFFIX)


class Mark(NamedTuple):
    """The highest generation of a store that committed, and the identity of the copy that did (`identity_of`)."""

    generation: int
    identity: str


NO_MARK = Mark(-1, "")


def read_mark(store: Path, store_id: str) -> Mark:
    """Return the mark of a store at a place; `NO_MARK` if there is none.

    Raises:
        StoreDamagedError: If the mark cannot be read; a guess could let noise be drawn twice.
    """
    return _read_marks(mark_path(store))[0].get(store_id, NO_MARK)


def raise_mark(store: Path, store_id: str, mark: Mark) -> None:
    """Write a mark, durably; the generation never falls, and marks of other stores are kept."""
    path = mark_path(store)
    marks, size = _read_marks(path)
    if marks.get(store_id, NO_MARK).generation >= mark.generation:
        return
    if not 0 < size < _LONGEST_MARK:
        write_file(path, b"".join(_line(*each) for each in (marks | {store_id: mark}).items()), durable=True)
        return
    with disk_errors(path):  # a line more takes one synchronisation, a new file two
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            write_all(descriptor, memoryview(_line(store_id, mark)))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _line(store_id: str, mark: Mark) -> bytes:
    said = f"{store_id} {mark.generation} {mark.identity}".encode()
    return b"%s %08x\n" % (said, zlib.crc32(said))


def _read_marks(path: Path) -> tuple[dict[str, Mark], int]:
    """The marks by store, and the size of the file; 0 if its last line is unfinished, so that none may follow."""
    marks: dict[str, Mark] = {}
    try:
        content = read_regular(path)
        first, *lines, unfinished = content.split(b"\n")  # ValueError if there is none: only the last is ever torn
        for line in (first, *lines):
            store_id, generation, identity, _ = line.decode().split(" ")
            marks[store_id] = Mark(int(generation), identity)
            if line + b"\n" != _line(store_id, marks[store_id]):
                raise _unreadable(path)
    except (FileNotFoundError, NotADirectoryError):
        return {}, 0
    except (OSError, ValueError):
        raise _unreadable(path) from None
    return marks, 0 if unfinished else len(content)


def _unreadable(path: Path) -> StoreDamagedError:
    return StoreDamagedError(
        f"{path} cannot be read as a mark of generations; restore it, for it guards against drawing noise twice "
        "from an old copy of the store"
    )


def listed_in_ledger(directory: Path, store_id: str) -> dict[str, Any]:
    """What the public ledger of a directory shows of a store: its newest generation and its releases, in order.

    The generation is -1 where there is no ledger, or none that may be read.

    Raises:
        StoreError: If the file is not a ledger: it may have known of a newer generation.
    """
    try:
        stores = _read_ledger(directory / LEDGER_NAME)
    except PermissionError:
        stores = {}
    return dict(stores.get(store_id, {"generation": -1, "releases": []}))


@contextmanager
def _editing_ledger(directory: Path) -> Iterator[dict[str, Any]]:
    """The entries of a public ledger by store, to be changed in the block; written when the block ends."""
    path = directory / LEDGER_NAME
    with _locked(directory):
        with disk_errors(path):
            stores = _read_ledger(path)
        before = _as_text(stores)
        yield stores
        if (text := _as_text(stores)) != before or not path.exists():
            write_file(path, text.encode(), durable=True, mode=PUBLIC)


def publish(directory: Path, entry: dict[str, Any]) -> None:
    """Add a release to the public ledger of a directory, unless it is there.

    An entry holds public parameters only: what tells store, release and round, level, noise, threshold, and the
    digest of the content.
    """
    with _editing_ledger(directory) as stores:
        store = stores.setdefault(entry["store"], {"generation": -1, "releases": []})
        listed: list[dict[str, Any]] = store["releases"]
        known = next((each for each in listed if each["generation"] == entry["generation"]), None)
        if known is not None and known["round"] != entry["round"]:
            raise StoreRolledBackError(
                f"the public ledger shows another release of generation {entry['generation']} of this store: the "
                "store was put back from an older copy, and what it drew since must not be published. Restore the "
                "newest copy"
            )
        store["generation"] = max(store["generation"], entry["generation"])
        if known is None:
            listed.append({name: value for name, value in entry.items() if name != "store"})
        elif known.get("digest") != entry["digest"]:
            raise StoreRolledBackError(
                f"the public ledger in {directory} shows other rows of this release: restore the ledger, or publish "
                "elsewhere"
            )


def raise_published_generation(directory: Path, store_id: str, generation: int) -> None:
    """Let a ledger that knows the store refuse every older copy of it."""
    if listed_in_ledger(directory, store_id)["generation"] < 0:
        return
    with _editing_ledger(directory) as stores:
        stores[store_id]["generation"] = max(int(stores[store_id]["generation"]), generation)


def write_published(target: Path, content: bytes | memoryview) -> RegisteredFile:
    """Write a public file, whole or not at all; unfinished files of dead processes in its directory are removed."""
    temporary = target.with_name(f".{target.name}{_UNFINISHED}")
    with _locked(target.parent):
        return write_file(target, content, durable=True, mode=PUBLIC, temporary=temporary)


def _as_text(stores: Mapping[str, Any]) -> str:
    return json.dumps({"format": _FORMAT, "stores": stores}, sort_keys=True) + "\n"


def _read_ledger(path: Path) -> dict[str, Any]:
    """Return the entries of a ledger by store; empty if there is none, PermissionError if it may not be read."""
    try:
        ledger = read_json(path)
        stores: dict[str, Any] = ledger["stores"]
        made = [release for store in stores.values() for release in store["releases"]]
        numbers = [entry["generation"] for entry in (*stores.values(), *made)]
        rounds = [release["round"] for release in made]
        readable = ledger["format"] == _FORMAT and {*map(type, numbers)} <= {int} and {*map(type, rounds)} <= {str}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except PermissionError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        readable = False
    if not readable:
        raise StoreError(f"{path} is not a public ledger of this version; move it away or publish elsewhere")
    return stores


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Wait for other publishers in this directory, then remove unfinished files of dead ones."""
    with disk_errors(directory):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with disk_errors(directory):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            for place in (*directory.glob(f".*{_UNFINISHED}"), directory / f"{LEDGER_NAME}{NEW}"):
                place.unlink(missing_ok=True)
        yield
    finally:
        os.close(descriptor)
