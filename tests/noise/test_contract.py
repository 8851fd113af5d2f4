"""Tests that every way to draw the noise of a family at several levels gives one joint distribution.

The reference is noise that is drawn at the finest level and coarsened level by level. Noise drawn in any other way
must have the same joint distribution. Each deliberately wrong family must be rejected by the comparison that looks
for its error.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.errors import LevelOrderError
from sparsehist.histogram.grid import grid_step, round_to_grid
from sparsehist.noise import (
    DenseFamily,
    DiscreteLaplace,
    Exponential,
    Family,
    Gaussian,
    Laplace,
    Poisson,
    RandomisedResponse,
    Skellam,
)
from tests.stats import (
    assert_consistent,
    assert_detected,
    binomial_test,
    ks_test,
    two_sample_outcomes,
    two_sample_vectors,
)

COARSE, MIDDLE, FINE = Fraction(1, 6), Fraction(1, 3), Fraction(1)
FAMILIES = [Gaussian(sensitivity=1.0), Laplace(), DiscreteLaplace(), Poisson(), Skellam(), Exponential()]
EVERY_FAMILY = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
# With 60,000 draws, a scale that is 2 % off is detected, and so are reversals of order in 0.01 % of the draws.
DRAWS = 60_000


def compared(family: Family, first: np.ndarray, second: np.ndarray) -> float:
    """Return the p-value of a test that two samples, with one column per level, have the same joint distribution."""
    if family.integer:
        return two_sample_outcomes(first, second)
    ends = [np.abs(rows[:, -1:] - rows[:, :1]) if rows.shape[1] > 1 else np.abs(rows) for rows in (first, second)]
    return min(1.0, 2 * min(two_sample_vectors(first, second, directions=4), two_sample_vectors(*ends)))


def looks(family: Family, seed: int) -> dict[str, float]:
    """Make all comparisons that a noise family must pass, and return a dict from their names to p-values.

    The entry "order" is 1 if values that `carry` moves to a different level keep their order, and otherwise 0.
    """
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


@EVERY_FAMILY
def test_steps_in_any_order_are_one_path_and_tails_are_its_own(family: Family) -> None:
    """Noise at three levels has one joint distribution in every order of drawing, and correct tail functions."""
    for name, p_value in looks(family, 501).items():
        assert_consistent(p_value, f"{type(family).__name__}.{name}")


@EVERY_FAMILY
@pytest.mark.parametrize("target", ["0.1", "0.49", "0.500001", "0.7", "50", "1e9"])
def test_carry_keeps_every_order_to_the_last_bit(family: Family, target: str) -> None:
    """If `carry` moves several noise values to a different level with the same randomness, it keeps their order."""
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


@EVERY_FAMILY
@pytest.mark.parametrize("deviations", [-2, -0.05, 0.3, 6, 150])
def test_draws_above_a_threshold_have_the_truncated_law(family: Family, deviations: float) -> None:
    """Noise drawn above a threshold is distributed as noise of the family, given that it exceeds the threshold."""
    threshold = deviations * family.std("0.1")
    if isinstance(family, Exponential | Poisson):
        threshold = max(threshold, -1.0)
    z = family.sample_tail(DRAWS, threshold, "0.1", rng=entropy.seeded(505))
    assert (z > threshold).all()
    if family.integer:
        # To make integer noise z continuous, draw a uniform number between P[noise > z] and P[noise > z - 1].
        at = np.exp([family.log_tail(values, "0.1") - family.log_tail(threshold, "0.1") for values in (z, z - 1)])
        uniforms = at[0] + entropy.seeded(506).random(DRAWS) * (at[1] - at[0])
    else:
        uniforms = np.exp(family.log_tail(z, "0.1") - family.log_tail(threshold, "0.1"))
    assert_consistent(ks_test(uniforms, lambda u: u))
    several = np.tile([threshold, threshold + 1.0], 1000)
    assert (family.sample_tail(2000, several, "0.1", rng=entropy.seeded(507)) > several).all()


class SignOfZero(DiscreteLaplace):
    """A wrong family: refined noise is multiplied by numpy's sign of the coarse noise, so that noise of 0 stays 0."""

    def _refined(self, coarse, known, target, *, rng):
        return np.sign(coarse) * np.abs(super()._refined(coarse, known, target, rng=rng))


class PrintedBetween(Laplace):
    """A wrong family: noise at a middle level ignores the coarse noise, as in the misprint of [ARNP Lemma F.5]."""

    def _bridge(self, coarse, fine, levels, *, rng):
        return self._coarsened(fine, levels[2], levels[1], rng=rng)


class Mirrored(Laplace):
    """A wrong family: the order of two noise values can be reversed when they are refined.

    Negative noise is refined as if it were positive, and the result is negated. The refined noise still has the
    correct distribution.
    """

    def _refined(self, coarse, known, target, *, rng):
        return np.where(coarse < 0, -1, 1) * super()._refined(np.abs(coarse), known, target, rng=rng)


class Redraw(Skellam):
    """A wrong family: noise at a finer level is drawn afresh."""

    def _refined(self, coarse, known, target, *, rng):
        return np.broadcast_to(self.sample(coarse.shape[-1], target, rng=rng), coarse.shape)


class WideSteps(Gaussian):
    """A wrong family: the increments between levels are 5 % too wide."""

    def _increment(self, size, fine, coarse, *, rng):
        return 1.05 * super()._increment(size, fine, coarse, rng=rng)


class WideTail(Exponential):
    """A wrong family: its tails are those of noise that is 5 % wider."""

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
    """Negative control: a wrong family fails the comparison that looks for its error, and passes an unrelated one."""
    found = looks(family, 502)
    assert_detected(found[seen], type(family).__name__)
    assert_consistent(found[unseen], type(family).__name__)


@EVERY_FAMILY
@pytest.mark.parametrize("level", ["0.01", "1/3", "7"])
def test_supports_of_neighbouring_counts_are_shifts_of_one_another(family: Family, level: str) -> None:
    """Adding equal noise to the counts c and c + 1 gives two values on one grid that differ by exactly 1."""
    noise = family.sample(20_000, level, rng=entropy.seeded(604)).astype(np.float64)
    step = 1.0 if family.integer else grid_step(family.std(level))
    assert 1.0 % step == 0.0
    for count in (0, 1, 12_345, 2**31):
        one, next_one = (c + round_to_grid(noise, step) for c in (count, count + 1))
        assert np.array_equal(next_one - one, np.ones(noise.size))
        assert not ((one / step) % 1.0).any()


@pytest.mark.parametrize("family", [*FAMILIES, RandomisedResponse(5)], ids=lambda family: type(family).__name__)
def test_steps_refuse_levels_out_of_order(family: DenseFamily) -> None:
    """`refine`, `coarsen` and `between` refuse levels in the wrong order; `carry` to the same level has no effect."""
    z, rng = np.zeros(3, np.int64 if family.integer else np.float64), entropy.seeded(605)
    refused = [lambda level=level: family.refine(z, "0.1", level, rng=rng) for level in ("1/10", "0.05")]
    for level in ("1/10", "0.2"):
        refused.append(lambda level=level: family.coarsen(z, "0.1", level, rng=rng))
        refused.append(lambda level=level: family.between(z, "0.1", z, "0.2", level, rng=rng))
    for step in refused:
        with pytest.raises(LevelOrderError):
            step()
    if isinstance(family, Family):
        assert np.array_equal(family.carry(z[np.newaxis], "0.1", "1/10", rng=rng)[0], z)
