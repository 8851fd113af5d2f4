"""What outside a store shows how far it has come: the mark beside it, and the public ledgers beside its releases.

A directory put back from a backup forgets the noise it drew since, and would draw other noise for a level that is
already out. A sibling file `<store>.generation` remembers, for every store that ever stood at that place, the highest
generation it committed; it is raised after each commit and before anything is published. The public ledger says what
left which store, beside the published files, for everybody to read. Several stores may publish into one directory.
Its entries are only ever added. Both are read by people, so they are JSON.
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
from sparsehist.store.private_files import disk_errors, read_json, write_file

MARK_SUFFIX = ".generation"
LEDGER_NAME = "sparsehist-ledger.json"
_PUBLIC = 0o666  # less the umask of whoever publishes
_FORMAT = 1


def mark_path(store: Path) -> Path:
    """The sibling file of a store."""
    return store.with_name(store.name + MARK_SUFFIX)


def read_mark(store: Path, store_id: str) -> int:
    """The highest generation noted at a place for a store; -1 when there is none.

    Raises:
        StoreDamagedError: If the file is no mark; it is never guessed around, since it guards against rollback.
    """
    return _read_marks(mark_path(store)).get(store_id, _NO_MARK).generation


def read_token(store: Path, store_id: str) -> str | None:
    """By which adoption the highest generation was noted; None if by a release."""
    return _read_marks(mark_path(store)).get(store_id, _NO_MARK).token


def raise_mark(store: Path, store_id: str, generation: int, *, token: str | None = None) -> None:
    """Note a generation durably; a mark never falls, and those of other stores at the place are kept."""
    path = mark_path(store)
    marks = _read_marks(path)
    if marks.get(store_id, _NO_MARK).generation >= generation:
        return
    marks[store_id] = _Mark(generation, token)
    stored = {
        "format": 1,
        "generations": {known: mark.generation for known, mark in marks.items()},
        "adoptions": {known: mark.token for known, mark in marks.items() if mark.token is not None},
    }
    write_file(path, (json.dumps(stored, indent=1) + "\n").encode(), durable=True)


class _Mark(NamedTuple):
    generation: int
    token: str | None


_NO_MARK = _Mark(-1, None)


def _read_marks(path: Path) -> dict[str, _Mark]:
    try:
        stored = read_json(path)
        tokens = stored.get("adoptions", {})
        return {str(known): _Mark(int(at), tokens.get(known)) for known, at in stored["generations"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise StoreDamagedError(
            f"{path} cannot be read as a mark of generations; restore it, for it guards against drawing "
            "noise twice from an old copy of the store"
        ) from None


@contextmanager
def editing_ledger(directory: Path) -> Iterator[dict[str, Any]]:
    """What the public ledger of a directory says of each store, to be changed; written when the block is left.

    Raises:
        StoreError: If the place cannot be written, or holds a file of that name that is no such ledger.
    """
    path = directory / LEDGER_NAME
    with _locked(directory):
        ledger = _read_ledger(path)
        before = _as_text(ledger)
        yield ledger["stores"]
        if (text := _as_text(ledger)) != before or not path.exists():
            write_file(path, text.encode(), durable=True, mode=_PUBLIC)


def published_generation(directory: Path, store_id: str) -> int:
    """The newest generation of a store that a directory knows of; -1 where there is no ledger, or none to be read.

    Raises:
        StoreError: If what stands there is no ledger: it may have known of a newer one.
    """
    store = _known_of(directory, store_id)
    return -1 if store is None else int(store["generation"])


def published_rounds(directory: Path, store_id: str) -> set[str]:
    """The rounds of a store that a directory knows of.

    Raises:
        StoreError: If what stands there is no ledger.
    """
    store = _known_of(directory, store_id)
    return set() if store is None else {release["round"] for release in store["releases"]}


def _known_of(directory: Path, store_id: str) -> dict[str, Any] | None:
    path = directory / LEDGER_NAME
    try:
        known: dict[str, Any] | None = _checked_ledger(path, read_json(path))["stores"].get(store_id)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except (OSError, ValueError):
        raise _no_ledger(path) from None
    return known


def raise_published_generation(directory: Path, store_id: str, generation: int) -> None:
    """Let a ledger that knows the store refuse every older copy of it."""
    if published_generation(directory, store_id) < 0:
        return
    with editing_ledger(directory) as stores:
        stores[store_id]["generation"] = max(int(stores[store_id]["generation"]), generation)


def _as_text(ledger: Mapping[str, Any]) -> str:
    """One line for each release: what JSON calls indented is written by Python, a hundred times as slowly."""
    line = json.JSONEncoder(sort_keys=True).encode
    stores = ",\n".join(
        f'{line(store_id)}: {{"generation": {store["generation"]}, '
        + (f'"chain": {line(store["chain"])}, ' if "chain" in store else "")
        + '"releases": [\n'
        + ",\n".join(map(line, store["releases"]))
        + "\n]}"
        for store_id, store in sorted(ledger["stores"].items())
    )
    return f'{{"format": {_FORMAT}, "stores": {{\n{stores}\n}}}}\n'


def _read_ledger(path: Path) -> dict[str, Any]:
    try:
        return _checked_ledger(path, read_json(path))
    except FileNotFoundError:
        return {"format": _FORMAT, "stores": {}}
    except PermissionError as problem:
        with disk_errors(path):
            raise problem from None
    except (OSError, ValueError):
        raise _no_ledger(path) from None


def _checked_ledger(path: Path, ledger: Any) -> dict[str, Any]:
    try:
        readable = ledger["format"] == _FORMAT and all(
            isinstance(store["generation"], int)
            and all(
                isinstance(release["round"], str) and isinstance(release["generation"], int)
                for release in store["releases"]
            )
            for store in ledger["stores"].values()
        )
    except (KeyError, TypeError, AttributeError):
        readable = False
    if not readable:
        raise _no_ledger(path)
    return dict(ledger)


def _no_ledger(path: Path) -> StoreError:
    return StoreError(f"{path} is no public ledger of this version; move it away or publish elsewhere")


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
