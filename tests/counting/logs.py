"""Provide small test logs, reference counts, and functions that count a log with default parameters."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import polars as pl

from sparsehist import Measure
from sparsehist.counting import CountedKeys, count_keys, in_memory
from sparsehist.counting.contract import request_of
from sparsehist.counting.sources import open_log
from sparsehist.domain.strings import Strings
from sparsehist.entropy import seeded

SALT = bytes(range(16))
TEXTS = Strings(max_bytes=32)
ALPHABET = "kiwi lime plum pear fig date sloe quince medlar damson été 梨 apple melon".split()


def a_log(n_rows: int = 400, n_units: int = 40, *, seed: int = 1) -> pl.DataFrame:
    """Return a random log with repeated rows; some privacy units have many more rows than others."""
    rng = seeded(seed)
    units = rng.integers(n_units, size=n_rows) ** 2 // n_units
    keys = rng.integers(len(ALPHABET), size=n_rows)
    return pl.DataFrame({"user_id": units, "query": [ALPHABET[key] for key in keys]})


def count(source: object, **changes: object) -> CountedKeys:
    """Count a log. Keyword arguments override the default parameters."""
    with tempfile.TemporaryDirectory() as directory:
        plain = {"unit": "user_id", "key": ["query"], "max_keys": 5, "domain": TEXTS, "salt": SALT}
        return count_keys(source, **plain | {"temporary_directory": Path(directory)} | changes)


def kept_pairs(source: object, **changes: object) -> set[tuple[object, ...]]:
    """Return the distinct (unit, key) pairs that the in-memory engine counts, with one entry per key column."""
    with tempfile.TemporaryDirectory() as directory:
        plain = {"unit": "user_id", "key": ("query",), "max_keys": 5, "domain": TEXTS, "salt": SALT}
        plain |= {"on_null": "drop", "on_outside": "drop", "temporary_directory": Path(directory)}
        request = request_of(**plain | changes)
        rows = in_memory.kept_pairs(open_log(source, request.read), request).frame().rows()
    assert len(rows) == len(set(rows))
    return set(rows)


def brute_force(log: pl.DataFrame) -> dict[object, int]:
    """Count distinct privacy units per key in plain Python, without a contribution bound."""
    counts: dict[object, int] = {}
    for _, key in set(log.select("user_id", "query").rows()):
        counts[key] = counts.get(key, 0) + 1
    return counts


def as_dict(counted: CountedKeys) -> dict[object, int]:
    """Return counts over one key column as a dict from key to count, omitting counts of 0."""
    return dict(counted.frame.select("key_0", "count").filter(pl.col("count") > 0).rows())


def measured_log() -> pl.DataFrame:
    """Return a log of prices with two decimals, of which a few are extreme, infinite, NaN or null."""
    rng = seeded(4)
    units, keys = (pl.Series(rng.integers(most, size=900)) for most in (30, 6))
    odd = [0.29, -0.29, 1e300, -1e300, math.inf, -math.inf, math.nan, None, 5e-324, -0.0, 2.0**40, 21474836.48]
    paid = rng.integers(0, 2 ** rng.integers(1, 62, 900))
    log = pl.DataFrame({"user_id": units, "query": keys, "price": rng.integers(-900, 900, 900) / 100, "paid": paid})
    rows = pl.DataFrame({"user_id": range(50, 62), "query": [n % 6 for n in range(12)], "price": odd, "paid": 7})
    return pl.concat([log, rows.cast(log.schema)])


PAID = [Measure("paid", clip=12000, step=1000), Measure.events(most=5)]
MEASURES = [
    [Measure("price", clip=(-9, 9), step="0.01"), *PAID],
    [Measure("price", clip=7, step="1/3"), *PAID],
]
