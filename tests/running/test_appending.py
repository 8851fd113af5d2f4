"""Tests that a unit of a running series counts once for each of the first `max_keys` keys that it has."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
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
from sparsehist.release.running_round import _covariance
from sparsehist.release.steps import unit_digests
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
    """Return days of random (user, key) pairs, in which users and keys of earlier days occur again."""
    rng = seeded(seed)
    return [
        [
            (f"u{user}", int(key))
            for user, key in zip(rng.integers(0, users, rows), rng.integers(0, keys, rows), strict=True)
        ]
        for _ in range(days)
    ]


def test_a_unit_counts_once_per_key_and_towards_its_first_keys() -> None:
    """A unit keeps the keys of its earlier steps, and gets new keys only until it has `max_keys` keys."""
    found = kept(DAYS)
    assert found[0] == {("ann", 1), ("bob", 1), ("cid", 3)}
    assert found[1] > {("ann", 2)} and len(found[1]) == 3
    assert found[2] == set()
    assert found[3] in ({("eve", 1), ("bob", 7)}, {("eve", 1), ("bob", 8)})


def test_running_counts_are_those_of_brute_force() -> None:
    """If no unit exceeds `max_keys`, the running count of a key is the number of units that had it so far."""
    days = random_days(1)
    found = counts(started(days, max_keys=12), 4)
    for step in range(4):
        pairs = set(itertools.chain.from_iterable(days[: step + 1]))
        np.testing.assert_array_equal(found[step], np.bincount([key for _, key in pairs], minlength=50))


def test_deleting_a_unit_changes_no_other_units_kept_keys_at_any_step() -> None:
    """The kept keys of a unit of a running series never depend on other units or on the order of rows."""
    days = random_days(4, users=8, rows=40)
    whole = kept(days)
    assert kept([list(reversed(day)) for day in days]) == whole
    for user in {user for day in days for user, _ in day}:
        without = kept([[row for row in day if row[0] != user] for day in days])
        assert without == [{pair for pair in step if pair[0] != user} for step in whole]


@pytest.mark.parametrize(("max_keys", "keys", "steps"), [(1, 2, 3), (2, 3, 2)])
def test_no_history_of_a_unit_costs_more_than_the_level(max_keys: int, keys: int, steps: int) -> None:
    """The largest change of running counts that adding a unit can cause is 95 % to 100 % of the sensitivity."""
    others = random_days(5, users=5, keys=keys, days=steps, rows=6)
    inverse = np.linalg.inv(max_keys * _covariance(steps))
    without = counts(started(others, max_keys=max_keys, steps=steps), steps)
    largest = 0.0
    for having in itertools.product(itertools.product([False, True], repeat=keys), repeat=steps):
        days = [
            [*day, *(("new", key) for key in range(keys) if mine[key])]
            for day, mine in zip(others, having, strict=True)
        ]
        moved = (counts(started(days, max_keys=max_keys, steps=steps), steps) - without).astype(float)
        largest = max(largest, float(np.einsum("sk,st,tk->", moved, inverse, moved)))
    assert 0.95 < largest <= 1 + 1e-12


def test_steps_are_appended_in_order_and_each_once() -> None:
    """Appending the same rows again for a step changes nothing.

    Different rows for a step that was appended, a skipped step and invalid rows are refused.
    """
    series = started(DAYS[:2])
    before = counts(series, 5)
    series.append(frame(reversed(DAYS[1])), step=2)
    series.append(frame([*DAYS[0], ("bob", 1)]), step=1)
    nulls = pl.DataFrame({"user": [None, "ann"], "key": [1, 1]})
    for source, step, error, said in (
        (frame([*DAYS[1], ("zoe", 1)]), 2, NameTakenError, "other rows"),
        (frame(DAYS[3]), 4, DeclarationError, "next step is 3"),
        (nulls, 3, DataError, "null"),
        (pl.DataFrame({"user": [1], "key": [1]}), 3, DataError, "whole numbers"),
    ):
        with pytest.raises(error, match=said):
            series.append(source, step=step)
    np.testing.assert_array_equal(counts(series, 5), before)
    series.append(frame(DAYS[3]), step=3)
    assert pairs_of(series, DAYS) == pairs_of(started([*DAYS[:2], DAYS[3]]), DAYS)


@pytest.mark.parametrize("types", [(pl.Int64, pl.String), (pl.Datetime("us"), pl.Datetime("ns"))])
@pytest.mark.parametrize("of", ["step", "period"])
def test_units_of_several_columns_keep_their_types(types: tuple[Any, Any], of: str) -> None:
    """A unit column must have one data type in all steps or periods, so that a unit is recognised each time."""
    kind: dict[str, Any] = {"steps": 9} if of == "step" else {"every": sh.Every("day", most_periods=1)}
    series = sh.create(
        ":memory:", name="log", unit=["part", "user"], key="key", max_keys=1, domain=sh.Integers(50), **kind
    )
    log = pl.DataFrame({"part": [1, 2, 3], "user": "ann", "key": [1, 2, 3]})
    first, other = (log.cast({"part": dtype}) for dtype in types)
    named = range(5) if of == "step" else [f"2026-03-{n:02}" for n in range(5)]
    for number, rows in enumerate((other.clear(), first, other.clear()), 1):
        series.append(rows, **{of: named[number]})
    with pytest.raises(DataError, match="cast the column"):
        series.append(other, **{of: named[4]})
    series.append(first, **{of: named[4]})


@pytest.fixture
def stored(tmp_path: Path) -> sh.RunningSeries:
    """Create a running series in a store on disk."""
    store = sh.open(tmp_path / "store", create=True, wait=20)
    return sh.create(store, name="log", unit="user", key="key", max_keys=2, domain=sh.Integers(50), steps=5)


def test_of_many_appenders_at_once_one_appends_and_says_so(stored: sh.RunningSeries) -> None:
    """If six threads append the same step, exactly one call returns True."""
    with ThreadPoolExecutor(6) as pool:
        outcomes = pool.map(lambda _: stored.append(frame(DAYS[0]), step=1), range(6))
    assert sorted(outcomes) == [False] * 5 + [True]
    assert stored.appended() == 1
    assert (stored.store.events()["what"] == "append").sum() == 1


def test_finish_erases_the_pairs_and_refuses_further_steps(stored: sh.RunningSeries, tmp_path: Path) -> None:
    """After `finish`, no file contains a unit or its digest. Further steps are refused, but releases are not."""

    def holds(text: bytes) -> bool:
        return any(text in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    stored.append(frame([(f"planted-{i}", i % 5) for i in range(900)]), step=1)
    before = stored.release("first", step=1, level=1).frame
    with stored._hold() as (_, record):
        digest = unit_digests(pl.Series(["planted-1"]), record.salt)[0][0]
    assert holds(digest)
    for _ in range(2):
        stored.finish()
    assert not holds(digest) and not holds(b"planted-")
    assert stored.release("first").frame.equals(before)
    assert stored.release("second", step=1, level=2).frame.height >= 5
    with pytest.raises(RefusedError, match="finished"):
        stored.append(frame(DAYS[0]), step=2)


def test_a_bit_that_is_lost_lets_nobody_count_twice(stored: sh.RunningSeries, tmp_path: Path) -> None:
    """If a file of (unit, key) pairs is damaged, no further step can be appended, so that no unit counts twice."""
    for step in (1, 2):
        stored.append(frame([(f"u{i}", i % 3) for i in range(step * 7)]), step=step)
    files = [file for part in ("keys", "pairs") for file in tmp_path.rglob(f"*.{part}")]
    assert len(files) == 2
    for file in files:
        content = file.read_bytes()
        for place in range(0, len(content) - 16, max(len(content) // 9, 1)):
            altered = bytearray(content)
            altered[place] ^= 1 << place % 8
            file.write_bytes(altered)
            with pytest.raises(StoreDamagedError, match="restore"):
                stored.append(frame([("u1", 7), ("x", 7)]), step=3)
        file.write_bytes(content)
    stored.append(frame([("u1", 7), ("x", 7)]), step=3)
