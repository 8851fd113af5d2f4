"""Tests that the epsilon of several noise paths is never below the exact epsilon, and in most cases equals it."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from sparsehist.errors import DeclarationError
from sparsehist.privacy import gaussian, path_cost, poisson, pure, skellam, total_cost
from sparsehist.privacy.epsilon_delta import guarantee

HALF, FIFTIETH = Fraction(1, 2), Fraction(1, 50)


def of_gaussian(level, **more):
    """Return the cost of a noise path with Gaussian noise at this rho."""
    return path_cost("rho", Fraction(level), law="gaussian", **more)


def of_pure(level, **more):
    """Return the cost of an epsilon-DP noise path at this epsilon."""
    return path_cost("epsilon", Fraction(level), **more)


def delta_by_integration(epsilon, rho, coins):
    """Integrate the joint delta of one Gaussian release and of pure releases, each of which is the toss of a coin."""
    mu = math.sqrt(2 * float(rho))
    total = 0.0
    for faces in itertools.product((0, 1), repeat=len(coins)):
        p = q = 1.0
        for face, coin in zip(faces, coins, strict=True):
            heads = 1 / (1 + math.exp(-float(coin)))
            p, q = p * (heads if face else 1 - heads), q * (1 - heads if face else heads)
        if mu == 0:
            total += max(0.0, p - math.exp(epsilon) * q)
            continue
        # p and q are the probabilities of the coins under two neighbouring logs, and phi is the density of N(0, 1).
        # Integrate only above `start`, because the integrand is negative below `start`.
        start = (epsilon + math.log(q / p)) / mu + mu / 2
        end = max(start, mu) + 12
        total += quad(lambda x: p * norm.pdf(x - mu) - math.exp(epsilon) * q * norm.pdf(x), start, end, limit=200)[0]  # noqa: B023
    return total


def test_paths_of_gaussian_noise_are_one_gaussian_mechanism():
    """The epsilon of several Gaussian noise paths is exact, and smaller than the epsilon that zCDP implies."""
    total = total_cost([of_gaussian("0.1"), of_gaussian("0.3"), of_gaussian("0.1")])
    assert guarantee(total, 1e-6) == pytest.approx(gaussian.epsilon(1e-6, Fraction("0.5")), rel=1e-11)
    as_zcdp = total_cost([path_cost("rho", HALF)])
    assert guarantee(total, 1e-6) < guarantee(as_zcdp, 1e-6)


def test_equal_pure_paths_compose_exactly():
    """The epsilon of forty equal pure noise paths is exact.

    At delta 0, the epsilon of all paths together is the sum of their epsilons. A single path keeps its own epsilon.
    """
    many = total_cost([of_pure("0.1")] * 40)
    assert guarantee(many, 1e-6) == pytest.approx(pure.epsilon(1e-6, Fraction("0.1"), 40), rel=1e-11)
    assert guarantee(many, 0) == 4.0
    assert guarantee(of_pure(2), 1e-6) == 2.0


@pytest.mark.parametrize(
    ("rho", "coins"),
    [("0", ["1", "0.3", "0.3"]), ("0.2", ["0.5"]), ("0.05", ["0.2", "0.2", "0.7"]), ("2", ["1", "2"])],
)
def test_pure_and_gaussian_paths_together_are_exact(rho, coins):
    """For pure and Gaussian noise paths together, the stated epsilon is the smallest epsilon with the given delta."""
    costs = [of_pure(coin) for coin in coins] + ([of_gaussian(rho)] if Fraction(rho) else [])
    for delta in (1e-3, 1e-6):
        told = guarantee(total_cost(costs), delta)
        exact = delta_by_integration(told, Fraction(rho), [Fraction(coin) for coin in coins])
        assert exact <= delta * (1 + 1e-6)
        # The sum of all epsilons is an upper bound. A stated epsilon below this sum is the smallest for its delta.
        if told < sum(map(float, coins)) * 0.998:
            assert delta_by_integration(told * (1 - 1e-4), Fraction(rho), list(map(Fraction, coins))) > delta


def test_skellam_noise_adds_up_by_orders():
    """Skellam and Gaussian noise together have a smaller epsilon than the sum of their epsilons at half the delta."""
    noise = path_cost("none", FIFTIETH, law="skellam", keys=3)
    assert guarantee(noise, 1e-6) == pytest.approx(skellam.epsilon(1e-6, FIFTIETH, 3), rel=1e-9)
    both = guarantee(total_cost([noise, of_gaussian("0.1")]), 1e-6)
    assert guarantee(noise, 1e-6) < both
    assert both < guarantee(noise, 5e-7) + guarantee(of_gaussian("0.1"), 5e-7)


def test_poisson_noise_is_exact_alone_and_shares_delta_beside_others():
    """The stated epsilon of Poisson noise alone is exact.

    With Poisson and Gaussian noise together, epsilon is at most 3 % above its smallest value over all splits of
    delta.
    """
    noise = path_cost("none", FIFTIETH, law="poisson")
    told = guarantee(noise, 1e-6)
    assert told == poisson.epsilon(1e-6, FIFTIETH)
    both = guarantee(total_cost([noise, of_gaussian("0.1")]), 1e-6)
    shares = np.linspace(0.02, 0.98, 13)
    tried = [guarantee(noise, share * 1e-6) + guarantee(of_gaussian("0.1"), (1 - share) * 1e-6) for share in shares]
    assert 0.999 * min(tried) <= both <= 1.03 * min(tried)
    assert guarantee(noise, 0) == math.inf


def test_delta_infinity_is_taken_off_delta():
    """The delta of open domains is subtracted from delta first; if nothing remains, epsilon is infinite."""
    cost = total_cost([of_gaussian("0.3", delta_infinity=2e-7), of_gaussian("0.2")])
    told = guarantee(cost, 1e-6)
    assert 2e-7 + gaussian.delta(told, HALF) == pytest.approx(1e-6, rel=1e-9)
    assert guarantee(cost, 2e-7) == math.inf
    assert guarantee(of_pure(1, delta_infinity=1e-7), 1e-6) == 1.0
    assert guarantee(of_pure(1, delta_infinity=1e-7), 1e-8) == math.inf


def test_what_is_unknown_has_no_epsilon():
    """If a noise path with releases has no guarantee, epsilon is infinite. Invalid deltas are refused."""
    assert guarantee(total_cost([of_pure(1), path_cost("none", HALF)]), 0.1) == math.inf
    assert guarantee(total_cost([path_cost("none", None)]), 0) == 0
    for delta in (-1e-9, 1.0, math.nan, "1e-6"):
        with pytest.raises(DeclarationError, match="delta"):
            guarantee(of_pure(1), delta)


def test_the_guarantee_grows_with_every_path_and_falls_with_delta():
    """Adding a noise path never lowers the stated epsilon, and a larger delta never raises it."""
    kinds = [of_gaussian("0.1"), of_pure("0.2"), path_cost("none", FIFTIETH, law="skellam"), path_cost("rho", HALF)]
    for size in range(1, 4):
        for some in itertools.combinations(kinds, size):
            for more in kinds:
                total, larger = total_cost(some), total_cost([*some, more])
                assert guarantee(total, 1e-6) <= guarantee(larger, 1e-6) * (1 + 1e-9)
                assert guarantee(larger, 1e-4) <= guarantee(larger, 1e-6)
