"""Tests of the in-memory engine: integer codes of values, order of pairs, and rows that are kept on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from sparsehist.counting import batches, codes, in_memory, rows, words
from sparsehist.counting.codes import Codes
from sparsehist.counting.in_memory import first_of_runs
from sparsehist.counting.words import Words, odd
from sparsehist.domain import Domain
from sparsehist.entropy import seeded
from sparsehist.errors import DataError
from sparsehist.threads import in_threads
from tests.counting.logs import SALT, a_log, count, kept_pairs
from tests.stats import assert_consistent, assert_detected, g_test

COLUMNS = ["user_id", "query"]
BYTES = pl.Series([b"\xc3\xa9", b"e", b"bytes that no view holds inside itself", b"ee", b"", b"\xff", b"x" * 300])
FAR = pl.Series([0, 1, -1, 2**63 - 1, -(2**63), 2**32, 2**40, 77])


def few_hashes(bits):
    """Return a hash function with only a few output bits, so that many values collide."""
    whole = codes.row_hash
    return lambda values, seed: whole(values, seed) >> np.uint64(64 - bits) if bits else np.zeros(len(values), "u8")


def in_batches(values, sizes):
    """Yield a column in batches of these sizes."""
    start = 0
    while start < len(values):
        size = int(next(sizes))
        yield values[start : start + size]
        start += size


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("bits", [64, 7, 2, 0])
@pytest.mark.parametrize("pool", [BYTES, FAR], ids=["bytes", "numbers"])
def test_equal_values_and_only_they_have_equal_codes(pool, bits, threads, monkeypatch):
    """Two values get the same integer code if and only if they are equal, even if hashes collide."""
    monkeypatch.setattr(codes, "row_hash", few_hashes(bits))
    rng = seeded(bits)
    more = pl.Series(np.arange(1000))
    many = pool if bits < 7 else pl.concat([pool, more if pool is FAR else more.cast(pl.String).cast(pl.Binary)])
    values = many.gather(rng.integers(0, len(many), size=4 * len(many)))
    table = Codes([pool.dtype])
    parts = in_batches(values.to_frame(), iter(lambda: rng.integers(0, 60), -1))
    found = np.concatenate(list(in_threads(table.codes, parts, threads)))
    distinct = table.values().to_series()
    assert distinct.gather(found).to_list() == values.to_list()
    assert len(distinct) == values.n_unique() == len(set(distinct))


def test_a_table_without_comparison_would_be_caught(monkeypatch):
    """Negative control: codes that rely on hashes alone give different values the same code."""
    monkeypatch.setattr(codes, "row_hash", few_hashes(0))
    monkeypatch.setattr(pl.Series, "ne", lambda ours, theirs: pl.Series(np.zeros(len(ours), dtype=bool)))
    table = Codes([pl.Binary()])
    found = table.codes(BYTES.to_frame())
    assert table.values().to_series().gather(found).to_list() != BYTES.to_list()


def test_categories_keep_their_numbers_from_batch_to_batch():
    """A category has the same code in every batch, although Polars may renumber its categories."""
    found = Words(["text"], [pl.Categorical()], None)
    of_own = pl.Categorical(pl.Categories("numbered-anew"))
    numbers = [found.numbers(pl.DataFrame([pl.Series([text], dtype=of_own)])).item() for text in "abcab"]
    found.place(SALT, b"unit")
    cells, _ = found.cells(np.array(numbers, np.uint32))
    assert found.frame(cells).to_series().to_list() == list("abcab")
    anew = [pl.Series([text], dtype=pl.Categorical(pl.Categories("forgotten"))).to_physical().item() for text in "ab"]
    # Control: Polars itself forgets unused categories, and therefore gives two different texts the same code 0.
    assert anew == [0, 0]


def test_a_range_of_almost_all_numbers_has_its_bounds():
    """In a domain of all 64-bit integers except -2**63, a row with the key -2**63 is outside the domain."""
    log = pl.DataFrame({"user_id": [True, True, False], "query": [-(2**63), 2**63 - 1, 0]})
    domain = Domain.parse(f"integers({-(2**63) + 1}, {2**63 - 1})")
    assert count(log, domain=domain, on_outside="drop").frame["count"].sum() == 2


@pytest.mark.parametrize("unit_bits", [1, 3, 24])
@pytest.mark.parametrize("hash_bits", [0, 2, 64])
@given(
    pairs=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 6)), max_size=60),
    bits=st.sampled_from([1, 3, 8]),
    wide=st.booleans(),
)
def test_pairs_are_distinct_and_in_order_whatever_bits_agree(unit_bits, hash_bits, pairs, bits, wide):
    """Repeated (unit, key) pairs are removed, and the keys of each unit are sorted by the hashes of the pairs.

    This holds even if leading bits of units or of hashes are equal.
    """
    spread = np.uint64(1) if wide else np.uint64(1 << 40)  # units differ only in their lowest or middle bits
    units = np.array([unit for unit, _ in pairs], np.uint64) * spread
    cells = np.array([key for _, key in pairs], np.uint32)
    ranks = (np.uint32(7) * (cells + np.uint32(1))) % np.uint32(11)
    hashes = in_memory.mixed(units + cells) >> np.uint64(64 - hash_bits) if hash_bits else units * np.uint64(0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(in_memory, "UNIT_BITS", unit_bits)
        rows, starts = in_memory.distinct_pairs(
            units, cells, hashes, bits, lambda own: (np.uint32(7) * (own + np.uint32(1))) % np.uint32(11)
        )
    rows_of = zip(units.tolist(), cells.tolist(), hashes.tolist(), ranks.tolist(), strict=True)
    order = {(unit, cell): (own_hash, rank) for unit, cell, own_hash, rank in rows_of}
    expected: dict[int, list[int]] = {}
    for unit, cell in sorted(order, key=lambda pair: (pair[0], *order[pair])):
        expected.setdefault(unit, []).append(cell)
    kept: dict[int, list[int]] = {}
    first = rows[starts]
    for unit, cell in zip(units[first].tolist(), cells[first].tolist(), strict=True):
        kept.setdefault(unit, []).append(cell)
    # The engine first sorts by leading bits only. In the end, pairs must be sorted by their complete hashes.
    assert kept == expected
    assert first_of_runs(units[first]).sum() == len(expected)


@pytest.mark.parametrize("multiplier", [1, (1 << 63) | 1])
@pytest.mark.parametrize("unit_bits", [1, 24])
def test_units_that_agree_in_every_bit_looked_at_are_kept_apart(multiplier, unit_bits, monkeypatch):
    """Privacy units that differ only in bits that the engine's sort ignores are never merged."""
    monkeypatch.setattr(in_memory, "odd", lambda salt, purpose: np.uint64(multiplier))
    monkeypatch.setattr(in_memory, "UNIT_BITS", unit_bits)
    log = a_log(300, 20).with_columns(pl.col("user_id") % 5)
    for far in (0, 2**62):
        moved = log.with_columns(pl.col("user_id") + far)
        assert kept_pairs(moved, max_keys=50) == set(moved.rows())


