"""Which pairs of a new step count: first come, first kept, in an order of the unit's own within a step.

A pair of a unit and a key counts if it never did, and if fewer than `max_keys` keys of the unit did. Where a step has
more new keys of a unit than it may still count towards, the first ones are kept in an order made of a keyed hash of
unit and key, and of the key where hashes agree. So what a unit adds is a function of the secret salt and of its own
rows up to that step; what others do, the engine that read the log, and the order of its rows change nothing.
"""

from __future__ import annotations

import hashlib

import numpy as np
import polars as pl

from sparsehist.running.step_files import StepFiles
from sparsehist.store.support import hash_keys

_TEXT = (pl.String, pl.Categorical, pl.Enum)


def comparable_units(units: pl.Series) -> tuple[pl.Series, str]:
    """Bring units to whole numbers or text, and say what kind they are: those of two kinds are never compared."""
    dtype = units.dtype
    if isinstance(dtype, _TEXT):
        return units.cast(pl.String), "text"
    if dtype in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32):
        return units.cast(pl.Int64), "whole numbers"
    if dtype.is_temporal():
        return units.to_physical().cast(pl.Int64), str(dtype)
    return (units.bin.encode("hex") if dtype == pl.Binary else units.cast(pl.String)), str(dtype)


def digest_of(pairs: pl.DataFrame, salt: bytes) -> bytes:
    """A keyed digest of distinct pairs, whatever their order."""
    hashes = np.sort(hash_keys(pairs, salt))
    return hashlib.blake2b(hashes.tobytes(), key=salt, digest_size=16, person=b"appended-pairs").digest()


def new_pairs(pairs: pl.DataFrame, files: StepFiles, max_keys: int, salt: bytes) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Choose the pairs of a step that count.

    Args:
        pairs: Distinct; columns unit and key_0, …
        files: The steps before.
        max_keys: Keys that a unit may count towards over all steps.
        salt: Of the series.

    Returns:
        The keys that occur for the first time, columns key_0, …; and the pairs that count, columns unit and number of
        the key, new keys numbered after the others.
    """
    keys = pairs.drop("unit").columns
    known = files.all_keys.with_row_index("number").with_columns(pl.col("number").cast(pl.Int64))
    # The few keys of a step are looked for among all, and not the other way round.
    met = known.join(pairs.select(keys).unique(), on=keys, how="inner")
    numbered = pairs.join(met, on=keys, how="left")
    before = files.pairs_of(pairs["unit"])
    fresh = numbered.join(before, on=["unit", "number"], how="anti")
    used = before.group_by("unit").len("used")
    fresh = fresh.join(used, on="unit", how="left").with_columns(
        room=max_keys - pl.col("used").fill_null(0).cast(pl.Int64), asked=pl.len().over("unit").cast(pl.Int64)
    )
    over = fresh.filter((pl.col("asked") > pl.col("room")) & (pl.col("room") > 0))
    order = pl.Series("order", hash_keys(over.select("unit", *keys), salt))
    first = (
        over.with_columns(order)
        .sort("unit", "order", *keys)
        .filter(pl.int_range(pl.len()).over("unit") < pl.col("room"))
        .drop("order")
    )
    kept = pl.concat([fresh.filter(pl.col("asked") <= pl.col("room")), first])
    new_keys = kept.filter(pl.col("number").is_null()).select(keys).unique(maintain_order=True)
    numbers = new_keys.with_row_index("new", offset=known.height).with_columns(pl.col("new").cast(pl.Int64))
    counted = kept.join(numbers, on=keys, how="left").select("unit", number=pl.coalesce("number", "new"))
    return new_keys, counted
