"""The place of work that is interrupted: a store, what was published from it, and what must hold whenever it ends."""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

import sparsehist as sh
from sparsehist.errors import SparsehistError
from sparsehist.privacy import as_level

REFUSED, FAILED = 3, 1


def log() -> pl.DataFrame:
    """A small log, the same in every process."""
    rng = np.random.default_rng(5)
    return pl.DataFrame({"user": np.repeat(np.arange(800), 3), "key": [f"k{k}" for k in rng.zipf(1.4, 2400) % 60]})


class Place:
    """Where the work is done: a store, a directory to publish in, and what was seen so far.

    Attributes:
        root: Holds all of it.
        store: The store.
        out: What is published.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.store, self.out = root, root / "store", root / "out"
        self.out.mkdir(parents=True, exist_ok=True)
        self._seen, self.log = root / "seen.json", root.parent / "log.parquet"  # outside of what is put back
        if not self.log.exists():
            forked(lambda: log().write_parquet(self.log))  # Polars starts no thread in this process

    def create(self, name: str = "visits", **more: object) -> sh.Series:
        """Create a series, or go on where a killed run left off."""
        return sh.create(
            sh.open(self.store, create=True, wait=20), self.log, name=name, unit="user", key="key", max_keys=3,
            domain="strings(max_bytes=8)", if_exists="reuse", **more,
        )  # fmt: skip

    def number(self) -> int:
        """How many releases the store has made."""
        with sh.open(self.store, wait=20) as opened:
            return sum(event["what"] == "release" for event in opened.events().to_dicts())

    def keep(self, found: dict[str, str]) -> None:
        """Compare releases with those seen before, and remember them."""
        known = json.loads(self._seen.read_text()) if self._seen.exists() else {}
        changed = {name for name in found if known.get(name, found[name]) != found[name]}
        assert not changed, f"drawn twice: {changed}"
        self._seen.write_text(json.dumps(known | found))


def digest(release: sh.Release) -> str:
    """What tells the numbers of one release from those of another."""
    return hashlib.sha256(json.dumps([release.frame.rows(), release.metadata], default=str).encode()).hexdigest()


def inspect(place: Place) -> None:
    """Run the next command, and look at everything."""
    opened = sh.open(place.store, wait=20)
    with opened.home.hold() as state:
        state.verify()
        files = state._database._connection.execute(
            "select series_id, name from file where not erased "
            "union all select series_id, file from release where file is not null"
        )
        registered = {f"{series}/{name}" for series, name in files}
        store_id = state.store_id
    found, by_round = {}, {}
    for name in opened.series_names():
        series = opened.series(name)
        for row in series.releases().to_dicts():
            release = series.release(row["name"])
            found[str(release.metadata["round"])] = digest(release)
            by_round[release.metadata["round"]] = release
    place.keep(found)
    for path in place.out.glob("*.parquet"):
        left = sh.read(path)
        if left.metadata["series"] in opened.series_names():
            assert by_round[left.metadata["round"]].frame.equals(left.frame), f"{path.name} is not in the state"
    ledger = place.out / "sparsehist-ledger.json"
    entries = (
        json.loads(ledger.read_text())["stores"].get(store_id, {"releases": []})["releases"]
        if ledger.exists()
        else []
    )
    assert {entry["round"] for entry in entries if entry["series"] in opened.series_names()} <= set(by_round)
    ledger_rows = opened.ledger(full=True).to_dicts()
    populations = {row["population"]: row["level"] for row in ledger_rows if row["scope"] == "population"}
    paths = {row["series"]: row["level"] for row in ledger_rows if row["scope"] == "path" and row["path"] == "cells"}
    for release in by_round.values():
        if release.metadata["kind"] == "cells":
            # Of a periodic series the ledger has one row, that of its population.
            spent = (
                paths.get(release.metadata["series"]) or populations[release.metadata["declaration"]["population"]]
            )
            assert as_level(spent) >= release.level, "the ledger shows less than what left"
    _check_remains(place, registered)


def _check_remains(place: Place, registered: set[str]) -> None:
    """Nothing is there but what is meant to be."""
    top = {path.name for path in place.root.iterdir()} - {"seen.json"}
    assert top <= {"store", "store.generation", "out", "kept", "kept.generation"}, top
    inside = {path.name for path in place.store.iterdir()}
    assert inside <= {"format", "lock", "state.sqlite", "state.digest", "series", "tmp"}, inside
    assert not list((place.store / "tmp").iterdir()), "spill"
    files = {
        str(path.relative_to(place.store / "series"))
        for path in (place.store / "series").rglob("*")
        if path.is_file()
    }
    assert files == registered, files ^ registered


def forked(step: Callable[[], None]) -> int:
    """Run something in a fork; its exit code, negative when it was killed."""
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(300, exit=True)  # one that hangs says where; a machine may be busy
        code = FAILED
        try:
            step()
            code = 0
        except SparsehistError:
            code = REFUSED
            if os.environ.get("SPARSEHIST_SHOW"):
                sys.excepthook(*sys.exc_info())
        except BaseException:  # noqa: BLE001  shown, and then the child ends
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
