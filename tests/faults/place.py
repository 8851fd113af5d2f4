"""Provide a directory with a store and its published files, and check what must hold after any interruption."""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import sys

import numpy as np
import polars as pl

import sparsehist as sh
from sparsehist.errors import SparsehistError
from sparsehist.privacy import as_level

REFUSED, FAILED = 3, 1


def log():
    """Return a small log that is the same in every process."""
    rng = np.random.default_rng(5)
    return pl.DataFrame({"user": np.repeat(np.arange(800), 3), "key": [f"k{k}" for k in rng.zipf(1.4, 2400) % 60]})


class Place:
    """A directory `root` with a store, its published files, and a file of digests of all releases seen so far."""

    def __init__(self, root):
        self.root, self.store, self.out = root, root / "store", root / "out"
        self.out.mkdir(parents=True, exist_ok=True)
        # The log is outside `root`, so that power cuts, which change files in `root`, leave it alone.
        self.seen, self.log = root / "seen.json", root.parent / "log.parquet"
        if not self.log.exists():
            # Write the file in a forked child, because Polars starts threads and this process must have none.
            forked(lambda: log().write_parquet(self.log))

    def open(self, *, create=False):
        """Open the store."""
        return sh.open(self.store, create=create, wait=20)

    def create(self, name="visits", **more):
        """Create a series, or reuse the series that a killed run created."""
        log = None if {"steps", "every"} & more.keys() else self.log
        declared = {"unit": "user", "key": "key", "max_keys": 3, "domain": "strings(max_bytes=8)"}
        return sh.create(self.open(create=True), log, name=name, if_exists="reuse", **declared, **more)

    def number(self):
        """Return the number of releases that the store has recorded."""
        return sum(event["what"] == "release" for event in self.open().events().to_dicts())

    def keep(self, found):
        """Check that no release has changed since it was first seen, and record the digests of new releases."""
        known = json.loads(self.seen.read_text()) if self.seen.exists() else {}
        changed = {name for name in found if known.get(name, found[name]) != found[name]}
        assert not changed, f"drawn twice: {changed}"
        self.seen.write_text(json.dumps(known | found))


def digest(release):
    """Return a digest of the rows and metadata of a release."""
    return hashlib.sha256(json.dumps([release.frame.rows(), release.metadata], default=str).encode()).hexdigest()


def inspect(place):
    """Check the releases, published files and both ledgers of a store, and that no other files exist."""
    opened = place.open()  # create=False, so that a lost store is an error
    with opened.hold() as state:
        state.verify()
        files = state._database._connection.execute(
            "select series_id, name from file union all select series_id, file from release where file is not null"
        )
        registered = {f"{series}/{name}" for series, name in files}
        store_id = state.store_id
    by_round = {}
    for name in opened.series_names():
        series = opened.series(name)
        for row in series.releases().to_dicts():
            release = series.release(row["name"])
            by_round[release.metadata["round"]] = release
    place.keep({str(number): digest(release) for number, release in by_round.items()})
    for path in place.out.glob("*.parquet"):
        left = sh.read(path)
        if left.metadata["series"] in opened.series_names():
            assert by_round[left.metadata["round"]].frame.equals(left.frame), f"{path.name} is not in the state"
    ledger = place.out / "sparsehist-ledger.json"
    stores = json.loads(ledger.read_text())["stores"] if ledger.exists() else {}
    entries = stores.get(store_id, {"releases": []})["releases"]
    assert {entry["round"] for entry in entries if entry["series"] in opened.series_names()} <= set(by_round)
    rows = opened.ledger(full=True).to_dicts()
    populations = {row["population"]: row["level"] for row in rows if row["scope"] == "population"}
    paths = {row["series"]: row["level"] for row in rows if row["scope"] == "path" and row["path"] == "cells"}
    for release in by_round.values():
        about = release.metadata
        if about["kind"] == "cells":  # for a periodic series, only its population has a ledger row
            spent = paths.get(about["series"]) or populations[about["declaration"]["population"]]
            assert as_level(spent) >= release.level, "the ledger shows less than what left"
    _check_remains(place, registered)


def _check_remains(place, registered):
    """Check that the directory contains only files of the store, of its copies and of its releases."""
    top = {path.name for path in place.root.iterdir()} - {"seen.json"}
    assert top <= {"store", "store.generation", "out", "kept", "kept.generation"}, top
    inside = {path.name for path in place.store.iterdir()}
    assert inside <= {"format", "lock", "state.sqlite", "state.digest", "series", "tmp"}, inside
    assert not list((place.store / "tmp").iterdir()), "spill"
    series = place.store / "series"
    files = {str(path.relative_to(series)) for path in series.rglob("*") if path.is_file()}
    assert files == registered, files ^ registered


def forked(step):
    """Run a function in a forked child; return the exit code, which is negative if a signal killed the child."""
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(300, exit=True)  # end a child that hangs, and print its stack
        code = FAILED
        try:
            step()
            code = 0
        except SparsehistError:
            code = REFUSED
        except BaseException:  # noqa: BLE001  print any error, then end the child
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
