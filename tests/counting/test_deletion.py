"""The keys that a privacy unit keeps depend only on the salt, the unit and the keys of that unit."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsehist.counting import Query, in_memory, words
from sparsehist.domain.base import Domain
from tests.counting.logs import ALPHABET, SALT, a_log, count, kept_pairs

ZERO, THIRTY = np.uint64(0), np.uint64(30)
ROWS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(ALPHABET)), min_size=1, max_size=60)


def a_frame(rows):
    """Return a log that consists of these (unit, key) rows."""
    return pl.DataFrame(rows, schema={"user_id": pl.Int64, "query": pl.String}, orient="row")


def without(pairs, unit):
    """Return the (unit, key) pairs of all units except one."""
    return {pair for pair in pairs if pair[0] != unit}


def assert_deletions_change_nothing_else(log, *, units=None, **declared):
    """Delete one unit at a time, and check that every other unit keeps the same keys."""
    before = kept_pairs(log, **declared)
    for unit in log["user_id"].unique() if units is None else units:
        remaining = log.filter(pl.col("user_id") != unit)
        after = kept_pairs(remaining, **declared) if remaining.height else set()
        assert after == without(before, unit)


@given(rows=ROWS, unit=st.integers(0, 4), max_keys=st.integers(1, 4), salt=st.binary(min_size=16, max_size=16))
def test_deleting_a_unit_changes_nothing_for_the_others(rows, unit, max_keys, salt):
    """Deleting any one unit leaves the kept keys of every other unit unchanged."""
    assert_deletions_change_nothing_else(a_frame(rows), units=[unit], max_keys=max_keys, salt=salt)


@settings(max_examples=25)
@given(rows=ROWS, order=st.randoms(use_true_random=False), cut=st.integers(0, 60))
def test_order_of_rows_and_chunks_change_nothing(rows, order, cut):
    """Shuffling, repeating or chunking the rows leaves the kept (unit, key) pairs unchanged."""
    expected = kept_pairs(a_frame(rows), max_keys=2)
    shuffled = order.sample(rows, len(rows)) + rows[:3]
    parts = [a_frame(part) for part in (shuffled[:cut], shuffled[cut:])]
    assert kept_pairs(pl.concat(parts, rechunk=False), max_keys=2) == expected


def test_salts_and_units_choose_differently():
    """Which keys a unit keeps depends on the salt, and differs between units that have the same keys."""
    log = pl.DataFrame({"user_id": np.repeat(np.arange(50), len(ALPHABET)), "query": ALPHABET * 50})
    kept = kept_pairs(log, max_keys=1)
    assert kept != kept_pairs(log, max_keys=1, salt=SALT[::-1])
    # 50 uniform choices among 14 keys miss 5 or more of them with probability below 1e-9.
    assert len({key for _, key in kept}) >= 10


@pytest.mark.parametrize("bits", [0, 2])
def test_colliding_hashes_merge_nothing_and_choose_by_value(bits, monkeypatch):
    """If different (unit, key) pairs have the same hash, they are still counted separately.

    Each unit still keeps the same keys after another unit is deleted, or after the order of the rows is reversed.
    """
    monkeypatch.setattr(in_memory, "mixed", lambda words: words >> np.uint64(64 - bits) if bits else words * ZERO)
    log = a_log(200, 12)
    assert kept_pairs(log, max_keys=50) == set(log.rows())
    assert_deletions_change_nothing_else(log, max_keys=3)
    assert kept_pairs(log[::-1], max_keys=3) == kept_pairs(log, max_keys=3)
    if bits == 0:
        first = log.unique().sort("query").group_by("user_id").head(3).select("user_id", "query")
        assert kept_pairs(log, max_keys=3) == set(first.rows())


def test_the_test_can_fail(monkeypatch):
    """Negative control: the deletion test fails if keys are ordered by numbers that depend on the whole log."""
    monkeypatch.setattr(words, "row_hash", lambda values, seed: np.arange(len(values), dtype=np.uint64) << THIRTY)
    with pytest.raises(AssertionError):
        assert_deletions_change_nothing_else(a_log(300, 12), max_keys=3)


UNIT_TYPES = [
    pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.String, pl.Categorical,
    pl.Binary, pl.Date, pl.Datetime("us"), pl.Duration("us"), pl.Int128,
]  # fmt: skip
RARE = (pl.Duration, pl.Int128)  # units of these types occur only in frames, because some sources cannot store them
# Test keys are numbered 0 to 9. The domains of the types in LIMITED contain only the keys 0 to 7.
KEY_DOMAINS = {
    pl.Int8: "integers(0, 7)",
    pl.UInt32: f"integers(0, {2**32 - 1})",
    pl.Int64: f"integers({-(2**63)}, {2**63 - 1})",
    pl.UInt64: "hash64()",
    pl.String: "strings(max_bytes=8)",
    pl.Categorical: "strings(max_bytes=8)",
    pl.Date: "dates('1970-01-01', '1970-01-08')",
    pl.Int16: "catalogue(0, 1, 2, 3, 4, 5, 6, 7)",
    pl.Int32: "open('integer', delta='1e-6')",
}
LIMITED = (pl.Int8, pl.Date, pl.Int16)  # fmt: skip


def _column(numbers, dtype):
    """Replace the numbers 0 to 9 by ten values of a type; for integer types, include the smallest and the largest."""
    texts = dtype in (pl.String, pl.Categorical, pl.Binary)
    values = pl.Series(range(10), dtype=pl.Int32).cast(pl.String if texts else dtype).cast(dtype)
    if dtype.is_integer():
        low, high = pl.select(low=dtype.min(), high=dtype.max()).row(0)
        values = pl.Series([*range(8), low or 200, high], dtype=dtype)
    return values.gather(numbers)


def _of_file(ending):
    """Return a function that writes a log to a file of this format; bytes become text in text formats."""

    def written(log, directory):
        path = directory / f"{len(list(directory.iterdir()))}.{ending}"
        text = log if ending == "parquet" else log.with_columns(pl.col(pl.Binary).cast(pl.String))
        getattr(text, {"jsonl": "write_ndjson"}.get(ending, f"write_{ending}"))(path)
        return path

    return written


SOURCES = {
    "frame": lambda log, _: log,
    "lazy frame": lambda log, _: log.lazy(),
    "arrow": lambda log, _: log.to_arrow(),
    "stream": lambda log, _: pa.RecordBatchReader.from_stream(log),
    # pandas supports dates only in columns that are backed by Arrow.
    "pandas": lambda log, _: log.to_pandas(use_pyarrow_extension_array=pl.Date in log.dtypes),
    "relation": lambda log, _: duckdb.connect().from_arrow(log.to_arrow()),
    "query": lambda log, _: Query("select * from log", {"log": log}),
    "parquet": _of_file("parquet"),
    "csv": _of_file("csv"),
    "json lines": _of_file("jsonl"),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@settings(max_examples=20)
@given(
    rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), min_size=1, max_size=40),
    unit=st.sampled_from(UNIT_TYPES),
    key=st.sampled_from(list(KEY_DOMAINS)),
    gone=st.integers(0, 4),
    max_keys=st.integers(1, 4),
)
def test_units_and_keys_of_all_types_in_all_sources(source, rows, unit, key, gone, max_keys):
    """For all types and sources, counts are exact, and the keys that a unit keeps do not depend on other units."""
    source = SOURCES["frame"] if unit in RARE else source
    numbers = pl.DataFrame(rows, schema=["user_id", "query"], orient="row")
    log = numbers.select(user_id=_column(numbers["user_id"] + 5, unit), query=_column(numbers["query"], key))
    inside = {(user, number) for user, number in rows if key not in LIMITED or number <= 7}
    within = "error" if len(inside) == len(set(rows)) else "drop"
    declared = {"domain": Domain.parse(KEY_DOMAINS[key]), "on_null": "error", "on_outside": within}
    of_gone = numbers["user_id"] == gone
    with tempfile.TemporaryDirectory() as directory:
        given_as = [source(part, Path(directory)) for part in (log, log.filter(~of_gone), log.filter(of_gone))]
        whole, rest, alone = (
            kept_pairs(each, max_keys=max_keys, **declared) if some else set()
            for each, some in zip(given_as, (True, not of_gone.all(), of_gone.any()), strict=True)
        )
        counts = count(source(log, Path(directory)), max_keys=99, may_be_empty=True, **declared).frame["count"]
    assert rest == whole - alone and len({one for one, _ in alone}) == (gone in dict(inside))
    assert sorted(counts) == sorted(Counter(key for _, key in inside).values())
    sizes = Counter(user for user, _ in inside).values()
    assert len(whole) == sum(min(size, max_keys) for size in sizes)


def test_products_and_tuples_of_all_widths():
    """For keys of one to three columns, the engine keeps the right (unit, key) pairs.

    Deleting a unit changes no pair of another unit.
    """
    rng = np.random.default_rng(4)
    drawn = rng.integers(-(2**62), 2**62, size=(9, 4))[rng.integers(0, 9, size=200)]
    log = pl.DataFrame(drawn, schema=["a", "b", "c", "user_id"]).with_columns(
        t=pl.col("a").cast(pl.String),
        n=pl.col("b") % 5,
        user_id=pl.int_range(pl.len()) % 7,
        u=pl.col("b").cast(pl.String).cast(pl.Categorical),
        w=pl.col("a").reinterpret(signed=False),
    )
    wide = f"integers({-(2**62)}, {2**62})"
    for key, text in (
        (("w",), f"integers({2**64})"),
        (("a", "b", "c"), f"product(a={wide}, b={wide}, c={wide})"),
        (("t", "n"), "product(t=strings(max_bytes=20), n=integers(-5, 5))"),
        (("t", "a", "n"), f"product(t=strings(max_bytes=20), a={wide}, n=integers(-5, 5))"),
        (("t", "u", "a"), f"product(t=strings(max_bytes=20), u=strings(max_bytes=20), a={wide})"),
    ):
        domain = Domain.parse(text)
        assert kept_pairs(log, key=key, domain=domain, max_keys=99) == set(log.select("user_id", *key).rows())
        assert_deletions_change_nothing_else(log, key=key, domain=domain, max_keys=3)
