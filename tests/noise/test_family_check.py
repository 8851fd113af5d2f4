"""check_family passes every family of the package and says what is wrong with a wrong one."""

from __future__ import annotations

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.errors import LevelOrderError
from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.noise.exponential import Exponential
from sparsehist.noise.family import Family
from sparsehist.noise.gaussian import Gaussian
from sparsehist.noise.laplace import Laplace
from sparsehist.noise.poisson import Poisson
from sparsehist.noise.skellam import Skellam
from tests.noise.family_check import check_family
from tests.noise.test_laplace import PrintedBetween

REAL, WHOLE = ("1/2", 1, 3), ("1/8", "1/4", "3/4")
DRAWS = 40_000


@pytest.mark.parametrize(
    ("family", "levels"),
    [
        (Gaussian(), REAL),
        (Laplace(1.5), REAL),
        (Exponential(), REAL),
        (DiscreteLaplace(), REAL),
        (Poisson(), WHOLE),
        (Skellam(), WHOLE),
    ],
)
def test_the_families_of_the_package_pass(family: Family, levels: tuple[object, ...]) -> None:
    """Every check passes, and the report reads as true."""
    report = check_family(family, levels=levels, draws=DRAWS, rng=entropy.seeded(501))
    assert report, str(report)
    assert len(report.checks) == 13


class SignOfZero(DiscreteLaplace):
    """Multiplies by numpy's sign, which is 0 at 0: whoever starts there stays."""

    def refine(self, coarse, coarse_level, level, *, rng):
        return np.sign(coarse) * np.abs(super().refine(coarse, coarse_level, level, rng=rng))


class SharedCoins(Laplace):
    """Carries every row by the same coins of the four-part mixture."""

    def carry(self, values, start, end, *, rng):
        seed = int(rng.integers(2**63))
        if end > start:
            return np.stack([self.refine(row, start, end, rng=entropy.seeded(seed)) for row in values])
        return super().carry(values, start, end, rng=rng)


class Redraw(Gaussian):
    """Fresh noise at every level."""

    def refine(self, coarse, coarse_level, level, *, rng):
        return self.sample(len(coarse), level, rng=rng)


class WideSteps(Gaussian):
    """Bridges 5 % too wide."""

    def coarsen(self, fine, fine_level, level, *, rng):
        return fine + 1.05 * (super().coarsen(fine, fine_level, level, rng=rng) - fine)


class WideSamples(Gaussian):
    """Fresh noise 5 % too wide."""

    def sample(self, size, level, *, rng):
        return 1.05 * super().sample(size, level, rng=rng)


class WideTail(Laplace):
    """Tails of a law 5 % wider."""

    def log_tail(self, threshold, level):
        return super().log_tail(np.asarray(threshold) / 1.05, level)


class WrongType(Poisson):
    """Integers as doubles."""

    def sample(self, size, level, *, rng):
        return super().sample(size, level, rng=rng).astype(float)


class Raises(Gaussian):
    """Has no way to go between."""

    def between(self, coarse, coarse_level, fine, fine_level, level, *, rng):
        raise NotImplementedError("not written yet")


@pytest.mark.parametrize(
    ("family", "levels", "must_fail", "must_pass"),
    [
        (SignOfZero(), REAL, "coarsen and refine agree", "between agrees with coarsen"),
        (PrintedBetween(), REAL, "between agrees with coarsen", "coarsen and refine agree"),
        (SharedCoins(), REAL, "carry keeps every order", "carry has the law of coarsen and refine"),
        (Redraw(), REAL, "coarsen and refine agree", "tail agrees with samples"),
        (WideSteps(), REAL, "coarsen gives the law of fresh coarse noise", "tail agrees with samples"),
        (WideSamples(), REAL, "tail agrees with samples", "carry keeps every order"),
        (WideTail(), REAL, "tail agrees with samples", "coarsen and refine agree"),
        (WrongType(), WHOLE, "shape and type of the noise", None),
        (Raises(), REAL, "between agrees with coarsen", "coarsen and refine agree"),
    ],
)
def test_wrong_families_fail_where_they_are_wrong(
    family: Family, levels: tuple[object, ...], must_fail: str, must_pass: str | None
) -> None:
    """The check that names the fault fails, and one that has nothing to do with it passes."""
    report = check_family(family, levels=levels, draws=DRAWS, rng=entropy.seeded(502))
    assert not report
    assert must_fail in report.failed
    assert must_pass not in report.failed
    assert f"FAIL  {must_fail}" in str(report)


def test_what_a_family_raises_is_a_finding() -> None:
    """The report names the error, and the other checks still run."""
    report = check_family(Raises(), levels=REAL, draws=2000, rng=entropy.seeded(503))
    assert "NotImplementedError: not written yet" in str(report)
    assert len(report.checks) == 13


def test_fewer_than_three_levels_are_refused() -> None:
    """There is nothing between two levels to look at."""
    with pytest.raises(LevelOrderError, match="three"):
        check_family(Gaussian(), levels=(1, "1.0", 2), rng=entropy.seeded(504))
