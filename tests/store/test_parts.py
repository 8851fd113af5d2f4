"""Counts in parts without a cluster: files written here in its form, and a billion keys that stand in no file."""

import hashlib
import subprocess
import sys
from itertools import combinations, pairwise

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.entropy import seeded
from sparsehist.errors import StoreDamagedError, StoreError
from sparsehist.histogram import draw_round
from sparsehist.noise import Gaussian
from sparsehist.series import cell_round, pipeline
from sparsehist.store import SeriesFiles, State
from sparsehist.store.parts.counts_in_parts import CountsInParts, hash_texts, register_parts
from tests import stats
from tests.histogram.dense_reference import dense_releases
from tests.store.large_parts import measured
from tests.test_layout import CHECKOUT

SALT = bytes(range(16))


def _groups(counts):
    count, start = np.unique(counts, return_index=True)
    return count, start, np.diff(start, append=len(counts))


def write_copies(place, keys, counts, *, shards, salt, look_up, row_group=7):
    """Write keys with their counts as a cluster would, into so many files; returns their groups and digests."""
    order = np.lexsort((hash_texts(keys, salt), counts))
    held = keys[order].with_columns(count=pl.Series(counts[order]))
    bounds = np.linspace(0, held.height, shards + 1).astype(int)
    digests, rows = {}, []
    for copy in ("counts", "support"):
        (place / copy).mkdir(parents=True)

    def put(copy, number, part):
        path = place / copy / f"{copy}-{number:05}.parquet"
        part.write_parquet(path, row_group_size=row_group)
        digests[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        return path.name

    for number, (low, high) in enumerate(pairwise(bounds)):
        name = put("counts", number, held[low:high])
        rows.append(held[low:high].select(file=pl.lit(name), row=pl.int_range(pl.len())))
    hashed = pl.concat(rows).with_columns(hash=hash_texts(held.drop("count"), look_up)).sort("hash")
    for number, (low, high) in enumerate(pairwise(bounds)):
        put("support", number, hashed[low:high])
    return _groups(np.sort(counts)), digests


def write(directory, keys, counts, *, shards, salt, row_group=7):
    """The files of a series that a cluster wrote."""
    place = directory / "place"
    groups, digests = write_copies(place, keys, counts, shards=shards, salt=salt, look_up=SALT, row_group=row_group)
    register_parts(directory, place.as_uri(), groups, digests, keys.dtypes, durable=False)
    return SeriesFiles(groups, CountsInParts(directory / "parts", SALT))


@pytest.mark.parametrize("shards", [1, 3, 64])
def test_every_row_is_found_however_many_files_there_are(tmp_path, shards):
    """Keys of two columns, read by position and looked up, also where files are empty or a row group long."""
    rng = seeded(shards)
    keys = pl.DataFrame({"key_0": [f"k{n}" for n in range(130)], "key_1": rng.integers(9, size=130)})
    keys = keys.with_columns(pl.col("key_1").cast(pl.Date))
    counts = rng.integers(1, 9, size=130)
    files = write(tmp_path, keys, counts, shards=shards, salt=SALT[::-1])
    counted = files.all_counted()
    assert counted.sort("key_0").equals(keys.with_columns(count=pl.Series(counts)).sort("key_0"))
    positions = rng.permutation(130)
    assert files.keys(positions).equals(counted.drop("count")[positions])
    others = keys.with_columns(pl.col("key_0") + "!")
    assert files.positions(pl.concat([others, counted.drop("count")])).tolist() == [-1] * 130 + list(range(130))


def test_what_is_not_whole_or_not_in_order_is_refused(tmp_path):
    """A row that is missing or there twice, and rows out of order, are no series."""
    keys, counts = pl.DataFrame({"key_0": [f"k{n}" for n in range(40)]}), np.repeat([1, 2], 20)
    write(tmp_path / "whole", keys, counts, shards=3, salt=SALT)
    place = tmp_path / "whole" / "place"
    digests = dict.fromkeys((path.name for path in place.rglob("*.parquet")), "")
    for wrong in (np.repeat([1, 2], [20, 19]), np.repeat([1, 2], [20, 21]), np.repeat([1, 2], [19, 21])):
        with pytest.raises(StoreError, match="not whole or not in order"):
            register_parts(tmp_path, place.as_uri(), _groups(wrong), digests, keys.dtypes, durable=False)


@pytest.mark.parametrize("shards", [1, pytest.param(64, marks=pytest.mark.slow)])
def test_which_keys_appear_is_even_however_many_files_there_are(tmp_path, shards):
    """Of 5 keys of equal count, every pair is as likely to be the first that a round tracks as any other.

    200 stores, each with a salt of its own: 20 expected of each of 10 pairs. An order without a salt is caught.
    """
    keys, counts = pl.DataFrame({"key_0": [f"k{n}" for n in range(64)]}), np.repeat([1, 50], [59, 5])
    seen = dict.fromkeys(combinations(sorted(keys["key_0"][59:]), 2), 0)
    rng = seeded(7)
    for number in range(200):
        files = write(tmp_path / str(number), keys, counts, shards=shards, salt=rng.bytes(16))
        _, start, _ = files.groups
        first = files.keys(start[-1] + np.arange(2))["key_0"]
        seen[tuple(sorted(first))] += 1
    even = np.full(len(seen), 1 / len(seen))
    stats.assert_consistent(stats.g_test(list(seen.values()), even))
    stats.assert_detected(stats.g_test([200] + [0] * 9, even))


_LARGE = """
import json, resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
import numpy as np, polars as pl, sparsehist as sh
from sparsehist.store import SeriesFiles
from sparsehist.store.state import State
from tests.store.test_parts import GeneratedCounts
size = int(sys.argv[1])
declared = dict(name="q", key="k", max_keys=20, domain="integers(1099511627776)")
local = GeneratedCounts(2 * 10**6)
frame = local.rows(np.arange(local.n_rows)).rename({"key_0": "k"}).with_columns(count=pl.Series(local.counts()))
small = sh.create(":memory:", sh.Counts(frame), **declared)
large = sh.create(":memory:", sh.Counts(frame[:10]), **declared)
del frame
found = {}
for round in range(4):  # the first warms up
    for name, series, made in (("local", small, local), ("large", large, GeneratedCounts(size))):
        if name == "large":
            kept, State.series_files = State.series_files, lambda self, record: SeriesFiles(made.groups, made)
        begun = time.process_time()
        released = series.release(f"r{round}", level=0.01 * (round + 1), threshold=600.0)
        found.setdefault(name, []).append((time.process_time() - begun, released.frame.height))
        if name == "large":
            State.series_files = kept
print(json.dumps(found | {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))
"""


class GeneratedCounts:
    """Keys and counts by formula: the same keys with large counts, whatever the size; the rest have count 1."""

    columns = ("key_0",)
    _TOP = 50_000
    _FACTOR, _MODULUS = 0x9E3779B1, 2**40

    def __init__(self, size):
        self.n_rows = size
        top = 1 + (np.arange(self._TOP) + 1) // 5
        count, start, cells = _groups(np.sort(top))
        self.groups = (
            np.append(1, count + 600),
            np.append(0, start + size - self._TOP),
            np.append(size - self._TOP, cells),
        )

    def counts(self):
        return np.repeat(self.groups[0], self.groups[2])

    def rows(self, positions):
        from_end = (self.n_rows - 1 - positions) * self._FACTOR % self._MODULUS
        return pl.DataFrame({"key_0": from_end.astype(np.int64)})

    def whole(self, columns):
        raise AssertionError("a round read all of it")

    def candidates(self, keys):
        inverse = pow(self._FACTOR, -1, self._MODULUS)
        from_end = np.array([key * inverse % self._MODULUS for key in keys["key_0"].to_list()], dtype=np.int64)
        inside = np.flatnonzero(from_end < self.n_rows)
        yield inside, self.n_rows - 1 - from_end[inside]


@pytest.mark.slow
def test_a_billion_keys_cost_a_round_what_it_publishes():
    """Four releases of 10⁹ keys in 4 GiB of address space, with at most 1.5 times the CPU of a series of 2·10⁶."""
    import json

    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _LARGE, str(10**9)],
        cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(run.stdout)
    large, local = (np.array(found[name])[1:] for name in ("large", "local"))
    assert (large[:, 1] > 40_000).all() and np.abs(large[:, 1] / local[:, 1] - 1).max() < 0.05
    assert np.median(large[:, 0] / local[:, 0]) <= 1.5, found


