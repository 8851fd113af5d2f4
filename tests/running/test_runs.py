"""Runs by which a step is looked up: what they find is what sets and dicts of Python find."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import polars as pl
from hypothesis import given

from sparsehist.release.runs import (
    Numbering,
    PairRun,
    begins_of,
    found_at,
    look_up,
    merged_numbering,
    merged_pairs,
    n_replaced,
    numbering_run,
)

PAIRS = st.sets(st.tuples(st.integers(0, 40), st.integers(0, 9)), min_size=1)


def run_of(pairs: set[tuple[int, int]]) -> PairRun:
    """A run of pairs of a unit and a key."""
    units, keys = np.array(sorted(pairs)).T
    distinct, sizes = np.unique(units, return_counts=True)
    return PairRun.of_pairs(distinct.astype(np.uint64) << np.uint64(58), sizes, keys)


def pairs_in(run: PairRun) -> list[tuple[int, int]]:
    """The pairs of a run, in order."""
    units = np.repeat(run.units >> np.uint64(58), np.diff(run.starts)).tolist()
    return list(zip(units, run.keys.tolist(), strict=True))


@given(st.lists(PAIRS, min_size=1, max_size=5), PAIRS, st.integers(1, 12))
def test_pairs_are_found_in_runs_and_in_what_they_are_merged_to(tmp_path_factory, days, asked, max_keys):
    """Pairs of different days differ, as those of a series do; a run comes back from its file as it was."""
    before: set[tuple[int, int]] = set()
    runs = []
    for pairs in days:
        if pairs - before:
            runs.append(run_of(pairs - before))
        before |= pairs
    merged = merged_pairs(runs)
    assert pairs_in(merged) == sorted(before)
    path = tmp_path_factory.mktemp("run") / "run"
    path.write_bytes(b"".join(merged.parts()))
    wanted = run_of(asked)
    sizes = np.diff(wanted.starts).astype(np.int64)
    for searched in (runs, [merged], [PairRun.read(path)]):
        used, known = look_up(searched, wanted.units, sizes, wanted.keys.astype(np.int64), max_keys)
        counted = [sum(unit == other for other, _ in before) for unit in sorted({unit for unit, _ in asked})]
        assert np.minimum(used, max_keys).tolist() == np.minimum(counted, max_keys).tolist()
        has_room = np.repeat(used < max_keys, sizes)
        assert known[has_room].tolist() == [
            pair in before for pair, open_still in zip(sorted(asked), has_room, strict=True) if open_still
        ]


def test_a_merge_in_blocks_is_that_of_everything_at_once(monkeypatch):
    """Also where a block has nothing of some run."""
    rng = np.random.default_rng(1)
    pairs = {(int(unit), int(key)) for unit, key in zip(*rng.integers(0, [[60], [50]], (2, 900)), strict=True)}
    halves = [run_of({pair for pair in pairs if hash(pair) % 3 == part}) for part in range(3)]
    monkeypatch.setattr("sparsehist.release.runs._MERGED_AT_ONCE", 50)
    assert pairs_in(merged_pairs(halves)) == sorted(pairs)


@given(
    st.one_of(
        st.lists(st.integers(0, 2**64 - 1), max_size=200),
        st.lists(st.integers(0, 60), max_size=200),
        st.lists(st.integers(2**64 - 60, 2**64 - 1), max_size=200),
    ),
    st.lists(st.integers(0, 2**64 - 1), max_size=50),
)
def test_words_are_found_where_they_first_are(words, others):
    """As bisection finds them: with words that are anywhere, and with such as all begin with the same bits."""
    known = np.sort(np.array(words, np.uint64))
    asked = np.sort(np.array([*words, *others, *(word ^ 1 for word in words)], np.uint64))
    rows, at = found_at(known, begins_of(known), asked)
    there = np.isin(asked, known)
    assert rows.tolist() == np.flatnonzero(there).tolist()
    assert at.tolist() == np.searchsorted(known, asked[there]).tolist()


@given(st.lists(st.sets(st.text(max_size=3)), max_size=5), st.sets(st.text(max_size=3)), st.integers(1, 9))
def test_values_keep_the_numbers_in_which_they_came(days, asked, different):
    """With a hash that takes few values, so that most of them share theirs; before and after runs are merged."""

    def hashes(values: list[str]) -> np.ndarray:
        return np.array([len(value) * 7 % different for value in values], np.uint64)

    numbers: dict[str, int] = {}
    runs = []
    for day in days:
        new = sorted(day - set(numbers))
        numbers |= {value: len(numbers) + i for i, value in enumerate(new)}
        runs.append(numbering_run(pl.DataFrame({"unit": new}, schema={"unit": pl.String}), hashes(new)))
    wanted = pl.DataFrame({"unit": sorted(asked)}, schema={"unit": pl.String})
    for searched in (runs, [merged_numbering(runs)] if runs else []):
        found = Numbering(searched)
        assert len(found) == len(numbers)
        assert found.find(wanted, hashes(sorted(asked))).tolist() == [
            numbers.get(value, -1) for value in sorted(asked)
        ]


@given(st.lists(st.integers(1, 1000), max_size=400))
def test_there_are_few_runs_and_nothing_is_written_often(new):
    """Fewer than four of like size; and what is written is at most as often written as sizes grow fourfold."""
    sizes: list[int] = []
    written = 0
    for size in new:
        n = n_replaced(sizes, size)
        sizes = [*sizes[: len(sizes) - n], sum(sizes[len(sizes) - n :]) + size]
        written += sizes[-1]
        classes = [size.bit_length() // 2 for size in sizes]
        assert len(sizes) <= 3 * (sum(sizes).bit_length() // 2 + 1)
        assert max(map(classes.count, classes)) <= 3
    assert written <= sum(new) * (sum(new).bit_length() // 2 + 2)
