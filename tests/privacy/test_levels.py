"""Tests that noise levels are exact rational numbers, in whatever form they are written."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsehist.errors import LevelError, shown
from sparsehist.privacy import as_level, level_text
from sparsehist.privacy.levels import level_or_zero, rounded_down


def test_one_level_in_many_spellings() -> None:
    """Different spellings of the number 0.1 give one level, and a float is read as its shortest decimal."""
    spellings = [0.1, "0.1", "1/10", ".1", "1e-1", Fraction(1, 10), Decimal("0.1"), np.float64(0.1)]
    assert {as_level(spelling) for spelling in spellings} == {Fraction(1, 10)}
    assert as_level(2) == as_level(np.int64(2)) == as_level("2") == 2
    assert as_level(np.float32(0.5)) == Fraction(1, 2)
    assert level_or_zero("0.0") == 0 and level_or_zero("1/2") == Fraction(1, 2)


def test_levels_are_rounded_down_to_significant_digits() -> None:
    """Numbers of either sign are rounded down to three significant digits, and shorter numbers do not change."""
    assert rounded_down(Fraction(2, 3), 3) == Fraction(333, 500)
    assert rounded_down(Fraction(-2, 3), 3) == Fraction(-667, 1000)
    assert rounded_down(Fraction(125, 10**9), 3) == Fraction(125, 10**9)


@pytest.mark.parametrize(
    "wrong",
    [
        *(0, -1, -0.1, math.nan, math.inf, None, True, [1], 1j, 1e-80),
        *("nan", "inf", "", "0", "1/0", "abc", "1e400", "1e-61", 1e61),
    ],
)
def test_what_is_no_level_is_refused_with_its_value(wrong: object) -> None:
    """A level must be positive, finite and representable by a double; the error quotes the refused value."""
    with pytest.raises(LevelError) as refusal:
        as_level(wrong)  # type: ignore[arg-type]
    assert shown(wrong) in str(refusal.value)


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**9))
def test_text_reads_back(level: Fraction) -> None:
    """The stored text of a level reads back as an equal level."""
    assert as_level(level_text(level)) == level
