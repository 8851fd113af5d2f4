"""Provide logs with every type of privacy unit and key, and reference counts computed in plain Python.

`test_one_histogram.py` compares every engine with these counts.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import Counter
from dataclasses import dataclass

import polars as pl

from sparsehist.counting.keys import place
from sparsehist.domain import Domain
from sparsehist.entropy import seeded
from tests.counting.logs import SALT

EPOCH = dt.date(1970, 1, 1)
TRICKY = [*"aAäß1%_'\"\\\n", "a ", " a", "a\u0308", "梨", "🍐", "SS", "01", "x" * 9]
TEXTS = "strings(max_bytes=8)"


@dataclass(frozen=True)
class Case:
    """A test log and its counting parameters. Counting drops null values and keys outside the domain.

    Attributes:
        nul: Whether keys contain the NUL character, which PostgreSQL cannot store.
    """

    log: pl.DataFrame
    unit: tuple[str, ...]
    key: tuple[str, ...]
    domain: str
    max_keys: int = 3
    nul: bool = False

    @property
    def declared(self) -> dict[str, object]:
        """Return the counting parameters of a test case, which are passed to every engine."""
        return {
            "unit": self.unit if len(self.unit) > 1 else self.unit[0],
            "key": list(self.key),
            "max_keys": self.max_keys,
            "domain": Domain.parse(self.domain),
        }


def _rows(n=700, n_units=40, *, seed=1):
    rng = seeded(seed)
    units = pl.Series(rng.integers(n_units, size=n) ** 2 // n_units)
    picks = pl.Series(rng.integers(len(TRICKY), size=n))
    days = (20000 + pl.Series(rng.integers(60, size=n))).cast(pl.Int32).cast(pl.Date)
    return pl.DataFrame({"u": units, "pick": picks, "day": days, "i": picks * 7 - 40})


def _texts(names):
    return pl.col("pick").replace_strict(list(range(len(names))), names, return_dtype=pl.String)


def _cases() -> dict[str, Case]:
    rows = _rows()
    text = rows.with_columns(k=_texts(TRICKY))
    gaps = text.with_columns(
        u=pl.when(pl.col("day") > dt.date(2024, 10, 1)).then("u"),
        k=pl.when(pl.col("pick") == 3).then(pl.lit("")).when(pl.col("pick") != 5).then("k"),
    )
    nul = rows.with_columns(k=_texts([f"{name[:3]}\0{n}" for n, name in enumerate(TRICKY)]))
    named = text.with_columns(u=pl.col("u").cast(pl.String).replace({"0": "é ", "1": "é", "4": "É"}))
    moments = rows.with_columns(u=pl.datetime(1969, 12, 31) + pl.duration(microseconds=pl.col("u") * 999_999_937))
    zoned = moments.with_columns(pl.col("u").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Kolkata"))
    product = "product(day=dates('2024-10-01', '2024-11-10'), i=integers(-20, 60))"
    listed = text.with_columns(i=pl.col("i").cast(pl.Int16), b=pl.col("pick") % 2 == 0)
    two_listed = "product(b=catalogue(True, False), day=catalogue('2024-10-08', '2024-10-30', kind='date'))"
    return {
        "text by integers": Case(text, ("u",), ("k",), TEXTS),
        "text by text": Case(named, ("u",), ("k",), TEXTS),
        "nulls and empty text": Case(gaps, ("u",), ("k",), TEXTS),
        "NUL in text": Case(nul, ("u",), ("k",), TEXTS, nul=True),
        "integers by dates": Case(rows, ("day",), ("i",), "integers(-20, 60)", max_keys=4),
        "dates by moments": Case(moments, ("u",), ("day",), "dates('2024-10-06', '2024-11-20')"),
        "integers by moments of a zone": Case(zoned, ("u",), ("i",), "integers(-20, 60)"),
        "text by tuples": Case(named, ("day", "u"), ("k",), TEXTS, max_keys=1),
        "products": Case(rows, ("u",), ("day", "i"), product),
        "hashes": Case(text, ("u",), ("k",), "hash64()"),
        "listed text": Case(text, ("u",), ("k",), "catalogue('a', 'A', '梨', 'a ', '1', '\\'', 'never')", max_keys=2),
        "listed integers": Case(listed, ("u",), ("i",), "catalogue(-40, 2, 9, 16, 23, 30)", max_keys=2),
        "booleans by listed days": Case(listed, ("u",), ("b", "day"), two_listed, max_keys=1),
        "open": Case(listed, ("u",), ("k", "i"), "open('string', 'integer', delta=1e-6)"),
        "characters": Case(text, ("u",), ("k",), "strings(max_chars=2, alphabet='aA1ä梨 ')", max_keys=2),
    }


CASES = _cases()


def encoded(value: object) -> str:
    """Return the text that encodes the value of one unit or key column, as defined in `counting/tuples.py`."""
    match value:
        case bool():
            letter, text = "b", str(value).lower()
        case bytes():
            letter, text = "x", value.hex()
        case int():
            letter, text = "i", str(value)
        case dt.datetime():
            epoch = dt.datetime.fromisoformat("1970-01-01").replace(tzinfo=value.tzinfo and dt.UTC)
            letter, text = "u", str((value - epoch) // dt.timedelta(microseconds=1))
        case dt.date():
            letter, text = "d", str((value - EPOCH).days)
        case _:
            letter, text = "s", str(value)
    return f"{letter}{len(text.encode())}:{text}"


def digest(unit: tuple[object, ...], key: tuple[object, ...], salt: bytes = SALT) -> bytes:
    """Return the SHA-256 digest of a (unit, key) pair; each unit keeps the keys with the smallest digests."""
    return hashlib.sha256("".join([salt.hex(), *map(encoded, (*unit, *key))]).encode()).digest()


def counts_by_hand(case: Case, log: pl.DataFrame | None = None) -> dict[tuple[object, ...], int]:
    """Return the counts of a case as a dict from key to count, computed in plain Python.

    Only the mapping from keys to cells of the domain is taken from the package.
    """
    log = (case.log if log is None else log).filter(
        pl.all_horizontal(pl.col(*case.unit).is_not_null() & (pl.col(*case.unit).cast(pl.String) != ""))
    )
    keys = log.select(pl.col(name).alias(f"key_{i}") for i, name in enumerate(case.key))
    placed = place(keys, Domain.parse(case.domain))
    units = log.filter(pl.Series(placed.usable)).select(case.unit).rows()
    pairs: dict[tuple[object, ...], set[tuple[object, ...]]] = {}
    for unit, key in zip(units, placed.cells.rows(), strict=True):
        pairs.setdefault(unit, set()).add(key)
    counts: Counter[tuple[object, ...]] = Counter()
    for unit, touched in pairs.items():
        # A unit with at most `max_keys` keys keeps all of them; other units keep those with the smallest digests.
        counts.update(sorted(touched, key=lambda key: digest(unit, key))[: case.max_keys])
    return dict(counts)
