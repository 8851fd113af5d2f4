"""Which keys a unit keeps is a function of the salt and of the values of that unit and its keys."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsehist.counting.in_memory import bounding
from sparsehist.domain.base import Domain
from tests.counting.logs import ALPHABET, ENGINES, SALT, a_log, kept_pairs

SALTED_HASH = bounding.salted_hash
pytestmark = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
ROWS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(ALPHABET)), min_size=1, max_size=60)


def a_frame(rows):
    """Make a log of (unit, key) rows."""
    return pl.DataFrame(rows, schema={"user_id": pl.Int64, "query": pl.String}, orient="row")


def without(pairs, unit):
    """Leave one unit out."""
    return {pair for pair in pairs if pair[0] != unit}


def assert_deletions_change_nothing_else(engine, log, *, units=None, **declared):
    """Delete each unit (or these) in turn and compare what the others keep."""
    before = kept_pairs(engine, log, **declared)
    for unit in log["user_id"].unique() if units is None else units:
        remaining = log.filter(pl.col("user_id") != unit)
        after = kept_pairs(engine, remaining, **declared) if remaining.height else set()
        assert after == without(before, unit)


@given(rows=ROWS, unit=st.integers(0, 4), max_keys=st.integers(1, 4), salt=st.binary(min_size=16, max_size=16))
def test_deleting_a_unit_changes_nothing_for_the_others(engine, rows, unit, max_keys, salt):
    """Taking all rows of any one unit out leaves every other unit's kept keys as they were."""
    assert_deletions_change_nothing_else(engine, a_frame(rows), units=[unit], max_keys=max_keys, salt=salt)


@pytest.mark.parametrize("domain", ["hash64()", "strings(max_bytes=4)", "strings(max_bytes=32)"])
def test_the_same_where_keys_are_converted_or_left_out(engine, domain):
    """A unit whose keys the domain does not hold, or changes, is deleted without a trace too."""
    log = pl.concat([a_log(150, 12), pl.DataFrame({"user_id": [99, 98], "query": ["x" * 40, None]})])
    assert_deletions_change_nothing_else(engine, log, max_keys=3, domain=Domain.parse(domain))


def test_the_same_where_canonical_dtypes_differ_from_the_log(engine):
    """Narrow whole numbers are put in order as the domain's Int64, whether or not some are left out."""
    log = a_log(150, 12).select("user_id", query=pl.col("query").rank("dense").cast(pl.Int16))
    log = pl.concat([log, pl.DataFrame({"user_id": [99], "query": [1000]}, schema_overrides={"query": pl.Int16})])
    assert_deletions_change_nothing_else(engine, log, max_keys=3, domain=Domain.parse("integers(100)"))


def test_product_keys_too(engine):
    """The rule holds for keys of several columns."""
    log = a_log(150, 12).with_columns(size=pl.col("query").str.len_chars().cast(pl.Int64))
    product = Domain.parse("product(q=strings(max_bytes=32), n=integers(100))")
    assert_deletions_change_nothing_else(engine, log, max_keys=3, key=("query", "size"), domain=product)


@settings(max_examples=25)
@given(rows=ROWS, order=st.randoms(use_true_random=False), cut=st.integers(0, 60))
def test_order_of_rows_and_chunks_change_nothing(engine, rows, order, cut):
    """Rows shuffled, repeated and cut into chunks keep the same pairs."""
    expected = kept_pairs(engine, a_frame(rows), max_keys=2)
    shuffled = order.sample(rows, len(rows)) + rows[:3]
    parts = [a_frame(part) for part in (shuffled[:cut], shuffled[cut:])]
    assert kept_pairs(engine, pl.concat(parts, rechunk=False), max_keys=2) == expected


def test_file_splits_and_threads_change_nothing(engine, tmp_path):
    """Files in any number and order, and any number of threads, keep the same pairs."""
    log = a_log(600, 30)
    expected = kept_pairs(engine, log, max_keys=3)
    for i in range(3):
        log[i::3].write_parquet(tmp_path / f"{i}.parquet", row_group_size=37)
    for order in ([0, 1, 2], [2, 0, 1]):
        assert kept_pairs(engine, [tmp_path / f"{i}.parquet" for i in order], max_keys=3) == expected
    for threads in (1, 2):
        assert kept_pairs(engine, log, max_keys=3, threads=threads) == expected


def test_salts_and_units_choose_differently(engine):
    """Another salt keeps other pairs, and units with the same keys do not all keep the same ones."""
    log = pl.DataFrame({"user_id": np.repeat(np.arange(50), len(ALPHABET)), "query": ALPHABET * 50})
    kept = kept_pairs(engine, log, max_keys=1)
    assert kept != kept_pairs(engine, log, max_keys=1, salt=SALT[::-1])
    # 50 even choices among 14 miss 5 given keys or more with probability below 1e-9.
    assert len({key for _, key in kept}) >= 10


def few_hashes(bits):
    """Make a salted hash of so few bits that keys and units collide."""

    def hashed(values, salt, purpose):
        return SALTED_HASH(values, salt, purpose) % np.uint64(1 << bits)

    return hashed


@pytest.mark.parametrize("bits", [0, 2])
def test_colliding_hashes_merge_nothing_and_choose_by_value(engine, bits, monkeypatch):
    """With a constant or a 2-bit hash, counts stay exact, and deletion and order still change nothing."""
    monkeypatch.setattr(bounding, "salted_hash", few_hashes(bits))
    monkeypatch.setattr(bounding, "mix", lambda first, second: (first + second) % np.uint64(1 << bits))
    log = a_log(200, 12)
    assert kept_pairs(engine, log, max_keys=50) == set(log.rows())
    assert_deletions_change_nothing_else(engine, log, max_keys=3)
    assert kept_pairs(engine, log[::-1], max_keys=3) == kept_pairs(engine, log, max_keys=3)
    if bits == 0:
        first = log.unique().sort("query").group_by("user_id").head(3).select("user_id", "query")
        assert kept_pairs(engine, log, max_keys=3) == set(first.rows())


def test_the_test_can_fail(engine, monkeypatch):
    """An order by first appearance, or by what the whole log holds, is caught by the deletion test."""
    numbered = lambda values, salt, purpose: np.arange(len(values), dtype=np.uint64)  # noqa: E731
    monkeypatch.setattr(bounding, "salted_hash", numbered)
    with pytest.raises(AssertionError):
        assert_deletions_change_nothing_else(engine, a_log(300, 12), max_keys=3)
