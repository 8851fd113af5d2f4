"""Every engine computes the same histogram from the same log and salt."""

import datetime as dt
import hashlib

import polars as pl
import pytest

from sparsehist.counting.tuples import sha256_of, tuple_text
from sparsehist.errors import DataError
from tests.counting import spark
from tests.counting.logs import SALT, a_log, count
from tests.counting.one_histogram import CASES, counts_by_hand, digest
from tests.counting.test_deletion import assert_deletions_change_nothing_else
from tests.counting.warehouses import WAREHOUSES, counted_in

# Unit, key, the text that encodes both, and the start of the SHA-256 digest of salt and text. These never change.
VECTORS = [
    ((7,), ("é",), "i1:7s2:é", "3f676eaa6821a917"),
    (("7",), ("é\0",), "s1:7s3:é\0", "040b1cfcffd8fc38"),
    ((-5,), (2**64 - 1,), "i2:-5i20:18446744073709551615", "c41a63e9002446ab"),
    ((dt.date(1969, 12, 31),), ("a ",), "d2:-1s2:a ", "519705fbccba674c"),
    ((dt.datetime.fromisoformat("1969-12-31T23:59:59"),), (True,), "u8:-1000000b4:true", "7fb569b63c8b15a7"),
    ((b"\xff\0",), (dt.date(1, 1, 1),), "x4:ff00d7:-719162", "65a83fb60fb436ba"),
    ((dt.date(2026, 1, 31), "::1"), (17, "i1:7"), "d5:20484s3:::1i2:17s4:i1:7", "a805102cde71b0db"),
]


def _by(engine, salt=SALT):
    def counted(case):
        told = {"portable": True, "on_null": "drop", "on_outside": "drop", "salt": salt}
        log = spark.frame(case.log, engine) if engine in ("spark", "connect") else case.log
        found = count(log, **case.declared, **told).frame
        return {row[:-1]: row[-1] for row in found.rows()}

    return counted


# Dict from engine to a function that counts a `Case` by key, or skips the test if the engine is not installed.
COUNTED = {engine: _by(engine) for engine in ("polars", "spark", "connect")}
COUNTED |= {f"{warehouse} by SQL": counted_in(warehouse) for warehouse in WAREHOUSES}
MARKS = {
    "spark": [pytest.mark.spark],
    "connect": [pytest.mark.spark],
    "spark by SQL": [pytest.mark.spark, pytest.mark.slow],
}


# `make test` runs only a few cases on Spark, because each takes seconds.
SHORT = {"spark": ["text by text", "NUL in text", "text by tuples", "products"], "connect": ["open"]}


def _all():
    for engine in COUNTED:
        for name, case in CASES.items():
            long = [] if name in SHORT.get(engine, CASES) else [pytest.mark.slow]
            yield pytest.param(engine, case, marks=[*MARKS.get(engine, []), *long], id=f"{name}-{engine}")


@pytest.mark.parametrize(("engine", "case"), [*_all()])
def test_every_engine_counts_what_is_counted_by_hand(engine, case):
    """For every type of privacy unit and key, every engine gives the same counts as plain Python."""
    assert COUNTED[engine](case) == counts_by_hand(case)


def test_the_cases_are_bounded():
    """Control: a different salt changes the counts of every test case.

    The salt decides only which keys are kept by units with more than `max_keys` keys, so every case has such units.
    """
    for case in CASES.values():
        assert _by("polars", SALT[::-1])(case) != counts_by_hand(case)


@pytest.mark.parametrize(("unit", "key", "text", "sha256"), VECTORS)
def test_the_text_that_is_hashed_is_pinned(unit, key, text, sha256):
    """The text that encodes a unit and a key, and its SHA-256 digest, equal fixed values that must never change."""
    whole = SALT.hex() + text
    assert digest(unit, key) == hashlib.sha256(whole.encode()).digest()
    assert digest(unit, key).hex().startswith(sha256)
    assert sha256_of(pl.Series([text]), SALT).to_list() == [digest(unit, key).hex()]
    frame = pl.DataFrame([pl.Series(f"part_{at}", [part]) for at, part in enumerate((*unit, *key))])
    assert frame.select(tuple_text(frame.columns, frame.schema)).item() == text


def test_deleting_a_unit_changes_nothing_for_the_others():
    """With portable=True, deleting a unit leaves the kept keys of every other unit unchanged."""
    assert_deletions_change_nothing_else(a_log(200, 12), max_keys=3, portable=True)


def test_a_unit_without_a_portable_form_is_refused():
    """With portable=True, privacy units that are nanosecond timestamps or times of day are refused."""
    log = pl.DataFrame({"user_id": [1], "query": ["a"]}).with_columns(pl.col("user_id").cast(pl.Datetime("ns")))
    with pytest.raises(DataError, match=r"'user_id'.*cast to microseconds"):
        count(log, portable=True)
    with pytest.raises(DataError, match="cast it to text"):
        count(log.with_columns(user_id=pl.lit(dt.time(1))), portable=True)
    assert count(log).frame.height == 1