def test_units_half_of_all_integers_apart_are_bounded_separately():
    """Two units whose ids differ by 2**63 keep five keys each; an even multiplier would give them the same number."""
    log = pl.DataFrame({"user_id": [5, 5 - 2**63]}).join(pl.DataFrame({"query": range(200)}), how="cross")
    kept = kept_pairs(log, domain=Domain.parse("integers(200)"))
    assert sorted(unit for unit, _ in kept) == [5 - 2**63] * 5 + [5] * 5


@pytest.mark.parametrize("wrong", [False, True], ids=["", "one hash for unit and key"])
def test_units_keep_keys_independently_of_each_other(wrong, monkeypatch):
    """If each unit keeps one of ten keys, the choices of units with consecutive ids are uniform and independent.

    Negative control: if units and keys have the same hash function, the choice depends on the sum of both numbers.
    """
    if wrong:
        monkeypatch.setattr(words, "odd", lambda salt, purpose: odd(salt, b"column"))
    n, n_keys = 20_000, 10
    log = pl.DataFrame({"user_id": np.repeat(np.arange(n), n_keys), "query": np.tile(np.arange(n_keys), n)})
    kept = dict(kept_pairs(log, max_keys=1, domain=Domain.parse(f"integers({n_keys})")))
    first, second = np.array([kept[unit] for unit in range(n)]).reshape(-1, 2).T
    p_value = g_test(np.bincount(first * n_keys + second, minlength=n_keys**2), np.full(n_keys**2, n_keys**-2.0))
    (assert_detected if wrong else assert_consistent)(p_value)


