from __future__ import annotations

import numpy as np
import pytest

from sparsehist.entropy import seeded
from sparsehist.store.ordering import sort_with_positions, stable_order

SIZES = [0, 1, 2, 3, 1000, 4097]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("bits", [1, 10, 40, 64])
def test_equal_values_stay_in_their_order(size, bits):
    """The order is that of a stable sort, whether or not positions fit beside the values."""
    values = seeded(bits).integers(0, 2**bits, size=size, dtype=np.uint64)
    assert stable_order(values).tolist() == np.argsort(values, kind="stable").tolist()


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
