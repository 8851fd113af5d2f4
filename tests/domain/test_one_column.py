from __future__ import annotations

import hashlib
from datetime import date

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsehist.domain import Catalogue, Dates, Domain, Hash64, Integers, Product, Strings
from sparsehist.entropy import seeded

SIGNED, UNSIGNED = (-(2**63), 2**63 - 1), (0, 2**64 - 1)

SMALL = [
    (Integers(-3, 4), list(range(-3, 5))),
    (Integers(2**64 - 5, 2**64 - 1), list(range(2**64 - 5, 2**64))),
    (Dates("2014-02-27", "2014-03-02"), [date(2014, 2, 27), date(2014, 2, 28), date(2014, 3, 1), date(2014, 3, 2)]),
    (Catalogue(["b", "a", "c"]), ["b", "a", "c"]),
    (Catalogue([2**64 - 1, 3]), [2**64 - 1, 3]),
    (Catalogue([True, False]), [True, False]),
]


def frame(*columns, dtypes=None):
    """Return a frame with one key column for each list of values."""
    return pl.DataFrame({f"key_{i}": pl.Series(values) for i, values in enumerate(columns)}).cast(dtypes or {})


@pytest.mark.parametrize(("domain", "cells"), SMALL, ids=lambda value: str(value)[:30])
def test_small_domains_hold_their_cells_in_order(domain, cells):
    """A small domain contains exactly the listed cells, numbers them in order, and is restored from its text form."""
    keys = domain.keys(np.arange(domain.size))
    assert keys["key_0"].to_list() == cells
    assert (domain.size, domain.columns) == (len(cells), 1)
    assert tuple(keys.dtypes) == domain.dtypes == tuple(domain.draw(1, rng=seeded(1)).dtypes)
    assert domain.contains(keys).tolist() == [True] * len(cells)
    assert domain.index(keys[::-1]).tolist() == list(range(len(cells)))[::-1]
    assert domain.accepts(0, domain.dtypes[0])
    assert not domain.accepts(1, domain.dtypes[0])
    assert not domain.accepts(0, pl.Float64())
    assert domain.convert(keys).equals(keys)
    again = Domain.parse(str(domain))
    assert again == domain
    assert hash(again) == hash(domain)


def test_integers_reach_both_ends_of_64_bits():
    """Integer domains as large as Int64 or UInt64 have the correct size, and random draws reach both halves."""
    for bounds, dtype in ((SIGNED, pl.Int64), (UNSIGNED, pl.UInt64)):
        domain = Integers(*bounds)
        drawn = domain.draw(1000, rng=seeded(3))["key_0"]
        middle = sum(bounds) // 2
        assert domain.size == 2**64
        assert drawn.dtype == dtype
        assert 300 < (drawn > middle).sum() < 700
        assert domain.contains(drawn.to_frame()).all()


def test_index_near_the_limit_does_not_overflow():
    """The first and last of 2**63 - 1 integers are numbered correctly, even if they are too large for Int64."""
    for low in (SIGNED[0], -5, 2**63):
        domain = Integers(low, low + 2**63 - 2)
        ends = np.array([0, domain.size - 1])
        assert domain.keys(ends)["key_0"].to_list() == [low, low + 2**63 - 2]
        assert domain.index(domain.keys(ends)).tolist() == ends.tolist()


def test_values_outside_are_told():
    """Values just outside an integer or date domain, and texts that a catalogue does not list, are not members."""
    assert Integers(5, 10).contains(frame([4, 5, 10, 11])).tolist() == [False, True, True, False]
    days = frame([date(2014, 4, 30), date(2014, 5, 1), date(2014, 5, 12), date(2014, 5, 13)])
    assert Dates("2014-05-01", "2014-05-12").contains(days).tolist() == [False, True, True, False]
    assert Catalogue(["a", "b"]).contains(frame(["b", "c", "", "A"])).tolist() == [True, False, False, False]


