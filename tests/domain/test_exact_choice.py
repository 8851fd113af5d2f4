from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sparsehist.domain.exact_choice import ExactChoice
from sparsehist.entropy import seeded
from tests.stats import assert_consistent, assert_detected, g_test

WEIGHTS = [3, 0, 10, 7, 0, 1]
SMALLEST_NOTICED = 0.05  # at 200,000 draws a weight of 10 taken for 10.5 is far beyond the share


class Words:
    """Stands in for a generator and deals given 64-bit words."""

    def __init__(self, words):
        self.words = list(words)

    def integers(self, low, high, *, size, dtype, endpoint):
        """Deal the next words."""
        dealt, self.words = self.words[:size], self.words[size:]
        return np.array(dealt, dtype=dtype)


def exact_outcome(weights, words):
    """The outcome that a uniform number beginning with these words falls into; None when they do not say."""
    total, low = sum(weights), Fraction(0)
    number = sum(Fraction(word, 2 ** (64 * (place + 1))) for place, word in enumerate(words))
    width = Fraction(1, 2 ** (64 * len(words)))
    for outcome, weight in enumerate(weights):
        high = low + Fraction(weight, total)
        if low <= number and number + width <= high:
            return outcome
        low = high
    return None


def test_outcomes_have_the_probabilities_of_their_weights():
    """Outcomes come with probabilities proportional to their weights, and a wrong weight would be seen."""
    drawn = np.bincount(ExactChoice.of(WEIGHTS).draw(200_000, rng=seeded(11)), minlength=len(WEIGHTS))
    law = np.array(WEIGHTS) / sum(WEIGHTS)
    assert drawn[[1, 4]].tolist() == [0, 0]
    assert_consistent(g_test(drawn, law), "choose")
    wrong = np.array([3, 0, 10 * (1 + SMALLEST_NOTICED), 7, 0, 1])
    assert_detected(g_test(drawn, wrong / wrong.sum()), "a weight that is 5 % off")


@pytest.mark.parametrize("weights", [WEIGHTS, [1, 1, 1], [1, 10**77, 1], [5, 2**64 - 5], [2**63, 2**63, 1]])
def test_every_first_word_near_a_boundary_is_settled_exactly(weights):
    """Words just below, at and just above each boundary give what exact fractions say, with further words."""
    choice, further = ExactChoice.of(weights), [0, 2**64 - 1, 0x9E3779B97F4A7C15]
    for boundary in {int(word) for word in choice.words}:
        for word in range(max(boundary - 1, 0), min(boundary + 2, 2**64)):
            for second in further:
                words = [word, second, 12345, 6789]
                wanted = next(
                    found for used in (1, 2, 3, 4) if (found := exact_outcome(weights, words[:used])) is not None
                )
                assert choice.draw(1, rng=Words(words)).tolist() == [wanted]


def test_a_draw_on_a_boundary_asks_for_more_words():
    """A first word that does not settle the outcome is refined, however many words that takes."""
    third = (2**64) // 3  # 1/3 = 0.555… in base 16: every word of it is this one
    choice = ExactChoice.of([1, 2])
    below, above = Words([third, third, third, third - 1]), Words([third, third, third, third + 1])
    assert choice.draw(1, rng=below).tolist() == [0]
    assert choice.draw(1, rng=above).tolist() == [1]
    assert below.words == above.words == []


def test_certain_outcomes_need_no_randomness():
    """A single possible outcome is drawn without a word."""
    assert ExactChoice.of([0, 7, 0]).draw(3, rng=seeded(1)).tolist() == [1, 1, 1]
    assert ExactChoice.of([7]).draw(2, rng=Words([])).tolist() == [0, 0]