@pytest.mark.slow
def test_a_million_keys_in_files_are_released():
    """What `tests/store/large_parts.py` does for any size: the largest counts come out, in 4 GiB of address space."""
    releases = measured(10**6)["releases"]
    # Of counts half a million over the rank, 833 are above 600; noise moves those at the edge.
    assert all(800 < release["published"] < 870 for release in releases)


def test_a_round_that_cannot_look_up_is_drawn_again_as_it_was(tmp_path, monkeypatch):
    """Drawn anew, false keys would be those of files that can be read; nothing else is released before it."""
    keys = pl.DataFrame({"key_0": [f"k{n}" for n in range(200)]})
    (tmp_path / "parts").mkdir()
    files = write(tmp_path / "parts", keys, np.arange(1, 201), shards=4, salt=SALT)
    monkeypatch.setattr(State, "series_files", lambda self, record: files)
    monkeypatch.setattr(pipeline, "parts_of", lambda record: files)
    counts = keys.rename({"key_0": "key"}).with_columns(count=np.arange(1, 201))
    series = sh.create(
        tmp_path / "s", sh.Counts(counts), name="v", key="key", max_keys=1, domain=sh.Strings(max_bytes=4)
    )
    drawn = []

    def noting(*given, **told):
        drawn.append(draw_round(*given, **told))
        return drawn[-1]

    monkeypatch.setattr(cell_round, "draw_round", noting)
    support = {file: file.read_bytes() for file in (tmp_path / "parts" / "place" / "support").iterdir()}
    for file, content in support.items():
        file.write_bytes(content[:-1])
    for _ in range(2):
        with pytest.raises(StoreDamagedError, match="altered"):
            series.release("a", level=1, false_keys=20)
    with pytest.raises(
        StoreError, match=r"'a' of 'v' was begun and not finished: ask for it again first, with level='1'"
    ):
        series.release("b", level=2)
    assert series.store.ledger().filter(scope="path")["level"].to_list() in ([], [None])
    for file, content in support.items():
        file.write_bytes(content)
    series.release("a", level=1, false_keys=20)
    series.release("b", level=2)
    first, again, last, other = (round_.new.values for round_ in drawn)
    assert first.size and first.tolist() == again.tolist() == last.tolist() != other.tolist()
    assert not list((tmp_path / "s").rglob("unfinished"))


