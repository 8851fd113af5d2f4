from __future__ import annotations

from collections import Counter
from datetime import date

import numpy as np
import polars as pl
import pytest
from scipy import stats

from sparsehist.entropy import seeded
from sparsehist.store import series_files
from sparsehist.store.series_files import SeriesFiles, write_series_files
from tests.stats import assert_consistent, assert_detected
from tests.store.example import SALT


@pytest.mark.parametrize(
    ("keys", "absent"),
    [
        ({"key_0": ["", "a", "é" * 9, "12345678", "123456789"]}, "none"),
        ({"key_0": pl.Series([b"", b"\0", b"\0\0", b"a", b"\xff" * 20])}, b"none"),
        ({"key_0": [3, -1, 0, 2**62, -(2**63)]}, 77),
        ({"key_0": pl.Series([0, 1, 2, 2**63, 2**64 - 1], dtype=pl.UInt64)}, 77),
        ({"key_0": [date(2020, 1, day) for day in range(1, 6)], "key_1": ["a", "b", "a", "b", ""]}, date(2021, 1, 1)),
    ],
    ids=["text", "bytes", "integers", "unsigned", "product"],
)
def test_every_key_is_found_under_its_own_type(tmp_path, keys, absent):
    """Keys of all types are read back with their type, in the order of their counts; an absent key is not found."""
    counted = pl.DataFrame(keys).with_columns(count=pl.Series([5, 1, 1, 3, 3]))
    written = write_series_files(
        tmp_path, counted["count"], counted.__getitem__, salt=SALT, durable=False, rng=seeded(1)
    )
    files = SeriesFiles(tmp_path, written, SALT)
    assert files.n_nonzero == 5
    assert [part.tolist() for part in files.groups] == [[1, 3, 5], [0, 2, 4], [2, 2, 1]]
    back = files.all_counted()
    assert back.schema == counted.schema and back["count"].to_list() == [1, 1, 3, 3, 5]
    assert sorted(back.rows()) == sorted(counted.rows())
    only = counted.drop("count")
    assert files.all_keys().equals(back.drop("count"))
    assert files.keys(files.positions(only)).equals(only)
    absent = only.with_columns(pl.lit(absent, only.dtypes[0]).alias("key_0"))
    assert files.positions(absent).tolist() == [-1] * 5
    mixed = pl.concat([absent[:2], only[:2]])
    assert (files.positions(mixed) >= 0).tolist() == [False, False, True, True]


def test_keys_whose_hashes_agree_are_told_apart(tmp_path, monkeypatch):
    """Every key is found at its position even if all keys have one of two hashes, and an absent key is not found."""
    monkeypatch.setattr(
        series_files, "hash_keys", lambda keys, *_: keys["key_0"].to_numpy().view(np.uint64) % 2 << 63
    )
    monkeypatch.setattr(series_files, "SUPPORT_ROWS", 3)
    counted = pl.DataFrame({"key_0": range(20), "count": 20 * [4]})
    written = write_series_files(
        tmp_path, counted["count"], counted.__getitem__, salt=SALT, durable=False, rng=seeded(1)
    )
    files = SeriesFiles(tmp_path, written, SALT)
    keys = pl.DataFrame({"key_0": range(22)})
    positions = files.positions(keys)
    assert sorted(positions[:20].tolist()) == list(range(20)) and positions[20:].tolist() == [-1, -1]
    assert files.keys(positions[:20]).equals(keys[:20])


def test_order_within_a_group_is_uniform(tmp_path):
    """Keys with equal counts are stored in uniformly random order; the test would detect a mere random rotation."""
    counted = pl.DataFrame({"key_0": [0, 1, 2, 3, 4], "count": [9, 2, 2, 2, 2]})
    counts = counted["count"].to_numpy()
    n = 4800
    rng = seeded(11)
    seen = Counter(tuple(series_files.order_by_count(counts, rng=rng)[:4].tolist()) for _ in range(n))
    assert len(seen) == 24
    assert_consistent(stats.power_divergence(list(seen.values()), lambda_=0).pvalue, "the order within a group")
    turns = Counter(tuple(np.roll([1, 2, 3, 4], rng.integers(4)).tolist()) for _ in range(n))
    observed = [*turns.values(), *[0] * (24 - len(turns))]
    assert_detected(stats.power_divergence(observed, lambda_=0).pvalue)


@pytest.mark.parametrize("largest", [1, 2**15, 2**16, 2**33, 2**62])
def test_order_is_by_count_for_counts_of_any_size(largest):
    """Keys are sorted by their counts, even for counts up to 2^62."""
    counts = seeded(5).integers(1, largest, 3000, endpoint=True)
    order = series_files.order_by_count(counts, rng=seeded(6))
    assert sorted(order.tolist()) == list(range(3000))
    assert np.all(np.diff(counts[order]) >= 0)
