from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from sparsehist.entropy import seeded
from sparsehist.store.ordering import random_order, sort_with_positions
from tests.stats import assert_consistent, assert_detected

SIZES = [0, 1, 2, 3, 1000, 4097]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("bits", [0, 3, 12, 64])
def test_values_come_sorted_with_where_they_stood(size, bits):
    """Also where all that tells values apart is in the bits that positions take the place of."""
    values = seeded(bits).integers(0, 2**bits, size=size, dtype=np.uint64)
    before = values.copy()
    ordered, positions = sort_with_positions(values)
    assert ordered.tolist() == np.sort(before).tolist()
    assert before[positions].tolist() == ordered.tolist()
    assert sorted(positions.tolist()) == list(range(size))
    assert values.tolist() == before.tolist()
    for found, expected in zip(sort_with_positions(values, in_place=True), (ordered, positions), strict=True):
        assert found.tolist() == expected.tolist()


class _FewBits:
    """A generator whose words agree in most bits, but for those it draws to tell tied ones apart."""

    def __init__(self, seed, bits):
        self._rng, self._bits, self.calls = seeded(seed), bits, 0

    def integers(self, low, high, *, size, dtype):
        self.calls += 1
        words = self._rng.integers(low, high, size=size, dtype=dtype)
        return words & ~np.uint64(2 ** (64 - self._bits) - 1) if self.calls % 2 else words


@pytest.mark.parametrize("bits", [0, 1, 3, 64])
def test_random_orders_are_uniform_however_many_words_tie(bits):
    """All orders of four positions are equally likely, also where words are equal."""
    rng = _FewBits(20 + bits, bits) if bits < 64 else seeded(84)
    seen = Counter()
    for _ in range(4800):
        if bits < 64:
            rng.calls = 0
        seen[tuple(random_order(4, rng=rng).tolist())] += 1
    assert len(seen) == 24
    assert_consistent(stats.power_divergence(list(seen.values()), lambda_=0).pvalue, f"random orders, {bits} bits")


def test_ties_left_as_they_are_would_be_seen():
    """With three bits to a word and ties in the order of positions, orders are not equally likely."""
    rng, seen = _FewBits(30, 3), Counter()
    for _ in range(4800):
        rng.calls = 0
        words = rng.integers(0, 2**64, size=4, dtype=np.uint64)
        seen[tuple(np.argsort(words, kind="stable").tolist())] += 1
    assert_detected(stats.power_divergence([*seen.values(), *[0] * (24 - len(seen))], lambda_=0).pvalue)


@pytest.mark.parametrize("size", SIZES)
def test_random_orders_hold_every_position_once(size):
    """Whatever the size."""
    assert sorted(random_order(size, rng=seeded(size)).tolist()) == list(range(size))