# Levels in scrambled order, one of them twice; thresholds at which keys without a count are published too.
ROUNDS = [("1/5", 4.0), ("1", 2.0), ("1/20", 7.0), ("1/2", 2.5), ("1/5", 3.0)]
COUNTS = np.repeat([0, 1, 4], [40_000, 12_000, 12_000])


def outcomes(published, noisy):
    """By cell: its true count, in which rounds it was published, and its noisy counts, 0 where it was not."""
    return np.column_stack([COUNTS, published.T, np.where(published, noisy, 0.0).T])


def test_rounds_have_the_joint_law_of_dense_ones(tmp_path, monkeypatch):
    """Keys with and without a count, drawn before and not, as in a mechanism that draws every cell.

    Noise of a scale 10 % off, and one round with noise of its own, are noticed.
    """
    rng = seeded(3)
    cells = np.flatnonzero(COUNTS)
    files = write(tmp_path, pl.DataFrame({"key_0": cells}), COUNTS[cells], shards=3, salt=SALT[::-1], row_group=1000)
    monkeypatch.setattr(State, "series_files", lambda self, record: files)
    told = pl.DataFrame({"key": [0], "count": [1]})
    series = sh.create(
        ":memory:", sh.Counts(told), name="v", key="key", max_keys=1, domain=sh.Integers(COUNTS.size), seed=1
    )
    published, noisy = np.zeros((len(ROUNDS), COUNTS.size), bool), np.zeros((len(ROUNDS), COUNTS.size))
    for i, (level, threshold) in enumerate(ROUNDS):
        rows = series.release(f"r{i}", level=level, threshold=threshold).frame
        published[i, rows["key"]], noisy[i, rows["key"]] = True, rows["noisy_count"]
    dense = [dense_releases(Gaussian(), COUNTS, ROUNDS, rng=rng) for _ in range(2)]
    scaled = dense_releases(Gaussian(sensitivity=1.1), COUNTS, ROUNDS, rng=rng)
    redrawn = [np.where((np.arange(len(ROUNDS)) == 1)[:, np.newaxis], dense[1][at], dense[0][at]) for at in (0, 1)]
    found = outcomes(published, noisy)
    for law, is_right in ((dense[0], True), (scaled, False), (redrawn, False)):
        other = outcomes(law[1], COUNTS + law[0])
        p_values = [stats.two_sample_outcomes(found[:, :6].astype(int), other[:, :6].astype(int))]
        p_values += [
            stats.two_sample_vectors(
                *(part[(part[:, 0] == count) & part[:, 1:6].any(axis=1), 1:] for part in (found, other))
            )
            for count in (0, 1, 4)
        ]
        if is_right:
            for p_value in p_values:
                stats.assert_consistent(p_value, "rounds of counts in parts")
        else:
            stats.assert_detected(min(p_values), "noise that is not that of one path")
