"""Witnesses outside a store of how far it has come: the mark beside it and the ledgers beside its releases.

A store restored from a backup forgets the noise it drew since, and would draw other noise for a level that is
already out. `<store>.generation` holds, for every store that stood at that place, the highest generation it
committed; it is raised after each commit and before anything is published. The public ledger
`sparsehist-ledger.json` lists, beside the published files, the releases of each store that published there. Entries
are only ever added. Both are JSON.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from sparsehist.errors import StoreDamagedError, StoreError
from sparsehist.store.private_files import PUBLIC, disk_errors, read_json, write_file
from sparsehist.store.records import RegisteredFile

MARK_SUFFIX = ".generation"
LEDGER_NAME = "sparsehist-ledger.json"
_UNFINISHED = ".sparsehist-new"
_FORMAT = 1


def mark_path(store: Path) -> Path:
    """The path of the mark of a store."""
    return store.with_name(store.name + MARK_SUFFIX)


class Mark(NamedTuple):
    """The highest generation of a store that committed, and the identity of the copy that did (`identity_of`)."""

    generation: int
    identity: str


NO_MARK = Mark(-1, "")


def read_mark(store: Path, store_id: str) -> Mark:
    """The mark of a store at a place; `NO_MARK` if there is none.

    Raises:
        StoreDamagedError: If the mark cannot be read; a guess could let noise be drawn twice.
    """
    return _read_marks(mark_path(store)).get(store_id, NO_MARK)


def raise_mark(store: Path, store_id: str, mark: Mark) -> None:
    """Write a mark, durably; the generation never falls, and marks of other stores are kept."""
    path = mark_path(store)
    marks = _read_marks(path)
    if marks.get(store_id, NO_MARK).generation >= mark.generation:
        return
    marks[store_id] = mark
    stored = {known: list(each) for known, each in marks.items()}
    write_file(path, (json.dumps({"format": 1, "generations": stored}, indent=1) + "\n").encode(), durable=True)


def _read_marks(path: Path) -> dict[str, Mark]:
    try:
        stored = read_json(path)["generations"]
        return {str(known): Mark(int(at), str(identity)) for known, (at, identity) in stored.items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise StoreDamagedError(
            f"{path} cannot be read as a mark of generations; restore it, for it guards against drawing "
            "noise twice from an old copy of the store"
        ) from None


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
def editing_ledger(directory: Path) -> Iterator[dict[str, Any]]:
    """The entries of a public ledger by store, to be changed in the block; written when the block ends."""
    path = directory / LEDGER_NAME
    with _locked(directory):
        with disk_errors(path):
            stores = _read_ledger(path)
        before = _as_text(stores)
        yield stores
        if (text := _as_text(stores)) != before or not path.exists():
            write_file(path, text.encode(), durable=True, mode=PUBLIC)


def raise_published_generation(directory: Path, store_id: str, generation: int) -> None:
    """Let a ledger that knows the store refuse every older copy of it."""
    if listed_in_ledger(directory, store_id)["generation"] < 0:
        return
    with editing_ledger(directory) as stores:
        stores[store_id]["generation"] = max(int(stores[store_id]["generation"]), generation)


def write_published(target: Path, content: bytes | memoryview) -> RegisteredFile:
    """Write a public file, whole or not at all; unfinished files of dead processes in its directory are removed."""
    with _locked(target.parent):
        return write_file(
            target, content, durable=True, mode=PUBLIC, temporary=target.with_name(f".{target.name}{_UNFINISHED}")
        )


def _as_text(stores: Mapping[str, Any]) -> str:
    """One line a release; `json.dumps` with an indent is a hundred times slower."""
    line = json.JSONEncoder(sort_keys=True).encode
    texts = ",\n".join(
        f'{line(store_id)}: {{"generation": {store["generation"]}, '
        + (f'"chain": {line(store["chain"])}, ' if "chain" in store else "")
        + '"releases": [\n'
        + ",\n".join(map(line, store["releases"]))
        + "\n]}"
        for store_id, store in sorted(stores.items())
    )
    return f'{{"format": {_FORMAT}, "stores": {{\n{texts}\n}}}}\n'


def _read_ledger(path: Path) -> dict[str, Any]:
    """The entries of a ledger by store; empty if there is none, PermissionError if it may not be read."""
    try:
        ledger = read_json(path)
        stores: dict[str, Any] = ledger["stores"]
        readable = ledger["format"] == _FORMAT and all(
            isinstance(store["generation"], int)
            and all(
                isinstance(made["round"], str) and isinstance(made["generation"], int) for made in store["releases"]
            )
            for store in stores.values()
        )
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
            for place in (*directory.glob(f".*{_UNFINISHED}"), directory / f"{LEDGER_NAME}.new"):
                place.unlink(missing_ok=True)
        yield
    finally:
        os.close(descriptor)