ACCEPTED = [
    (Integers(9), [pl.Int8, pl.Int32, pl.Int64, pl.UInt32], [pl.UInt64, pl.Int128, pl.String, pl.Boolean, pl.Date]),
    (Integers(2**64 - 1), [pl.UInt8, pl.UInt64], [pl.Int64, pl.Int8, pl.String]),
    (Dates("2014-05-01", "2014-05-12"), [pl.Date], [pl.Datetime, pl.String, pl.Int32]),
    (Strings(max_bytes=3), [pl.String, pl.Categorical, pl.Enum(["a"])], [pl.Binary, pl.Int64, pl.Null]),
    (Catalogue(["a"]), [pl.String, pl.Categorical, pl.Enum(["a"])], [pl.Int64, pl.Boolean]),
    (Catalogue([1]), [pl.Int16, pl.UInt32], [pl.UInt64, pl.String, pl.Boolean]),
    (Hash64(), [pl.String, pl.Enum(["a"]), pl.UInt64], [pl.Int64, pl.UInt32, pl.Binary]),
]


@pytest.mark.parametrize(("domain", "fitting", "others"), ACCEPTED, ids=lambda value: str(value)[:30])
def test_columns_are_accepted_where_no_value_can_be_lost(domain, fitting, others):
    """A key column is accepted only if its dtype converts to the dtype of the domain without loss."""
    for dtype in fitting:
        assert domain.accepts(0, dtype() if isinstance(dtype, type) else dtype), dtype
    for dtype in (*others, pl.Float32, pl.Float64, pl.Decimal(10, 2)):
        assert not domain.accepts(0, dtype() if isinstance(dtype, type) else dtype), dtype


@given(st.lists(st.text(max_size=20), max_size=20))
def test_hash_is_the_last_eight_bytes_of_md5(texts):
    """The hash of a text is the last eight bytes of the MD5 of the text in UTF-8, as computed by hashlib."""
    wanted = [int.from_bytes(hashlib.md5(text.encode()).digest()[8:], "little") for text in texts]
    assert Hash64.of(pl.Series(texts, dtype=pl.String)).to_list() == wanted


def test_hashes_keep_the_order_of_long_series():
    """In a long column, which is hashed in several batches, each text has the same hash as in a short column."""
    texts = pl.Series([f"query {i}" for i in range(400_000)])
    hashed = Hash64.of(texts)
    rows = [0, 122_879, 122_880, 204_801, 399_999]
    assert hashed.gather(rows).to_list() == Hash64.of(texts.gather(rows)).to_list()
    assert hashed.n_unique() == len(texts)
    assert Hash64.of(pl.Series(["a", None]))[1] is None
    assert Hash64().convert(hashed.to_frame("key_0")).equals(hashed.to_frame("key_0"))


def test_a_product_is_every_combination():
    """A product of domains of 2, 3 and 2 values has 12 cells. Each column has the dtype and values of its domain."""
    domain = Product(country=Catalogue(["DE", "US"]), day=Dates("2014-05-01", "2014-05-03"), n=Integers(5, 6))
    keys = domain.keys(np.arange(domain.size))
    assert (domain.size, domain.columns, domain.names) == (12, 3, ("country", "day", "n"))
    assert domain.dtypes == (pl.String, pl.Date, pl.Int64) == tuple(keys.dtypes)
    assert keys.columns == ["key_0", "key_1", "key_2"]
    assert keys.n_unique() == 12
    assert domain.index(keys).tolist() == list(range(12))
    assert domain.contains(keys).all()
    assert [domain.accepts(column, pl.Date()) for column in (0, 1, 3)] == [False, True, False]
    outside = keys.head(3).with_columns(key_2=pl.Series([5, 7, 6]))
    assert domain.contains(outside).tolist() == [True, False, True]
    narrow = keys.cast({"key_0": pl.Categorical, "key_2": pl.Int8})
    assert domain.convert(narrow).equals(keys)
