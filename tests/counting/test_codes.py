from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sparsehist.counting import bounding, with_polars
from sparsehist.counting.codes import CodedColumn, plain, split
from sparsehist.counting.words import distinct, first_of_runs, key_totals, unit_starts
from sparsehist.domain.base import Domain
from sparsehist.entropy import seeded
from tests.counting.logs import kept_pairs


def coded(values):
    """Code one column as the engine does."""
    category = pl.Categorical(pl.Categories.random())
    frame = pl.DataFrame({"x": values}).select(plain("x", values.dtype))
    if frame["x"].dtype == pl.String:
        frame = frame.cast(category)
    return CodedColumn(frame["x"], values.dtype, category)


COLUMNS = [
    pl.Series([3, -5, 3, 2**40, -(2**63), 2**63 - 1]),
    pl.Series([200, 0, 200, 7, 255, 1], dtype=pl.UInt8),
    pl.Series(["é", "e", "é", "ee", "", "梨"]),
    pl.Series([b"\xff", b"a", b"\xff", b"", b"ab", b"b"]),
    pl.Series([0.0, -0.0, 1.5, 0.1, 1e300, -1.0]),
    pl.Series([True, False, True, True, False, False]),
    pl.Series([2**64 - 1, 2**63, 0, 1, 2, 3], dtype=pl.UInt64),
    pl.Series(["2024-01-01", "1969-01-01"] * 3).str.to_date("%Y-%m-%d"),
]


@pytest.mark.parametrize("densify", [False, True])
@pytest.mark.parametrize("values", COLUMNS, ids=[str(column.dtype) for column in COLUMNS])
def test_codes_are_equal_exactly_where_values_are_and_lead_back(values, densify):
    """Coding and decoding is the identity, for every dtype that is coded."""
    column = coded(values)
    if densify:
        column.densify()
    words = np.zeros(values.len(), dtype=np.uint64)
    column.add_to(words)
    assert column.values(words).to_list() == values.to_list()


def test_packed_codes_come_apart_again():
    """What three columns pack into a word, split takes out of it."""
    numbers = [pl.Series(seeded(1).integers(0, high, size=50)) for high in (2, 300, 5000)]
    columns = [coded(values) for values in numbers]
    words = np.zeros(50, dtype=np.uint64)
    for column in columns:
        column.add_to(words)
    for column, part, values in zip(columns, split(words, [c.coded_bits for c in columns]), numbers, strict=True):
        assert column.values(part).to_list() == values.to_list()


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


def test_keys_of_several_wide_columns_are_packed_after_renumbering():
    """Columns that do not fit into one word together are numbered densely first, and stay exact."""
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


def test_passes_over_words_agree_with_plain_numpy_across_blocks(monkeypatch):
    """Distinct words, starts of units and totals of keys are right wherever blocks end."""
    monkeypatch.setattr("sparsehist.counting.words.BLOCK", 7)
    monkeypatch.setattr("sparsehist.counting.words._blocks.__defaults__", (7,))
    for size in (0, 1, 6, 7, 8, 200):
        words = seeded(size).integers(0, 90, size=size).astype(np.uint64)
        expected = np.unique(words)
        found = distinct(words.copy())
        assert found.tolist() == expected.tolist()
        assert unit_starts(found, 4).tolist() == np.flatnonzero(first_of_runs(expected >> np.uint64(4))).tolist()
        assert key_totals(found, 4, 16).tolist() == np.bincount(expected & np.uint64(15), minlength=16).tolist()
