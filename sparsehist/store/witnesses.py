"""What outside a store shows how far it has come: the mark beside it, ledgers beside its releases, an anchor.

A directory put back from a backup forgets the noise it drew since, and would draw other noise for a level that is
already out. A sibling file `<store>.generation` remembers, for every store that ever stood at that place, the highest
generation it committed; it is raised after each commit and before anything is published. The public ledger says what
left which store, beside the published files, for everybody to read. Several stores may publish into one directory.
Its entries are only ever added. An anchor is a mark in a place of its own choice. All are JSON.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from sparsehist.errors import StoreDamagedError, StoreError, StoreRolledBackError
from sparsehist.store.layout import RECEIPT
from sparsehist.store.private_files import PUBLIC, disk_errors, read_json, read_regular, write_file
from sparsehist.store.records import RegisteredFile

MARK_SUFFIX = ".generation"
LEDGER_NAME = "sparsehist-ledger.json"
CLAIMS = "claims"
"""File of a store: the texts by which it claimed its last generations at its anchor."""
_UNFINISHED = ".sparsehist-new"
_FORMAT = 1
_LARGEST_SERVED = 1 << 28  # bytes: what is larger is made anew, in less memory


def mark_path(store: Path) -> Path:
    """The sibling file of a store."""
    return store.with_name(store.name + MARK_SUFFIX)


class Mark(NamedTuple):
    """What stands beside a store about it.

    Attributes:
        generation: The highest it committed; -1 when nothing is noted.
        token: By which adoption or move that was noted, before it was done; None if by a commit.
        changed: How often its state file was changed and when last, as `last_change` has it; None if not noted.
    """

    generation: int
    token: str | None = None
    changed: tuple[int, int] | None = None


_NO_MARK = Mark(-1)


def read_mark(store: Path, store_id: str) -> Mark:
    """What is noted at a place about a store; never guessed, as it guards against rollback."""
    return _read_marks(mark_path(store)).get(store_id, _NO_MARK)


def raise_mark(store: Path, store_id: str, mark: Mark) -> None:
    """Note a generation durably; a mark never falls, and those of other stores at the place are kept."""
    path = mark_path(store)
    marks = _read_marks(path)
    known = marks.get(store_id, _NO_MARK)
    if known.generation > mark.generation or known == mark:
        return
    marks[store_id] = mark
    stored = {
        "format": 1,
        "generations": {each: marks[each].generation for each in marks},
        "adoptions": {each: marks[each].token for each in marks if marks[each].token is not None},
        "changes": {each: marks[each].changed for each in marks if marks[each].changed is not None},
    }
    write_file(path, (json.dumps(stored, indent=1) + "\n").encode(), durable=True)


def _read_marks(path: Path) -> dict[str, Mark]:
    try:
        stored = read_json(path)
        tokens, changes = stored.get("adoptions", {}), stored.get("changes", {})
        return {
            str(known): Mark(int(at), tokens.get(known), _pair(changes.get(known)))
            for known, at in stored["generations"].items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise StoreDamagedError(
            f"{path} cannot be read as a mark of generations; restore it, for it guards against drawing "
            "noise twice from an old copy of the store"
        ) from None


def _pair(stored: Any) -> tuple[int, int] | None:
    return None if stored is None else (int(stored[0]), int(stored[1]))


class Anchor(NamedTuple):
    """A store's generation in a directory of another machine or disk, which is not put back together with the store.

    Every commit claims its generation there first. So of two copies, wherever they are, one goes on; a claim is told
    from that of a copy by a random text that the claiming store wrote down before.
    """

    directory: Path
    store_id: str

    @property
    def path(self) -> Path:
        """The file of this store."""
        return self.directory / f"sparsehist-{self.store_id}.anchor"

    def begin(self, generation: int) -> None:
        """Anchor a store here from now on."""
        with _locked(self.directory):
            self._write(generation, secrets.token_hex(16))

    def check(self, generation: int, store: Path) -> str:
        """Refuse a store that is behind, unless it is its own claim that is ahead; who claimed last."""
        reached, claim = self._read()
        if reached > generation and not (reached == generation + 1 and claim in _claims(store)):
            raise StoreRolledBackError(
                f"store {store} is at generation {generation}, but its anchor {self.path} shows that it had reached "
                f"{reached}: it was put back from an older copy, or another copy of it is in use. Use the newest copy"
            )
        return claim

    def claim(self, generation: int, store: Path) -> None:
        """Claim a generation for the commit that follows."""
        with _locked(self.directory):
            last, new = self.check(generation - 1, store), secrets.token_hex(16)
            # Both: a run that dies before the second file is written is the last to have claimed.
            write_file(store / CLAIMS, f"{last} {new}".encode(), durable=True)
            self._write(generation, new)

    def _read(self) -> tuple[int, str]:
        try:
            stored = read_json(self.path)
            return int(stored["generation"]), str(stored["claim"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            raise StoreError(
                f"the anchor {self.path} is not there or cannot be read: mount its directory. If it is lost and this "
                "is the newest copy of the store, adopt it with another anchor"
            ) from None

    def _write(self, generation: int, claim: str) -> None:
        stored = {"format": 1, "store": self.store_id, "generation": generation, "claim": claim}
        write_file(self.path, (json.dumps(stored) + "\n").encode(), durable=True)


def _claims(store: Path) -> list[str]:
    try:
        return str(read_regular(store / CLAIMS, at_most=1 << 10), "utf-8", "replace").split()
    except OSError:
        return []


@contextmanager
def editing_ledger(directory: Path) -> Iterator[dict[str, Any]]:
    """What the public ledger of a directory says of each store, to be changed; written when the block is left."""
    path = directory / LEDGER_NAME
    with _locked(directory):
        ledger = _read_ledger(path)
        before = _as_text(ledger)
        yield ledger["stores"]
        if (text := _as_text(ledger)) != before or not path.exists():
            write_file(path, text.encode(), durable=True, mode=PUBLIC)


def listed_in_ledger(directory: Path, store_id: str) -> list[dict[str, Any]]:
    """What the public ledger of a directory lists of a store, in order; nothing where there is no ledger."""
    listed: list[dict[str, Any]] = _read_ledger(directory / LEDGER_NAME)["stores"].get(store_id, {"releases": []})[
        "releases"
    ]
    return listed


def write_published(target: Path, content: bytes | memoryview) -> RegisteredFile:
    """Write a file for everybody, whole or not at all; remains of runs that died in its directory are removed."""
    with _locked(target.parent):
        return write_file(
            target, content, durable=True, mode=PUBLIC, temporary=target.with_name(f".{target.name}{_UNFINISHED}")
        )


class Receipt(NamedTuple):
    """What a store remembers of the Parquet file that it last wrote a release to, unsigned.

    Whoever asks for that release again is served by the file, if it is still what it was: its rows need not be made.
    Nothing rests on a receipt: one that is lost, torn or altered is no receipt. `digest` is that of the content, as
    the public ledger has it; size (in bytes) and SHA-256 (in hex) are those of the file, whose path is absolute.
    """

    rows: int
    digest: str
    path: str
    size: int
    sha256: str

    def keep(self, series: Path, round_id: str) -> None:
        """Keep it among the files of the series; where that cannot be, nothing is lost."""
        text = json.dumps(self)
        with suppress(StoreError):
            write_file(series / f"{RECEIPT}{round_id}", f"{_digest(text)}\n{text}".encode(), durable=False)

    @classmethod
    def find(cls, series: Path, round_id: str) -> Receipt | None:
        """That of a round, if there is one."""
        try:
            digest, text = str(read_regular(series / f"{RECEIPT}{round_id}", at_most=1 << 14), "utf-8").split("\n")
            return cls(*json.loads(text)) if digest == _digest(text) else None
        except (OSError, ValueError, TypeError):  # another version may remember more
            return None

    def content(self, path: Path) -> bytes | None:
        """The bytes of a file, if they are those that were written."""
        try:
            content = read_regular(path, at_most=min(self.size, _LARGEST_SERVED))
        except OSError:
            return None
        return content if hashlib.sha256(content).hexdigest() == self.sha256 else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def published_generation(directory: Path, store_id: str) -> int:
    """The newest generation of a store that a directory knows of; -1 where there is no ledger, or none to be read.

    What stands there and is no ledger is refused: it may have known of a newer one.
    """
    store = _known_of(directory, store_id)
    return -1 if store is None else int(store["generation"])


def published_rounds(directory: Path, store_id: str) -> set[str]:
    """The rounds of a store that a directory knows of."""
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
    """Wait for whoever publishes in this directory; what a run that died left half written there is removed."""
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
