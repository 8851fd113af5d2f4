"""The laws of exponential noise, a building block that promises no privacy."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.errors import DeclarationError
from sparsehist.noise.exponential import Exponential
from tests.noise.orders import in_order
from tests.stats import assert_consistent, assert_detected, binomial_test, ks_test, uniform_cube_test

FAMILY = Exponential()
LEVELS = (Fraction(1, 2), Fraction(1), Fraction(3))
DRAWS = 100_000  # see a mean 5 % off


def joint_p_value(paths: np.ndarray) -> float:
    """Rosenblatt's transform from the finest level on; the jump at 0 spread evenly."""
    coarse, middle, fine = paths.T
    spread = entropy.seeded(1).random((2, len(paths)))
    uniforms = [-np.expm1(-3 * fine)]
    for step, stay, rate, spare in ((middle - fine, 1 / 3, 1.0, spread[0]), (coarse - middle, 1 / 2, 0.5, spread[1])):
        uniforms.append(np.where(step == 0, stay * spare, stay - (1 - stay) * np.expm1(-rate * step)))
    # A step downwards, which the law has not, falls into the first cell.
    return uniform_cube_test(np.clip(np.column_stack(uniforms), 0.0, 1.0), 8)


@pytest.mark.parametrize("order", list(permutations(LEVELS)))
def test_releases_in_any_order_have_one_joint_law(order: tuple[Fraction, ...]) -> None:
    """Whatever the order, the finest is exponential and the steps from it are independent bridges, atoms included."""
    paths = in_order(FAMILY, order, DRAWS, 401)
    assert_consistent(joint_p_value(paths))
    assert_consistent(binomial_test(int(np.count_nonzero(paths[:, 1] == paths[:, 2])), DRAWS, 1 / 3))
    assert_consistent(binomial_test(int(np.count_nonzero(paths[:, 0] == paths[:, 1])), DRAWS, 1 / 2))


def test_wrong_joint_laws_are_rejected() -> None:
    """A scale 5 % off and an independent redraw are seen by the same test."""
    paths = in_order(FAMILY, LEVELS, DRAWS, 402)
    assert_detected(joint_p_value(paths * 1.05), "a scale 5 % off")
    paths[:, 2] = FAMILY.sample(DRAWS, 3, rng=entropy.seeded(403))
    assert_detected(joint_p_value(paths), "one level drawn independently")


def test_carry_is_coarsen_or_refine() -> None:
    """A carried row has the law of the kernel given its start."""
    rng = entropy.seeded(404)
    z = FAMILY.sample(DRAWS, 1, rng=rng)
    for end in ("0.5", 3):
        carried = FAMILY.carry(z[None], 1, end, rng=rng)
        assert_consistent(ks_test(-np.expm1(-float(end) * carried[0]), lambda u: u))
    assert_consistent(binomial_test(int(np.count_nonzero(carried[0] == z)), DRAWS, 1 / 3))


def test_tails_and_their_inverse_agree() -> None:
    """tail, log_tail, log_cdf and inverse_log_tail by the closed form; nothing lies below 0."""
    for t in (1e-9, 0.2, 5.0, 2000.0):
        assert float(FAMILY.log_tail(t, 2)) == pytest.approx(-2 * t, rel=1e-15)
        assert float(FAMILY.log_cdf(t, 2)) == pytest.approx(np.log(-np.expm1(-2 * t)), rel=1e-12)
        assert float(FAMILY.inverse_log_tail(-2 * t, 2)) == pytest.approx(t, rel=1e-15)
    assert float(FAMILY.tail(-1.0, 2)) == 1.0
    assert float(FAMILY.log_cdf(-1.0, 2)) == -np.inf


def test_every_guarantee_is_refused_with_the_reason() -> None:
    """There is no statement to make."""
    with pytest.raises(DeclarationError, match="never negative"):
        FAMILY.statement(1)
