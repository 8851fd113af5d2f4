"""A flipped bit in a store's files is detected or harmless, and never causes a wrong number or a crash."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.entropy import seeded
from sparsehist.errors import SparsehistError, StoreDamagedError
from sparsehist.store import open_state, series_files
from tests.store.example import make_store

KEYS = [f"key number {i}" for i in range(20_000)]
DOMAIN = sh.Catalogue(pl.Series([*KEYS, *(f"absent {i}" for i in range(2000))]))


def make(path):
    """Create a store with a long series, releases of the series, and a release of a workload."""
    counted = pl.DataFrame({"key": KEYS, "count": 1 + seeded(3).geometric(0.3, len(KEYS))})
    series = sh.create(path, sh.Counts(counted, largest=1), name="long", key="key", max_keys=2, domain=DOMAIN)
    for name, level, threshold in (("coarse", "0.1", 20.0), ("fine", "0.5", 9.0), ("again", "0.3", 11.5)):
        series.release(name, level=level, threshold=threshold)
    totals = pl.DataFrame({"day": range(30), "count": range(100, 130)})
    daily = sh.create(path, sh.Counts(totals, largest=1), name="daily", key="day", max_keys=2, domain="integers(30)")
    daily.release("sums", workload="marginals([[]])", level="0.2")


def seen(path):
    """Return everything that a store shows: releases, metadata, ledger, events, keys and counts."""
    store = sh.open(path)
    found = [store.ledger(full=True).rows(), store.events().rows()]
    long, daily = store.series("long"), store.series("daily")
    for release in (*map(long.release, ("coarse", "fine", "again")), daily.release("sums")):
        found += [release.frame.rows(), release.metadata]
    with open_state(path) as state:
        files = state.series_files(state.series("long"))
        found.append(files.positions(pl.DataFrame({"key_0": KEYS[::7]})).tolist())
        found.append([part.tolist() for part in files.groups])
        found.append(files.keys(np.arange(0, len(KEYS), 11))["key_0"].to_list())
    return found


def flip(file, bit):
    """Flip one bit of a file."""
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    with file.open("r+b") as opened:
        opened.write(content)


def outcome(path, whole):
    """Read a damaged store, and return "harmless", "noticed", "another number" or "crash" for the outcome."""
    try:
        return "harmless" if seen(path) == whole else "another number"
    except SparsehistError:
        return "noticed"
    except BaseException as problem:  # noqa: BLE001  any error counts as a crash, also a panic of Polars
        return f"crash {type(problem).__name__}"


def unchecked(parts, number):
    """Return part `number` of a file without verifying the checksum; this replaces the method that verifies it."""
    return memoryview(parts._mapped)[parts._bounds[number] : parts._bounds[number + 1]]


def flips(path, n, seed, *, of_counts, compared=True):
    """Flip and restore random bits one at a time, and return how often each outcome occurs."""
    if not compared:
        series_files._Parts.__getitem__ = unchecked
    whole, rng = seen(path), seeded(seed)
    kept = {file: file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}
    files = [file for file in kept if file.name not in ("lock", "format")]
    files = [file for file in files if (file.name in ("counts", "support", "index")) == of_counts]
    weights = np.array([len(kept[file]) for file in files], dtype=float)
    ended = Counter()
    for _ in range(n):
        file = files[rng.choice(len(files), p=weights / weights.sum())]
        flip(file, int(rng.integers(8 * len(kept[file]))))
        ended[outcome(path, whole)] += 1
        for place in (file, path / "state.digest"):  # opening the store may have rewritten its digest
            place.write_bytes(kept[place])
        assert set(kept) == {place for place in path.rglob("*") if place.is_file()}
    assert outcome(path, whole) == "harmless"
    return ended


def in_a_process(*asked, **how):
    """Run `flips` in a separate process, so that a crash ends only that process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(flips, *asked, **how).result()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Create an undamaged store."""
    path = tmp_path_factory.mktemp("decay") / "store"
    make(path)
    return path


@pytest.mark.parametrize(
    ("of_counts", "n"),
    [
        pytest.param(True, 40, id="counts"),
        pytest.param(False, 40, id="others"),
        pytest.param(True, 1000, id="many in counts", marks=pytest.mark.slow),
        pytest.param(False, 500, id="many in others", marks=pytest.mark.slow),
    ],
)
def test_a_flipped_bit_is_noticed_or_harmless(store, of_counts, n):
    """After a random bit flip, either every number is unchanged or the store is refused."""
    ended = in_a_process(store, n, n, of_counts=of_counts)
    assert set(ended) <= {"noticed", "harmless"} and ended["noticed"] > (n / 2 if n > 40 else 0), ended


def test_flips_that_no_checksum_covers_are_found(store):
    """Negative control: if checksums of counts are not verified, bit flips cause wrong numbers or crashes."""
    try:
        ended = in_a_process(store, 40, 1, of_counts=True, compared=False)
    except BrokenProcessPool:
        return
    assert set(ended) - {"noticed", "harmless"}, ended


def test_an_error_of_sqlite_that_is_no_text_is_ours(tmp_path):
    """If SQLite's message about a damaged schema is invalid UTF-8, StoreDamagedError is raised."""
    path = make_store(tmp_path / "s")
    whole = (path / "state.sqlite").read_bytes()
    begins = whole.lower().index(b"create table release")
    for at in range(begins, begins + 30, 3):
        (path / "state.sqlite").write_bytes(whole[:at] + bytes([whole[at] ^ 128]) + whole[at + 1 :])
        with pytest.raises(StoreDamagedError), open_state(path):
            pass


@pytest.mark.parametrize("value", [b"create store", b"gaussian", b"default"])
def test_a_flipped_value_of_the_state_is_noticed_by_its_digest(tmp_path, value):
    """The digest of a store's database detects a changed value, even if SQLite accepts the value."""
    path = make_store(tmp_path / "s")
    state = path / "state.sqlite"
    flip(state, 8 * state.read_bytes().index(value))
    with pytest.raises(StoreDamagedError, match="altered"), open_state(path):
        pass
