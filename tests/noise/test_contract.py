"""Tests that every family must pass: its steps form one lossless path, and its tails fit its draws.

The reference is the family's own chain, finest noise coarsened step by step. Noise drawn in any other way must have
the joint law of that chain. Families that are wrong on purpose are rejected by the comparison made for their error.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import sparsehist as sh
from sparsehist import entropy
from sparsehist.noise import DiscreteLaplace, Exponential, Family, Gaussian, Laplace, Poisson, Skellam
from tests.stats import (
    assert_consistent,
    assert_detected,
    binomial_test,
    ks_test,
    two_sample_counts,
    two_sample_outcomes,
    two_sample_vectors,
)

COARSE, MIDDLE, FINE = Fraction(1, 6), Fraction(1, 3), Fraction(1)
FAMILIES = [Gaussian(sensitivity=1.0), Laplace(), DiscreteLaplace(), Poisson(), Skellam(), Exponential()]
# 60,000 draws see a scale 2 % off, and an order reversed in one of ten thousand columns.
DRAWS = 60_000


def compared(family: Family, first: np.ndarray, second: np.ndarray) -> float:
    """Test that two samples of rows come from one law; of real numbers also the distance of their ends."""
    if family.integer:
        return two_sample_outcomes(first, second)
    ends = [np.abs(rows[:, -1:] - rows[:, :1]) if rows.shape[1] > 1 else np.abs(rows) for rows in (first, second)]
    return min(1.0, 2 * min(two_sample_vectors(first, second, directions=4), two_sample_vectors(*ends)))


def looks(family: Family, seed: int) -> dict[str, float]:
    """P-values of all comparisons of a family, by name; 0 where an order is reversed."""
    rng = entropy.seeded(seed)

    def chain() -> np.ndarray:
        fine = family.sample(DRAWS, FINE, rng=rng)
        middle = family.coarsen(fine, FINE, MIDDLE, rng=rng)
        return np.column_stack([family.coarsen(middle, MIDDLE, COARSE, rng=rng), middle, fine])

    reference, start = chain(), family.sample(DRAWS, COARSE, rng=rng)
    found = {"sample": compared(family, reference[:, :1], start[:, None])}
    middle = family.refine(start, COARSE, MIDDLE, rng=rng)
    risen = np.column_stack([start, middle, family.refine(middle, MIDDLE, FINE, rng=rng)])
    found["refine"] = compared(family, reference, risen)
    ends = chain()
    middle = family.between(ends[:, 0], COARSE, ends[:, 2], FINE, MIDDLE, rng=rng)
    found["between"] = compared(family, reference, np.column_stack([ends[:, 0], middle, ends[:, 2]]))
    rows = np.stack([middle, middle + 1, middle + 3])
    down, up = (family.carry(rows, MIDDLE, end, rng=rng) for end in (COARSE, FINE))
    found["order"] = float((np.diff(down, axis=0) >= 0).all() and (np.diff(up, axis=0) >= 0).all())
    pairs = compared(family, reference[:, 1:], np.column_stack([middle, up[0]]))
    found["carry"] = min(pairs, compared(family, reference[:, :2], np.column_stack([down[0], middle])))
    threshold = np.floor(np.quantile(start, 0.7)) + 0.5
    tail, log_tail = (float(get(threshold, COARSE)) for get in (family.tail, family.log_tail))
    assert tail == pytest.approx(np.exp(log_tail), rel=1e-12)
    found["tail"] = binomial_test(int((start > threshold).sum()), DRAWS, tail)
    above = family.sample_tail(DRAWS // 4, threshold, COARSE, rng=rng)
    assert (above > threshold).all()
    found["sample_tail"] = compared(family, start[start > threshold][:, None], above[:, None])
    inverse = family.inverse_log_tail(-rng.standard_exponential(DRAWS), COARSE)
    found["inverse"] = compared(family, start[:, None], inverse[:, None])
    assert start.std() == pytest.approx(family.std(COARSE), rel=0.03)
    return found


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
def test_steps_in_any_order_are_one_path_and_tails_are_its_own(family: Family) -> None:
    """Every comparison is consistent, and the noise has the declared type."""
    assert family.sample(3, FINE, rng=entropy.seeded(1)).dtype == (np.int64 if family.integer else np.float64)
    for name, p_value in looks(family, 501).items():
        assert_consistent(p_value, f"{type(family).__name__}.{name}")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
@pytest.mark.parametrize("target", ["0.1", "0.49", "0.500001", "0.7", "50", "1e9"])
def test_carry_keeps_every_order_to_the_last_bit(family: Family, target: str) -> None:
    """Shared randomness never lets a lower row overtake a higher one: neighbouring numbers, far ones, both zeros.

    What a column becomes does not depend on the order of its rows.
    """
    rng = entropy.seeded(503)
    low = family.sample(5000, "0.5", rng=rng)
    if family.integer:
        rows = np.arange(81)[:, None] + np.zeros((1, 5000), np.int64) - (0 if isinstance(family, Poisson) else 40)
    else:
        low = low if isinstance(family, Exponential) else np.concatenate([low, [0.0, -0.0, -5e-324] * 500])
        rows = np.sort([low, np.nextafter(low, np.inf), low + 1e-3, np.abs(low), low + 40], axis=0)
    carried = family.carry(rows, "0.5", target, rng=entropy.seeded(504))
    assert carried.dtype == rows.dtype and (np.diff(carried, axis=0) >= 0).all()
    if isinstance(family, DiscreteLaplace):
        shuffled = rng.permutation(rows)
        again = family.carry(shuffled, "0.5", target, rng=entropy.seeded(504))
        assert np.array_equal(again, carried[shuffled[:, 0] + 40])


@pytest.mark.parametrize(
    "family", [each for each in FAMILIES if not each.integer], ids=lambda family: type(family).__name__
)
@pytest.mark.parametrize("deviations", [-2, 0.3, 0.8, 6, 150])
def test_draws_above_a_threshold_have_the_truncated_law(family: Family, deviations: float) -> None:
    """sample_tail: always above, and uniform after its own distribution function, around zero and far out."""
    threshold = max(deviations * family.std("0.1"), 0.0 if isinstance(family, Exponential) else -np.inf)
    z = family.sample_tail(DRAWS, threshold, "0.1", rng=entropy.seeded(505))
    assert (z > threshold).all()
    assert_consistent(ks_test(np.exp(family.log_tail(z, "0.1") - family.log_tail(threshold, "0.1")), lambda u: u))
    several = np.tile([threshold, threshold + 1.0], 1000)
    assert (family.sample_tail(2000, several, "0.1", rng=entropy.seeded(506)) > several).all()


class SignOfZero(DiscreteLaplace):
    """Multiplies by numpy's sign, which is 0 at 0: noise that is 0 stays 0."""

    def _refined(self, coarse, known, target, *, rng):
        return np.sign(coarse) * np.abs(super()._refined(coarse, known, target, rng=rng))


