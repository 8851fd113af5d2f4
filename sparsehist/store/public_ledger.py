"""The public ledger: what left which store, beside the published files, for everybody to read.

Several stores may publish into one directory. Entries are only ever added; the same round written again
replaces its own entry.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sparsehist.errors import StoreError, StoreRolledBackError
from sparsehist.privacy.levels import level_text
from sparsehist.store.private_files import disk_errors, write_file
from sparsehist.store.records import PublishedEntry

LEDGER_NAME = "sparsehist-ledger.json"
_PUBLIC = 0o666  # less the umask of whoever publishes
_FORMAT = 1


def publish_ledger(directory: Path, entries: Sequence[PublishedEntry]) -> Path:
    """Add releases to the public ledger of a directory.

    Args:
        directory: Where the releases are written; it exists.
        entries: Public parameters only.

    Returns:
        The path of the ledger.

    Raises:
        StoreError: If the place cannot be written, or holds a file of that name that is no such ledger.
    """
    path = directory / LEDGER_NAME
    with _locked(directory):
        ledger = _read(path)
        for entry in entries:
            _add(ledger["stores"], entry)
        text = json.dumps(ledger, indent=1, sort_keys=True) + "\n"
        write_file(path, text.encode(), durable=True, mode=_PUBLIC)
    return path


def published_generation(directory: Path, store_id: str) -> int:
    """The newest generation of a store that a directory knows of; -1 where there is nothing to be read."""
    try:
        store = json.loads((directory / LEDGER_NAME).read_text(encoding="utf-8"))["stores"][store_id]
        return int(store["generation"])
    except (OSError, ValueError, KeyError, TypeError):
        return -1


def published_rounds(directory: Path, store_id: str) -> set[str]:
    """The rounds of a store that a directory knows of."""
    try:
        stores = json.loads((directory / LEDGER_NAME).read_text(encoding="utf-8"))["stores"]
        return {release["round"] for release in stores[store_id]["releases"]}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def raise_published_generation(directory: Path, store_id: str, generation: int) -> None:
    """Let a ledger that knows the store refuse every older copy of it."""
    if published_generation(directory, store_id) < 0:
        return
    path = directory / LEDGER_NAME
    with _locked(directory):
        ledger = _read(path)
        store = ledger["stores"][store_id]
        store["generation"] = max(int(store["generation"]), generation)
        text = json.dumps(ledger, indent=1, sort_keys=True) + "\n"
        write_file(path, text.encode(), durable=True, mode=_PUBLIC)


def _add(stores: dict[str, Any], entry: PublishedEntry) -> None:
    store = stores.setdefault(entry.store_id, {"generation": -1, "releases": []})
    same_time = [release for release in store["releases"] if release["generation"] == entry.generation]
    if any(release["round"] != entry.round_id for release in same_time):
        raise StoreRolledBackError(
            f"the public ledger shows another release of generation {entry.generation} of this store: the store was "
            "put back from an older copy, and what it drew since must not be published. Restore the newest copy"
        )
    store["generation"] = max(int(store["generation"]), entry.generation)
    others = [release for release in store["releases"] if release["round"] != entry.round_id]
    store["releases"] = [*others, _as_json(entry)]


def _as_json(entry: PublishedEntry) -> dict[str, Any]:
    return {
        "series": entry.series,
        "release": entry.release,
        "level": level_text(entry.level),
        "noise": entry.noise,
        "threshold": entry.threshold,
        "generation": entry.generation,
        "round": entry.round_id,
        "sha256": entry.digest,
    }


def _read(path: Path) -> dict[str, Any]:
    with disk_errors(path):
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {"format": _FORMAT, "stores": {}}
    try:
        ledger = json.loads(text)
        readable = ledger["format"] == _FORMAT and isinstance(ledger["stores"], dict)
    except (ValueError, KeyError, TypeError):
        readable = False
    if not readable:
        raise StoreError(f"{path} is no public ledger of this version; move it away or publish elsewhere")
    return dict(ledger)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Wait for whoever writes the ledger of this directory; nobody holds it for long."""
    with disk_errors(directory):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
