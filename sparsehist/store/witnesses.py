"""Read and write the files outside a store that show its generation: the generation file and public ledgers.

A store restored from an old backup lacks the noise drawn since then, and would draw new noise for published levels.
The files outside the store reveal that it is outdated. The generation file `<store>.generation`, beside the
store, gets a line after each commit, before anything is published. The public ledger `sparsehist-ledger.json`, beside
the published files, lists the releases of each store that published there. Its entries are never removed.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from sparsehist.errors import StoreDamagedError, StoreError, StoreRolledBackError
from sparsehist.store.private_files import NEW, PUBLIC, disk_errors, read_json, read_regular, write_file
from sparsehist.store.records import RegisteredFile

MARK_SUFFIX = ".generation"
LEDGER_NAME = "sparsehist-ledger.json"
_UNFINISHED = ".sparsehist-new"
_FORMAT = 1
_LONGEST_MARK = 1 << 12  # size in bytes at which a generation file is rewritten with one line for each store


def mark_path(store: Path) -> Path:
    return store.with_name(store.name + MARK_SUFFIX)


class Mark(NamedTuple):
    """The newest generation in a generation file, and the identity (`identity_of`) of the copy that committed it."""

    generation: int = -1
    identity: str = ""


def read_mark(store: Path, store_id: str) -> Mark:
    """Return the last entry for a store in a generation file, or a `Mark` with generation -1 if there is none.

    Raises:
        StoreDamagedError: If the generation file cannot be read. Without it, an old copy could draw new noise.
    """
    return _read_marks(mark_path(store))[0].get(store_id, Mark())


def raise_mark(store: Path, store_id: str, mark: Mark) -> None:
    """Add a store's new generation to its generation file, unless it is already there. Keep other stores' lines."""
    path = mark_path(store)
    marks, size = _read_marks(path)
    if marks.get(store_id, Mark()).generation >= mark.generation:
        return
    if not 0 < size < _LONGEST_MARK:
        marks[store_id] = mark
        write_file(path, b"".join(_line(*each) for each in marks.items()), durable=True)
        return
    with disk_errors(path), path.open("ab") as file:  # appending needs one synchronisation, a new file needs two
        file.write(_line(store_id, mark))
        file.flush()
        os.fsync(file.fileno())


def _line(store_id: str, mark: Mark) -> bytes:
    text = f"{store_id} {mark.generation} {mark.identity}".encode()
    return b"%s %08x\n" % (text, zlib.crc32(text))


def _read_marks(path: Path) -> tuple[dict[str, Mark], int]:
    """Return a dict from store id to `Mark`, and the file's size (0 if it is missing or its last line is cut off)."""
    marks, lines, readable = dict[str, Mark](), list[bytes](), True
    try:
        content = read_regular(path)
        *lines, unfinished = content.split(b"\n")  # only the last line can be incomplete
        for line in lines:
            store_id, generation, identity, _ = line.decode().split(" ")
            marks[store_id] = Mark(int(generation), identity)
            readable &= line + b"\n" == _line(store_id, marks[store_id])
    except (FileNotFoundError, NotADirectoryError):
        return {}, 0
    except (OSError, ValueError):
        readable = False
    if not (readable and lines):
        raise StoreDamagedError(
            f"{path} cannot be read; restore this file, because without it an old copy of the store could draw new "
            "noise for published levels"
        )
    return marks, 0 if unfinished else len(content)


def listed_in_ledger(directory: Path, store_id: str) -> dict[str, Any]:
    """Return what the public ledger in a directory shows of a store: its newest generation and its releases.

    The generation is -1 if there is no ledger, or if the caller may not read the ledger.

    Raises:
        StoreError: If the file is not a public ledger: before it was altered, it may have shown a newer generation.
    """
    try:
        stores = _read_ledger(directory / LEDGER_NAME)
    except PermissionError:
        stores = {}
    return dict(stores.get(store_id, {"generation": -1, "releases": []}))


@contextmanager
def _editing_ledger(directory: Path) -> Iterator[dict[str, Any]]:
    """Lock a public ledger, yield its dict from store id to entry, and write the dict when the block ends."""
    path = directory / LEDGER_NAME
    with _locked(directory):
        with disk_errors(path):
            stores = _read_ledger(path)
        yield stores
        text = json.dumps({"format": _FORMAT, "stores": stores}, sort_keys=True) + "\n"
        write_file(path, text.encode(), durable=True, mode=PUBLIC)


def publish(directory: Path, entry: dict[str, Any]) -> None:
    """Add a release to the public ledger of a directory, unless the ledger lists it already.

    An entry has public parameters only: the ids of the store and the round, the names of the series and the release,
    the generation, the level, the noise, the threshold, and the digest of the content.
    """
    with _editing_ledger(directory) as stores:
        store = stores.setdefault(entry["store"], {"generation": -1, "releases": []})
        listed: list[dict[str, Any]] = store["releases"]
        earlier = next((each for each in listed if each["generation"] == entry["generation"]), None)
        if earlier is not None and earlier["round"] != entry["round"]:
            raise StoreRolledBackError(
                f"the public ledger in {directory} shows a different release for this generation of the store: the "
                "store was restored from an older copy. Restore the newest copy, and do not publish releases drawn "
                "from the older copy"
            )
        store["generation"] = max(store["generation"], entry["generation"])
        if earlier is None:
            listed.append({name: value for name, value in entry.items() if name != "store"})
        elif earlier.get("digest") != entry["digest"]:
            raise StoreRolledBackError(
                "the public ledger shows this release with different rows: restore the ledger, or publish in another "
                f"directory; the ledger is in {directory}"
            )


def raise_published_generation(directory: Path, store_id: str, generation: int) -> None:
    """Raise a store's generation in a public ledger that lists the store, so that older copies are refused."""
    if listed_in_ledger(directory, store_id)["generation"] < 0:
        return
    with _editing_ledger(directory) as stores:
        stores[store_id]["generation"] = max(int(stores[store_id]["generation"]), generation)


def write_published(target: Path, content: bytes | memoryview) -> RegisteredFile:
    """Write a public file, completely or not at all. Remove files that dead processes left unfinished beside it."""
    temporary = target.with_name(f".{target.name}{_UNFINISHED}")
    with _locked(target.parent):
        return write_file(target, content, durable=True, mode=PUBLIC, temporary=temporary)


def _read_ledger(path: Path) -> dict[str, Any]:
    """Return a dict from the id of each store to its entry in a public ledger; {} if there is no ledger."""
    try:
        ledger = read_json(path)
        stores: dict[str, Any] = ledger["stores"]
        releases = [release for store in stores.values() for release in store["releases"]]
        types = {type(entry["generation"]) for entry in (*stores.values(), *releases)}
        types |= {type(release["round"]) for release in releases} - {str}
        readable = ledger["format"] == _FORMAT and types <= {int}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except PermissionError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        readable = False
    if not readable:
        raise StoreError(f"{path} is not a public ledger of this version; move it, or publish in another directory")
    return stores


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Lock a directory's public ledger while the block runs, and remove unfinished files of dead processes."""
    with disk_errors(directory):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with disk_errors(directory):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            for unfinished in (*directory.glob(f".*{_UNFINISHED}"), directory / f"{LEDGER_NAME}{NEW}"):
                unfinished.unlink(missing_ok=True)
        yield
    finally:
        os.close(descriptor)
