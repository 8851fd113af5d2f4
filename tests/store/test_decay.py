"""Flipped bits in the files of a store are noticed or harmless: never another number, never a crash."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

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


def make(path: Path) -> None:
    """A store with a long series, releases of its cells and of a workload."""
    counted = pl.DataFrame({"key": KEYS, "count": 1 + seeded(3).geometric(0.3, len(KEYS))})
    series = sh.create(path, sh.Counts(counted, largest=1), name="long", key="key", max_keys=2, domain=DOMAIN)
    for name, level, threshold in (("coarse", "0.1", 20.0), ("fine", "0.5", 9.0), ("again", "0.3", 11.5)):
        series.release(name, level=level, threshold=threshold)
    totals = pl.DataFrame({"day": range(30), "count": range(100, 130)})
    daily = sh.create(path, sh.Counts(totals, largest=1), name="daily", key="day", max_keys=2, domain="integers(30)")
    daily.release("sums", workload="marginals([[]])", level="0.2")


def seen(path: Path) -> list[object]:
    """All that a store says: rows and metadata of all releases, the ledger, and whether keys have counts."""
    store = sh.open(path)
    found: list[object] = [store.ledger(full=True).rows(), store.events().rows()]
    long, daily = store.series("long"), store.series("daily")
    for release in (*map(long.release, ("coarse", "fine", "again")), daily.release("sums")):
        found += [release.frame.rows(), release.metadata]
    with open_state(path) as state:
        files = state.series_files(state.series("long"))
        found.append(files.positions(pl.DataFrame({"key_0": KEYS[::7]})).tolist())
        found.append([part.tolist() for part in files.groups])
        found.append(files.keys(np.arange(0, len(KEYS), 11))["key_0"].to_list())
    return found


def flip(file: Path, bit: int) -> None:
    """Flip one bit in place."""
    with file.open("r+b") as opened:
        opened.seek(bit // 8)
        (byte,) = opened.read(1)
        opened.seek(bit // 8)
        opened.write(bytes([byte ^ (1 << bit % 8)]))


def outcome(path: Path, whole: list[object]) -> str:
    """What becomes of a store with a flipped bit."""
    try:
        return "harmless" if seen(path) == whole else "another number"
    except SparsehistError:
        return "noticed"
    except BaseException as problem:  # noqa: BLE001  whatever it is, a panic of Polars too, it is to be seen
        return f"crash {type(problem).__name__}"


def flips(path: Path, n: int, seed: int, *, of_counts: bool, unchecked: bool = False) -> Counter[str]:
    """Flip random bits one after the other, each taken back, and count what becomes of the store."""
    if unchecked:
        series_files._Parts.__getitem__ = (
            lambda parts, number: memoryview(parts._mapped)[  # type: ignore[method-assign]
                parts._bounds[number] : parts._bounds[number + 1]
            ]
        )
    whole, rng = seen(path), seeded(seed)
    kept = {file: file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}
    files = [file for file in kept if file.name not in ("lock", "format")]
    files = [file for file in files if (file.name in ("counts", "support", "index")) == of_counts]
    weights = np.array([len(kept[file]) for file in files], dtype=float)
    ended: Counter[str] = Counter()
    for _ in range(n):
        file = files[rng.choice(len(files), p=weights / weights.sum())]
        flip(file, int(rng.integers(8 * len(kept[file]))))
        ended[outcome(path, whole)] += 1
        for place in (file, path / "state.digest"):  # the latter is written anew where a count of changes was flipped
            place.write_bytes(kept[place])
        assert set(kept) == {place for place in path.rglob("*") if place.is_file()}
    assert outcome(path, whole) == "harmless"
    return ended


def in_a_process(*asked: object, **how: object) -> Counter[str]:
    """The same in a process of its own, which a crash ends."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(flips, *asked, **how).result()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store that is whole."""
    path = tmp_path_factory.mktemp("decay") / "store"
    make(path)
    return path


@pytest.mark.parametrize("of_counts", [True, False], ids=["counts", "others"])
def test_a_flipped_bit_is_noticed_or_harmless(store, of_counts):
    """A few dozen random flips; `test_many_flipped_bits` does 1,500."""
    ended = in_a_process(store, 40, 1, of_counts=of_counts)
    assert set(ended) <= {"noticed", "harmless"} and ended["noticed"] > 0, ended


@pytest.mark.slow
@pytest.mark.parametrize(("of_counts", "n"), [(True, 1000), (False, 500)], ids=["counts", "others"])
def test_many_flipped_bits(store, of_counts, n):
    """The same with 1,000 flips in counts and 500 elsewhere."""
    ended = in_a_process(store, n, 2, of_counts=of_counts)
    assert set(ended) <= {"noticed", "harmless"} and ended["noticed"] > n / 2, ended


def test_flips_that_no_checksum_covers_are_found(store):
    """Negative control: where the parts of counts are not compared, such flips give other numbers or crash."""
    try:
        ended = in_a_process(store, 40, 1, of_counts=True, unchecked=True)
    except BrokenProcessPool:
        return
    assert set(ended) - {"noticed", "harmless"}, ended


def test_an_error_of_sqlite_that_is_no_text_is_ours(tmp_path):
    """SQLite quotes the damaged schema, which is no valid UTF-8 any more."""
    path = make_store(tmp_path / "s")
    whole = (path / "state.sqlite").read_bytes()
    begins = whole.lower().index(b"create table release")
    for at in range(begins, begins + 30, 3):
        (path / "state.sqlite").write_bytes(whole[:at] + bytes([whole[at] ^ 128]) + whole[at + 1 :])
        with pytest.raises(StoreDamagedError), open_state(path):
            pass


@pytest.mark.parametrize("value", [b"create store", b"gaussian", b"default"])
def test_a_flipped_value_of_the_state_is_noticed_by_its_digest(tmp_path, value):
    """SQLite itself takes such a value for what was written."""
    path = make_store(tmp_path / "s")
    whole = (path / "state.sqlite").read_bytes()
    at = whole.index(value)
    (path / "state.sqlite").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(StoreDamagedError, match="altered"), open_state(path):
        pass
