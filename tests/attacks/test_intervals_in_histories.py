"""Intervals of a release that is not the first of its series."""

from __future__ import annotations

import numpy as np

from sparsehist import entropy
from sparsehist.release.releases import Release
from tests.attacks.stand_in import Drawn
from tests.stats import assert_consistent, assert_detected, binomial_test

_CONFIDENCE = 0.8
_HISTORY = [("0.02", 14.0), ("0.2", 7.0), ("0.05", 9.0), ("0.2", 4.0)]
_COUNTS = (4, 8, 12)
_CELLS = 15_000


def _held_and_known(seed: int) -> list[dict[int, tuple[np.ndarray, np.ndarray]]]:
    """For each release and true count: which intervals hold, and which keys an earlier release had published."""
    counts = np.repeat(np.array(_COUNTS), _CELLS)
    drawn, known, releases = Drawn(counts, 1, rng=entropy.seeded(seed)), np.zeros(counts.size, bool), []
    for number, (level, threshold) in enumerate(_HISTORY):
        frame = drawn.release(f"r{number}", level, threshold)
        metadata = drawn.state.made[-1].metadata
        limits = Release(frame, metadata).intervals(_CONFIDENCE)
        cells = limits["cell"].to_numpy()
        holds = (limits["low"].to_numpy() <= counts[cells]) & (counts[cells] <= limits["high"].to_numpy())
        releases.append(
            {count: (holds[counts[cells] == count], known[cells][counts[cells] == count]) for count in _COUNTS}
        )
        known[cells] = True
    return releases


def test_coverage_is_nominal_in_every_release_of_a_history() -> None:
    """Levels go up and down, one twice: for each true count the nominal share of the intervals holds."""
    for number, release in enumerate(_held_and_known(41)):
        for count, (holds, _) in release.items():
            assert_consistent(
                binomial_test(int(holds.sum()), holds.size, _CONFIDENCE), f"count {count} in release {number}"
            )


def test_coverage_is_another_one_among_keys_picked_by_earlier_releases() -> None:
    """Keys selected by an earlier release still have its large noise, so coverage among them is not promised."""
    holds, known = _held_and_known(42)[3][4]
    picked = holds[known]
    assert_detected(binomial_test(int(picked.sum()), picked.size, _CONFIDENCE), "intervals of keys published before")
