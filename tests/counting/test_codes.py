from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from sparsehist.counting import with_polars
from sparsehist.counting.in_memory import bounding, codes
from sparsehist.counting.in_memory.codes import Codes, Keys, LogColumn, Units, by_first_bits, first_of_runs, plain
from sparsehist.domain.base import Domain
from sparsehist.entropy import seeded
from sparsehist.threads import in_threads
from tests.counting.logs import SALT, a_log, kept_pairs

WORDS = pl.Series(["é", "e", "a text that no view holds inside itself", "ee", "", "梨", "x" * 300])
FAR = pl.Series([0, 1, -1, 2**63 - 1, -(2**63), 2**32, 2**40, 77])
COLUMNS = [
    pl.Series([3, -5, 3, 2**40, -(2**63), 2**63 - 1]),
    pl.Series([3, -5, 3, 2**31, 0, 1]),
    pl.Series([200, 0, 200, 7, 255, 1], dtype=pl.UInt8),
    pl.Series(["é", "e", "é", "ee", "", "梨"]),
    pl.Series([b"\xff", b"a", b"\xff", b"", b"ab", b"b"]),
    pl.Series([0.0, -0.0, 1.5, 0.1, 1e300, -1.0]),
    pl.Series([True, False, True, True, False, False]),
    pl.Series([2**64 - 1, 2**63, 0, 1, 2, 3], dtype=pl.UInt64),
    pl.Series(["2024-01-01", "1969-01-01"] * 3).str.to_date("%Y-%m-%d"),
]

UNITS = [column for column in COLUMNS if not column.dtype.is_float()]


def few_hashes(bits):
    """Make a hash of so few bits that values collide."""
    whole = codes.value_hash
    return lambda values, seed: whole(values, seed) >> np.uint64(64 - bits) if bits else np.zeros(len(values), "u8")


def in_batches(values, sizes):
    """Cut a column into pieces of these sizes, in turn."""
    start = 0
    while start < len(values):
        size = int(next(sizes))
        yield values[start : start + size]
        start += size


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("bits", [64, 7, 2, 0])
@pytest.mark.parametrize("pool", [WORDS, FAR], ids=["text", "numbers"])
def test_equal_values_and_only_they_have_equal_codes(pool, bits, threads, monkeypatch):
    """Whatever the hashes, over many batches and threads a value keeps one code, and no two share one."""
    monkeypatch.setattr(codes, "value_hash", few_hashes(bits))
    monkeypatch.setattr(codes, "_BLOCK", 5)
    monkeypatch.setattr(codes, "_FIRST_BITS", 1)
    rng = seeded(bits)
    many = pool if bits < 7 else pl.concat([pool, pl.Series(np.arange(1000)).cast(pool.dtype)])
    values = many.gather(rng.integers(0, len(many), size=4 * len(many)))
    table = Codes(pool.dtype)
    found = list(in_threads(table.codes, in_batches(values, iter(lambda: rng.integers(0, 60), -1)), threads))
    places = table.dense()[np.concatenate(found)]
    assert table.values().gather(places).to_list() == values.to_list()
    assert len(table) == values.n_unique() == len(set(table.values()))


def test_a_table_without_comparison_would_be_caught(monkeypatch):
    """Codes that trust hashes merge values when hashes collide, and the check above sees it."""
    monkeypatch.setattr(codes, "value_hash", few_hashes(0))
    monkeypatch.setattr(codes._Table, "_stray_codes", lambda self, values: np.zeros(len(values), dtype=np.uint32))
    table = Codes(pl.String())
    found = table.codes(WORDS)
    places = table.dense()[found]
    assert table.values().gather(places).to_list() != WORDS.to_list()


@pytest.mark.parametrize("values", UNITS, ids=[f"{column.dtype}-{i}" for i, column in enumerate(UNITS)])
def test_units_lead_back_to_their_values(values):
    """Numbering units and going back is the identity for every dtype, and equal units alone have equal numbers."""
    units = Units(values.dtype, SALT)
    column = values.to_frame("x").select(plain("x", values.dtype))["x"]
    parts = [units.numbers(LogColumn(column[:2])), units.numbers(LogColumn(column[2:]))]
    found = np.concatenate([*parts, units.numbers(LogColumn(column, np.array([5, 0])))])
    assert units.values(found).to_list() == [*values, values[5], values[0]]
    assert len(set(found.tolist())) == values.n_unique()


