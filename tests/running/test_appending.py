"""What counts of a log that goes on: each unit once per key, towards at most so many keys, first come first kept."""

from __future__ import annotations

import itertools
import threading
from datetime import date
from typing import Any

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.entropy import seeded
from sparsehist.errors import (
    DataError,
    DeclarationError,
    NameTakenError,
    RefusedError,
    StoreDamagedError,
)
from sparsehist.release.steps import unit_digests
from sparsehist.release.totals import Totals
from tests.running.logs import counts, frame, kept, pairs_of, started

DAYS = [
    [("ann", 1), ("ann", 1), ("bob", 1), ("cid", 3)],
    [("ann", 2), ("bob", 1), ("dan", 4), ("dan", 5), ("dan", 6)],
    [],
    [("ann", 3), ("bob", 7), ("bob", 8), ("eve", 1)],
]


def random_days(
    seed: int, *, users: int = 30, keys: int = 12, days: int = 4, rows: int = 60
) -> list[list[tuple[str, int]]]:
    """Days on which users come back."""
    rng = seeded(seed)
    return [
        [
            (f"u{user}", int(key))
            for user, key in zip(rng.integers(0, users, rows), rng.integers(0, keys, rows), strict=True)
        ]
        for _ in range(days)
    ]


def test_a_unit_counts_once_per_key_and_towards_its_first_keys() -> None:
    """Keys of earlier steps stay, and a step that has more of them than there is room for keeps some."""
    found = kept(DAYS)
    assert found[0] == {("ann", 1), ("bob", 1), ("cid", 3)}
    assert found[1] > {("ann", 2)}
    assert len({key for user, key in found[1] if user == "dan"}) == 2
    assert found[2] == set()
    assert {pair for pair in found[3] if pair[0] != "bob"} == {("eve", 1)}
    assert len([pair for pair in found[3] if pair[0] == "bob"]) == 1


def test_running_counts_are_those_of_brute_force() -> None:
    """With room for every key, the running count of a key is the number of units that had it so far."""
    days = random_days(1)
    found = counts(started(days, max_keys=12), 4)
    for step in range(4):
        pairs = set(itertools.chain.from_iterable(days[: step + 1]))
        np.testing.assert_array_equal(found[step], np.bincount([key for _, key in pairs], minlength=50))


@pytest.mark.parametrize("seed", range(3))
def test_orders_of_rows_keep_the_same_pairs(seed: int) -> None:
    """Also where units have more keys than they may count towards."""
    days = random_days(seed)
    assert kept(days) == kept([list(reversed(day)) for day in days])


def test_deleting_a_unit_changes_no_other_units_kept_keys_at_any_step() -> None:
    """Every unit of a log with over-full units, deleted in turn."""
    days = random_days(4, users=8, rows=40)
    whole = kept(days)
    for user in {user for day in days for user, _ in day}:
        without = kept([[row for row in day if row[0] != user] for day in days])
        assert without == [{pair for pair in step if pair[0] != user} for step in whole]


@pytest.mark.parametrize(("max_keys", "keys", "steps"), [(1, 2, 3), (2, 3, 2)])
def test_no_history_of_a_unit_costs_more_than_the_level(max_keys: int, keys: int, steps: int) -> None:
    """All histories of a unit over some steps and one key more than it may count towards, among other units.

    The distance that it moves running counts, new units or totals of blocks of all keys, in units of their noise, is
    at most that of the declared sensitivity, and some history reaches it but for a few per cent.
    """
    others = random_days(5, users=5, keys=keys, days=steps, rows=6)
    kinds = [Totals(what, steps) for what in ("running", "new", "blocks(2)")]
    inverses = [np.linalg.inv(totals.noise(max_keys)._covariance) for totals in kinds]
    without = counts(started(others, max_keys=max_keys, steps=steps), steps)
    largest = [0.0] * len(kinds)
    for having in itertools.product(itertools.product([False, True], repeat=keys), repeat=steps):
        days = [
            [*day, *(("new", key) for key in range(keys) if mine[key])]
            for day, mine in zip(others, having, strict=True)
        ]
        running = counts(started(days, max_keys=max_keys, steps=steps), steps) - without
        for i, (totals, inverse) in enumerate(zip(kinds, inverses, strict=True)):
            moved = totals.counts(range(len(inverse)), lambda at, of=running: of[at]).astype(float)
            largest[i] = max(largest[i], float(np.einsum("sk,st,tk->", moved, inverse, moved)))
    for found in largest:
        assert 0.95 < found <= 1 + 1e-12