def test_pairs_that_trust_their_bits_would_be_caught(monkeypatch):
    """Negative control: if the engine compares only the leading bits of privacy units, it merges different units."""
    monkeypatch.setattr(in_memory, "odd", lambda salt, purpose: np.uint64(1))
    monkeypatch.setattr(in_memory, "first_of_runs", lambda ordered: first_of_runs(ordered >> np.uint64(32)))
    log = a_log(300, 20).with_columns(pl.col("user_id") % 5)
    assert kept_pairs(log, max_keys=50) != set(log.rows())


@pytest.mark.parametrize("weights", [None, [(6, 2), (3, 4), (2, 6)]])
@pytest.mark.parametrize("portable", [False, True])
def test_rows_on_disk_count_as_rows_in_memory(tmp_path, monkeypatch, portable, weights):
    """The histogram does not depend on whether rows are in memory or on disk, nor on the number of threads.

    After counting, no temporary file remains.
    """
    monkeypatch.setattr(batches, "BATCH_ROWS", 150)
    monkeypatch.setattr(in_memory, "GROUP_ROWS", 200)
    log = a_log(3000, 150).with_columns(pl.col("user_id").cast(pl.String))
    log.write_parquet(tmp_path / "log.parquet", row_group_size=100)
    asked = {"max_keys": 2, "portable": portable, "weights": weights, "temporary_directory": tmp_path}
    expected = count(log, **asked)
    assert expected.frame["count"].sum() > 0
    on_disk = []
    write = rows._OnDisk
    monkeypatch.setattr(rows, "_OnDisk", lambda file, column: on_disk.append(0) or write(file, column))
    for room in (0, 10_000):
        monkeypatch.setattr(in_memory, "Rows", lambda place, memory, room=room: rows.Rows(place, room))
        for source, threads in ((log, 1), (tmp_path / "log.parquet", 3)):
            counted = count(source, threads=threads, **asked)
            assert counted.frame.sort(pl.all()).equals(expected.frame.sort(pl.all()))
    assert on_disk
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]


def test_rows_on_disk_need_one_file_descriptor(tmp_path):
    """Rows on disk use one open file, however many batches there are, and are read back as they were."""
    kept, before = rows.Rows(tmp_path, 0), len(list(Path("/proc/self/fd").iterdir()))
    for number in range(300):
        kept.add(np.zeros(2, np.uint8), np.array([number, number + 1]), np.array([7, 8], np.uint32))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    numbers, sevens = kept.group(0, 8)
    assert numbers.tolist() == [at for number in range(300) for at in (number, number + 1)]
    assert sevens.dtype == np.uint32 and sevens.tolist() == [7, 8] * 300


def test_values_of_a_dictionary_that_no_row_has_are_not_of_the_log(tmp_path):
    """A value of an Arrow dictionary that no row uses is ignored, even if it would be refused in a row."""
    texts = pa.DictionaryArray.from_arrays([0, 0, 2, None], pa.array(["a", "far too long", "of no unit"]))
    table = pa.table({"user_id": [1, 2, None, 3], "query": texts})
    parquet.write_table(table, tmp_path / "x.parquet")
    for source in (table, tmp_path / "x.parquet"):
        counted = count(source, domain=Domain.parse("strings(max_bytes=1)"), on_null="drop")
        assert counted.frame.rows() == [("a", 2)]


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("dictionary", [True, False])
def test_text_of_a_file_that_is_no_utf8_is_refused(tmp_path, column, dictionary):
    """A Parquet file whose text is not valid UTF-8 is refused, although Arrow itself does not check the text."""
    texts = pa.array([b"a", b"\xff\xfe"]).view(pa.string())
    cut = pa.array([b"x\xc3", b"\xa9x"]).view(pa.string())  # the two values are valid UTF-8 only when joined
    for broken in (texts, cut):
        table = pa.table({"user_id": ["1", "2"], "query": ["a", "b"]})
        table = table.set_column(COLUMNS.index(column), column, broken)
        parquet.write_table(table, tmp_path / "x.parquet", use_dictionary=dictionary)
        with pytest.raises(DataError, match="cannot be read"):
            count(tmp_path / "x.parquet")