@pytest.mark.parametrize("width", [1, 2, 3])
def test_keys_of_several_columns_lead_back_to_their_values(width):
    """Rows with equal keys and only they have equal codes, and the keys by code are those of the rows."""
    rng = seeded(width)
    drawn = [column.gather(rng.integers(0, 6, size=80)).alias(f"key_{i}") for i, column in enumerate(COLUMNS[3:6])]
    rows = pl.DataFrame(drawn[:width])
    coded = rows.select(plain(name, dtype) for name, dtype in rows.schema.items())
    assert coded.columns == rows.columns
    keys = Keys(rows.dtypes)
    found = np.concatenate([keys.codes([LogColumn(column) for column in part]) for part in (coded[:30], coded[30:])])
    listed, places = keys.keys()
    assert listed[places[found]].rows() == rows.rows()
    assert listed.height == len(set(rows.rows()))


@pytest.mark.parametrize("bits", [1, 3, 8])
def test_parts_hold_the_words_that_begin_alike(bits):
    """Every word is in the part that its first bits name, and those of a part are in their first order."""
    for size in (0, 1, 500):
        words = seeded(size).integers(0, 2**64, size=size, dtype=np.uint64)
        order, ends = by_first_bits(words, bits)
        assert sorted(order.tolist()) == list(range(size)) and len(ends) == 2**bits + 1
        for part, (begin, end) in enumerate(pairwise(ends)):
            assert set((words[order[begin:end]] >> np.uint64(64 - bits)).tolist()) <= {part}
            assert (np.diff(order[begin:end]) > 0).all()


@pytest.mark.parametrize("multiplier", [1, (1 << 63) | 1, 0x9E3779B97F4A7C15])
def test_units_that_agree_in_every_bit_looked_at_are_kept_apart(multiplier, monkeypatch):
    """Numbers that differ only where words have no room are numbered one by one: no two units become one."""
    monkeypatch.setattr("sparsehist.counting.in_memory.codes.secrets.randbits", lambda bits: multiplier)
    log = a_log(300, 20).with_columns(pl.col("user_id") % 5)
    for far in (0, 2**62):
        moved = log.with_columns(pl.col("user_id") + far)
        assert kept_pairs(with_polars, moved, max_keys=50) == set(moved.rows())


@pytest.mark.parametrize("bits", [0, 3])
def test_colliding_codes_merge_nothing_in_a_log(bits, monkeypatch):
    """With a constant or a 3-bit hash inside the codes, every pair of a log is still counted as it is."""
    monkeypatch.setattr(codes, "value_hash", few_hashes(bits))
    log = a_log(300, 20).with_columns(pl.col("user_id").cast(pl.String))
    assert kept_pairs(with_polars, log, max_keys=50) == set(log.rows())


def test_first_keys_puts_pairs_in_the_order_of_all_64_bits():
    """However few bits of the hash fit beside the unit, the order is that of the whole hash, then of the key."""
    rng = seeded(2)
    hashes = rng.integers(0, 3, size=300).astype(np.uint64) + (rng.integers(0, 2, size=300).astype(np.uint64) << 63)
    keys = rng.permutation(300)
    for n_groups in (1, 2, 60):
        group = np.sort(rng.integers(0, n_groups, size=300)).astype(np.uint32)
        group -= group[0]
        group = (np.cumsum(first_of_runs(group)) - 1).astype(np.uint32)
        kept = bounding.first_keys(group, hashes, 2, lambda rows: keys[rows].astype(np.uint32))
        order = np.lexsort((keys, hashes, group))
        expected = {row for g in range(n_groups) for row in order[group[order] == g][:2]}
        assert set(np.flatnonzero(kept)) == expected


def test_keys_and_units_far_apart_are_exact():
    """Numbers of 64 bits in several key columns and in the unit are counted as they are."""
    rng = seeded(3)
    far = rng.integers(-(2**62), 2**62, size=(40, 3))
    rows = far[rng.integers(0, 40, size=300)]
    log = pl.DataFrame({"user_id": rng.integers(-(2**62), 2**62, size=9)[rng.integers(0, 9, size=300)]})
    log = log.with_columns(pl.Series(f"k{i}", rows[:, i]) for i in range(3))
    bounds = f"integers({-(2**62)}, {2**62})"
    domain = Domain.parse(f"product(a={bounds}, b={bounds}, c={bounds})")
    assert kept_pairs(with_polars, log, key=("k0", "k1", "k2"), max_keys=100, domain=domain) == set(log.rows())


def test_hashes_depend_on_salt_purpose_and_value_only():
    """A value hashes alike wherever it stands; another salt or purpose hashes it differently."""
    values = pl.DataFrame({"a": ["x", "y", "z"]})
    hashes = bounding.salted_hash(values, bytes(16), b"key")
    assert bounding.salted_hash(values[1:], bytes(16), b"key").tolist() == hashes[1:].tolist()
    assert set(bounding.salted_hash(values, b"\x01" * 16, b"key")).isdisjoint(hashes)
    assert set(bounding.salted_hash(values, bytes(16), b"unit")).isdisjoint(hashes)