class PrintedBetween(Laplace):
    """Takes the distance to the coarse noise for the coarse noise: the wrong variance of Lemma F.5."""

    def _inserted(self, coarse, fine, levels, *, rng):
        return self._coarsened(fine, levels[2], levels[1], rng=rng)


class Mirrored(Laplace):
    """Refines the size and gives it the old sign: the right law, by randomness that reverses orders across 0."""

    def _refined(self, coarse, known, target, *, rng):
        return np.where(coarse < 0, -1, 1) * super()._refined(np.abs(coarse), known, target, rng=rng)


class Redraw(Skellam):
    """Draws fresh noise at every finer level."""

    def _refined(self, coarse, known, target, *, rng):
        return np.broadcast_to(self.sample(coarse.shape[-1], target, rng=rng), coarse.shape)


class WideSteps(Gaussian):
    """Bridges are 5 % too wide."""

    def _bridge(self, size, fine, coarse, *, rng):
        return 1.05 * super()._bridge(size, fine, coarse, rng=rng)


class WideTail(Exponential):
    """Tails are those of a law 5 % wider."""

    def log_tail(self, threshold, level):
        return super().log_tail(np.asarray(threshold) / 1.05, level)


@pytest.mark.parametrize(
    ("family", "seen", "unseen"),
    [
        (SignOfZero(), "refine", "between"),
        (PrintedBetween(), "between", "refine"),
        (Mirrored(), "order", "carry"),
        (Redraw(), "refine", "tail"),
        (WideSteps(), "refine", "tail"),
        (WideTail(), "tail", "refine"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_wrong_families_fail_where_they_are_wrong(family: Family, seen: str, unseen: str) -> None:
    """The comparison for the fault rejects, and an unrelated comparison does not."""
    found = looks(family, 502)
    assert_detected(found[seen], type(family).__name__)
    assert_consistent(found[unseen], type(family).__name__)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
@pytest.mark.parametrize("count", [0, 2])
def test_cells_drawn_lazily_are_those_of_the_dense_baseline(family: Family, count: int) -> None:
    """Given a hidden past, the number of exceeding cells and their paths have the law of dense noise."""
    levels = (MIDDLE, FINE)
    thresholds = [family.mean(level) + 1.3 * family.std(level) + count for level in levels]
    dense = sh.histogram.release_dense(family, np.full(4 * DRAWS, count), levels, thresholds, rng=entropy.seeded(601))
    hidden = ~dense.published[0]
    shown = hidden & dense.published[1]
    past = [(levels[0], thresholds[0])]

    def drawn(threshold: float) -> sh.histogram.NewlyTracked:
        return sh.histogram.draw_exceeding(
            family, past, levels[1], threshold, int(hidden.sum()), count=count, rng=entropy.seeded(602)
        )

    cells = drawn(thresholds[1])
    assert cells.exceeds.all()
    assert not cells.group.any()
    numbers = [[int(found), int(hidden.sum() - found)] for found in (shown.sum(), len(cells.values))]
    assert_consistent(two_sample_counts(*numbers), "the number of cells")
    paths = np.column_stack([cells.paths, cells.values])
    assert_consistent(compared(family, dense.noise[:, shown].T, paths), "their paths")
    redrawn = np.column_stack([family.sample(len(paths), levels[0], rng=entropy.seeded(603)), cells.values])
    assert_detected(compared(family, dense.noise[:, shown].T, redrawn), "a past that is drawn again")