def test_steps_are_appended_in_order_and_each_once() -> None:
    """The same pairs again change nothing; other pairs, a step that is missing, or none of the series are refused."""
    series = started(DAYS[:2])
    before = counts(series, 5)
    series.append(frame(reversed(DAYS[1])), step=2)
    series.append(frame([*DAYS[0], ("bob", 1)]), step=1)
    with pytest.raises(NameTakenError, match="other rows"):
        series.append(frame([*DAYS[1], ("zoe", 1)]), step=2)
    with pytest.raises(NameTakenError, match="other rows"):
        series.append(frame(DAYS[1][1:]), step=2)
    with pytest.raises(DeclarationError, match="step 3 comes next"):
        series.append(frame(DAYS[3]), step=4)
    for wrong in (0, 6, True, "1"):
        with pytest.raises(DeclarationError, match="from 1 to 5"):
            series.append(frame([]), step=wrong)
    np.testing.assert_array_equal(counts(series, 5), before)
    assert series.appended() == 2


def test_a_step_that_breaks_a_rule_leaves_nothing() -> None:
    """Null units, keys outside the domain, counts made elsewhere, and units of another kind."""
    series = started(DAYS[:1])
    wrong = [
        (pl.DataFrame({"user": [None, "ann"], "key": [1, 1]}), DataError),
        (frame([("ann", 70)]), DataError),
        (sh.Counts(pl.DataFrame({"key": [1], "count": [2]}), largest=1), DeclarationError),
        (pl.DataFrame({"user": [1], "key": [1]}), DataError),
    ]
    for source, error in wrong:
        with pytest.raises(error):
            series.append(source, step=2)
    assert series.appended() == 1
    series.append(frame(DAYS[1]), step=2)
    assert pairs_of(series, DAYS) == pairs_of(started(DAYS[:2]), DAYS)


PARTS: dict[str, Any] = {
    "number": [1, 2, 3],
    "text": ["1", "2", "3"],
    "day": [date(1970, 1, day) for day in (2, 3, 4)],
    "microseconds": pl.Series([1, 2, 3], dtype=pl.Datetime("us")),
    "nanoseconds": pl.Series([1, 2, 3], dtype=pl.Datetime("ns")),
}


@pytest.mark.parametrize(("first", "then"), [("number", "text"), ("day", "number"), ("microseconds", "nanoseconds")])
@pytest.mark.parametrize("of", ["steps", "periods"])
def test_units_of_several_columns_keep_their_types(first: str, then: str, of: str) -> None:
    """A part that is a number on one day and text on the next would be another unit, and is refused."""
    told: dict[str, Any] = {"name": "log", "unit": ["part", "user"], "key": "key", "max_keys": 1}
    told |= {"domain": sh.Integers(50)}
    rows = {kind: pl.DataFrame({"part": parts, "user": "ann", "key": [1, 2, 3]}) for kind, parts in PARTS.items()}
    nobody = rows["text"].clear()

    def take(log: pl.DataFrame, number: int) -> None:
        if of == "steps":
            running.append(log, step=number)
        else:
            periods.append(log, period=number)

    running = sh.create(":memory:", steps=9, **told)
    periods = sh.create(":memory:", **told, every=sh.Every(1, most_periods=1))
    for number, log in enumerate((nobody, rows[first], nobody), 1):
        take(log, number)
    with pytest.raises(DataError, match="cast the column"):
        take(rows[then], 4)
    take(rows[first], 4)
    if of == "steps":
        assert counts(running, 4).sum() == 3 + 3 + 3


