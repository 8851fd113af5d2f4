"""Write a reproducible search log of any size to Parquet: columns `user_id` (Int64 or String) and `query` (String).

    python benchmarks/generated_log.py log.parquet --rows 10_000_000 --units 1_000_000 --keys 5_000_000 --ids uuid

Queries follow a Zipf law; the r-th query is asked with probability proportional to r**-exponent. Units are
drawn with log-normal activity, so that a few of them hold many more keys than the bound. Queries are two or
three invented words, all different, with accents in about one word of eight. Ids of units are numbers from 0 on
("small"), random ones of 63 bits ("random"), or random UUIDs as text ("uuid").
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl

from sparsehist.entropy import seeded

WORD_BITS = 12
SYLLABLES = np.array(
    "ba be bi bo ca ce co da de do fa fe fi ga go ha he hi ka ke ki la le li lo lu ma me mi mo na ne no nu "
    "pa pe po ra re ri ro ru sa se si so ta te ti to tu va ve vi wa we wi xa ya yo za é ü".split()
)


def words(rng: np.random.Generator) -> pl.Series:
    """Invent 2**WORD_BITS different words of two to four syllables."""
    size = 4 << WORD_BITS
    parts = pl.DataFrame({f"part_{i}": SYLLABLES[rng.integers(SYLLABLES.size, size=size)] for i in range(4)})
    lengths = pl.Series(rng.integers(2, 5, size=size))
    invented = parts.select(
        pl.concat_str(
            "part_0",
            "part_1",
            pl.when(lengths > 2).then("part_2").otherwise(pl.lit("")),
            pl.when(lengths > 3).then("part_3").otherwise(pl.lit("")),
        ).alias("word")
    )["word"]
    return invented.unique(maintain_order=True).head(1 << WORD_BITS)


def queries(n_keys: int, rng: np.random.Generator) -> pl.Series:
    """Invent `n_keys` different queries; number r stands at row r."""
    if n_keys > 1 << (2 * WORD_BITS):
        raise SystemExit(f"at most {1 << (2 * WORD_BITS):,} queries can be invented")
    mask = (1 << (2 * WORD_BITS)) - 1
    # An odd multiplier is a bijection modulo a power of two: the word pairs are all different.
    mixed = (np.arange(n_keys, dtype=np.uint64) * np.uint64(0x9E3779B1)) & np.uint64(mask)
    vocabulary = words(rng)
    first = vocabulary.gather((mixed >> np.uint64(WORD_BITS)).astype(np.uint32))
    second = vocabulary.gather((mixed & np.uint64((1 << WORD_BITS) - 1)).astype(np.uint32))
    third = vocabulary.gather(rng.integers(1 << WORD_BITS, size=n_keys).astype(np.uint32))
    has_third = pl.Series(rng.random(n_keys) < 0.3)
    frame = pl.DataFrame({"first": first, "second": second, "third": third, "has_third": has_third})
    pair = pl.concat_str("first", "second", separator=" ")
    return frame.select(
        pl.when("has_third").then(pl.concat_str(pair, "third", separator=" ")).otherwise(pair).alias("query")
    )["query"]


def numbers_by_law(weights: np.ndarray, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Draw `n_rows` indices with probabilities proportional to `weights`, by inverse CDF."""
    bounds = np.cumsum(weights)
    drawn: np.ndarray = np.searchsorted(bounds, rng.random(n_rows) * bounds[-1], side="right")
    numbers: np.ndarray = np.minimum(drawn, weights.size - 1).astype(np.uint32)
    return numbers


def generated_log(
    n_rows: int,
    n_units: int,
    n_keys: int,
    *,
    exponent: float = 1.05,
    activity: float = 0.7,
    ids: str = "small",
    rng: np.random.Generator,
) -> pl.DataFrame:
    """Make the log.

    Args:
        n_rows: Rows.
        n_units: Units that rows are drawn from; a unit may draw none.
        n_keys: Queries that rows are drawn from.
        exponent: Of the Zipf law of the queries.
        activity: Standard deviation of the logarithm of a unit's share; 0 makes all alike.
        ids: "small", "random" or "uuid".
        rng: Randomness.

    Returns:
        Columns `user_id` (Int64, or String) and `query` (String).
    """
    key_numbers = numbers_by_law(np.arange(1, n_keys + 1, dtype=np.float64) ** -exponent, n_rows, rng)
    unit_numbers = numbers_by_law(np.exp(activity * rng.standard_normal(n_units)), n_rows, rng)
    texts = queries(n_keys, rng).gather(key_numbers)
    if ids == "small":
        units = pl.Series(unit_numbers.astype(np.int64))
    elif ids == "random":
        units = pl.Series(rng.integers(2**63, size=n_units, dtype=np.int64)[unit_numbers])
    else:
        units = uuids(n_units, rng).gather(unit_numbers)
    return pl.DataFrame({"user_id": units, "query": texts})


def uuids(size: int, rng: np.random.Generator) -> pl.Series:
    """Random UUIDs, as text."""
    digits = np.frombuffer(b"0123456789abcdef", dtype="S1")[rng.integers(16, size=(size, 32), dtype=np.uint8)]
    text = pl.DataFrame({"hex": digits.view("S32").ravel().astype("U32")})
    cuts = ((0, 8), (8, 4), (12, 4), (16, 4), (20, 12))
    return text.select(pl.concat_str([pl.col("hex").str.slice(*cut) for cut in cuts], separator="-")).to_series()


def main() -> None:
    """Write the log named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--units", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--exponent", type=float, default=1.05)
    parser.add_argument("--activity", type=float, default=0.7)
    parser.add_argument("--ids", choices=("small", "random", "uuid"), default="small")
    parser.add_argument("--row-group", type=int, help="rows of a row group; as Polars likes if not given")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    frame = generated_log(
        options.rows,
        options.units,
        options.keys,
        exponent=options.exponent,
        activity=options.activity,
        ids=options.ids,
        rng=seeded(options.seed),
    )
    frame.write_parquet(options.path, row_group_size=options.row_group)


if __name__ == "__main__":
    main()
