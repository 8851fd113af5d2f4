from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sparsehist.counting.in_memory import spill as spilling
from sparsehist.counting.in_memory.codes import LogColumn
from sparsehist.counting.in_memory.spill import PARTS, Spill
from sparsehist.entropy import seeded
from sparsehist.errors import DeclarationError
from tests.counting.logs import a_log, count


def texts(numbers):
    """Texts of any length and of several bytes per character."""
    return pl.Series([f"{number}é" * (number % 5 + 1) for number in numbers])


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("kind", ["whole", "text"])
def test_rows_come_back_and_each_unit_is_in_one_part(tmp_path, monkeypatch, kind, dictionary):
    """Batch after batch, an empty one among them, with text as it is or as a dictionary; then nothing is left."""
    rng = seeded(2)
    dtype = pl.String if kind == "text" else pl.Int64
    spill, expected = Spill(tmp_path, dtype()), []
    with spill.writing():
        for size in (1000, 0, 3000):
            numbers, codes = rng.integers(500, size=size), rng.integers(1 << 32, size=size).astype(np.uint32)
            make = texts if kind == "text" else lambda own: pl.Series(own, dtype=pl.Int64)
            if dictionary:
                column = LogColumn(make(np.arange(500)).cast(dtype), numbers)
            else:
                column = LogColumn(make(numbers).cast(dtype))
            expected += zip(make(numbers), codes.tolist(), strict=True)
            spill.write(*spill.parted(column, codes))
    found, parts = [], {}
    assert spill.together() == [list(range(PARTS))]
    monkeypatch.setattr(spilling, "READ_AT_ONCE", 100)
    together = spill.together()
    assert [part for parts in together for part in parts] == list(range(PARTS)) and len(together) > PARTS / 4
    for part, numbers in enumerate(together):
        units, codes = spill.read(numbers)
        found += zip(units, codes.tolist(), strict=True)
        for unit in units:
            assert parts.setdefault(unit, part) == part
    assert sorted(found) == sorted(expected)
    assert len(set(parts.values())) == len(together)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("at_once", [1, spilling.READ_AT_ONCE])
@pytest.mark.parametrize("weights", [None, [(6, 2), (3, 4), (2, 6)]])
@pytest.mark.parametrize("portable", [False, True])
def test_rows_on_disk_count_as_rows_in_memory(tmp_path, monkeypatch, portable, weights, at_once):
    """One salt, one histogram; files, text as units, any threads; and nothing stays on disk."""
    monkeypatch.setattr(spilling, "READ_AT_ONCE", at_once)
    log = a_log(3000, 150).with_columns(pl.col("user_id").cast(pl.String))
    log.write_parquet(tmp_path / "log.parquet", row_group_size=100)
    for source, threads in ((log, 1), (tmp_path / "log.parquet", 3)):
        asked = {"max_keys": 2, "portable": portable, "weights": weights, "temporary_directory": tmp_path}
        counted = [count(source, engine=engine, threads=threads, **asked) for engine in ("polars", "duckdb")]
        frames = [one.frame.sort(pl.all()) for one in counted]
        assert frames[0].equals(frames[1]) and frames[0]["count"].sum() > 0
        assert counted[0].bounding == counted[1].bounding and counted[0].bounding.units_above > 100
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]


def test_distinct_keys_beyond_the_limit_are_refused(tmp_path):
    """They are what stays in memory; the same keys again take no more."""
    few = pl.select(user_id=pl.int_range(400_000), query=(pl.int_range(400_000) % 7).cast(pl.String))
    many = few.with_columns(query=pl.col("user_id").cast(pl.String))
    assert count(few, memory_limit="4MB").frame.height == 7
    with pytest.raises(DeclarationError, match=r"memory_limit.*distinct keys"):
        count(many, memory_limit="4MB")