def test_of_many_appenders_at_once_one_appends_and_says_so(tmp_path) -> None:
    """All wait for each other; the step is there once, and exactly the call that appended it returns True."""
    series = sh.create(
        sh.open(tmp_path / "store", create=True, wait=20), name="log", unit="user", key="key", max_keys=2,
        domain=sh.Integers(50), steps=5,
    )  # fmt: skip
    outcomes: list[bool] = []

    def append() -> None:
        outcomes.append(series.append(frame(DAYS[0]), step=1))

    threads = [threading.Thread(target=append) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes) == [False] * 5 + [True]
    assert series.appended() == 1
    assert (series.store.events()["what"] == "append").sum() == 1


def test_finish_erases_the_pairs_and_refuses_further_steps(tmp_path) -> None:
    """The store names no unit, and no digest of one afterwards; releases go on with the same numbers."""
    series = sh.create(
        tmp_path / "store", name="log", unit="user", key="key", max_keys=2, domain=sh.Integers(50), steps=5
    )
    series.append(frame([(f"planted-{i}", i % 5) for i in range(900)]), step=1)
    before = series.release("first", step=1, level=1).frame
    with series._hold() as (_, record):
        digest = unit_digests(pl.Series(["planted-1"]), record.salt)[0][0]
    assert _holds(tmp_path, digest)
    series.finish()
    series.finish()
    assert not _holds(tmp_path, digest) and not _holds(tmp_path, b"planted-")
    assert series.release("first").frame.equals(before)
    assert series.release("second", step=1, level=2).frame.height >= 5
    with pytest.raises(RefusedError, match="finished"):
        series.append(frame(DAYS[0]), step=2)


def _holds(directory, text: bytes) -> bool:
    return any(text in path.read_bytes() for path in directory.rglob("*") if path.is_file())


def test_a_bit_that_is_lost_lets_nobody_count_twice(tmp_path) -> None:
    """Whichever it is of the files that say who counted: nothing is appended."""
    series = sh.create(
        tmp_path / "s", name="log", unit="user", key="key", max_keys=2, domain=sh.Integers(50), steps=5
    )
    for step in (1, 2):
        series.append(frame([(f"u{i}", i % 3) for i in range(step * 7)]), step=step)
    files = [file for part in ("keys", "pairs") for file in (tmp_path / "s").rglob(f"*.{part}")]
    assert len(files) == 2
    for file in files:
        content = file.read_bytes()
        for place in range(0, len(content) - 16, max(len(content) // 9, 1)):
            altered = bytearray(content)
            altered[place] ^= 1 << place % 8
            file.write_bytes(altered)
            with pytest.raises(StoreDamagedError, match="restore"):
                series.append(frame([("u1", 7), ("x", 7)]), step=3)
        file.write_bytes(content)
    series.append(frame([("u1", 7), ("x", 7)]), step=3)
    assert series.appended() == 3


def test_digests_of_units_never_change() -> None:
    """A unit of an older store is the same unit for every later version: fixed vectors."""
    salt = bytes(range(16))
    numbers, _ = unit_digests(pl.Series([0, 1, -1], dtype=pl.Int64), salt)
    texts, words = unit_digests(pl.Series(["", "ann", "Zoë"]), salt)
    assert numbers.to_list() == [0, 4901581241518125403, 13545162832191426213]
    assert [text.hex() for text in texts] == [
        "c54f2afde6cfcea5bd53c194e54c81ed",
        "b7f2afb7efff56bed3cd19a374b9ec56",
        "ad7870730dc1563b4ce95accce9d29eb",
    ]
    assert words.tolist() == [int.from_bytes(text[:8], "little") for text in texts]
