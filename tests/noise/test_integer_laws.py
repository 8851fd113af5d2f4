"""Tests that tables of integer distributions are nearly exact, and that draws follow these distributions."""

from __future__ import annotations

import re
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy import stats

import sparsehist
from sparsehist import entropy
from sparsehist.noise.integer_laws import Uniforms, _part_given, binomial_law, poisson, poisson_law, skellam_law
from tests.noise.exact_integer_laws import DIGITS, binomial_mass, distance, poisson_mass, skellam_mass
from tests.stats import assert_consistent, assert_detected, g_test

TABLES = [
    *((poisson_law, poisson_mass, (mean,), 400) for mean in (1e-20, 1e-3, 0.7, 20.0, 1000.0, 65536.0, 2.0**24)),
    *((skellam_law, skellam_mass, (mean,), 40) for mean in (1e-20, 1e-3, 0.7, 20.0, 1000.0, 30_000.0)),
    *(
        (binomial_law, binomial_mass, case, 400)
        for case in ((1e3, 0.3), (1e6, 3e-4), (1e9, 0.5), (1e12, 1e-6), (1e15, 1e-9), (1e21, 1e-12))
    ),
]


@pytest.mark.parametrize(("law", "mass", "parameters", "cells"), TABLES)
def test_tables_are_the_law(law, mass, parameters: tuple[float, ...], cells: int) -> None:
    """Tables of integer distributions are exact to 1e-12, and a relative error of 1e-8 in their mean is detected."""
    *trials, last = parameters
    wrong = last * (1 + (1e-8 if law is skellam_law else 1e-9))
    with mpmath.workdps(DIGITS):
        assert distance(law(*parameters), mass(*parameters), cells) < 1e-12
        if trials or last > 1:
            assert distance(law(*trials, wrong), mass(*parameters), cells) > 2e-12


@pytest.mark.parametrize("means", [(0.01, 3.0), (3.0, 0.01), (40.0, 60.0), (2000.0, 500.0), (1e-9, 700.0)])
@pytest.mark.parametrize("deviations", [-7, -1, 0, 2, 30])
def test_parts_of_a_sum_have_their_conditional_law(means: tuple[float, float], deviations: int) -> None:
    """Given the sum of two Poisson or Skellam numbers, the first number has its exact conditional distribution."""
    both = sum(means)
    for law, mass, centre, spread in (
        (poisson_law, poisson_mass, both, both**0.5),
        (skellam_law, skellam_mass, 0.0, (2 * both) ** 0.5),
    ):
        total = round(centre + deviations * spread)
        if law is poisson_law and total < 0:
            continue
        given = _part_given(total, law(means[0]), law(means[1]), means)
        with mpmath.workdps(DIGITS):
            part, rest, norm = mass(means[0]), mass(means[1]), mass(both)(total)
            assert distance(given, lambda y: part(y) * rest(total - y) / norm, 40) < 1e-12  # noqa: B023


def test_the_ends_of_uniform_numbers_give_the_ends_of_a_table() -> None:
    """Quantiles at 0 and 1, and very close to 0 and 1, are values in the table of the distribution."""
    ends = Uniforms(np.array([False, True, False, True]), np.array([1e-300, 1e-300, 0.0, 0.0]))
    for law in (poisson_law(3.0), skellam_law(3.0), binomial_law(1000.0, 0.4)):
        assert ((law.first <= law.quantile(ends)) & (law.quantile(ends) <= law.last)).all()


@pytest.mark.parametrize("mean", [3.0, 300.0, 3.3 * 2**24])
def test_poisson_numbers_follow_their_law(mean: float) -> None:
    """Poisson draws follow their exact distribution, and a mean that is 0.1 standard deviations off is rejected."""
    edges = stats.poisson.ppf(np.arange(1, 20) / 20, mean)
    edges = np.unique(edges)
    drawn = poisson(mean, 200_000, rng=entropy.seeded(4))
    seen = np.bincount(np.searchsorted(edges, drawn), minlength=edges.size + 1)
    for law_mean, judge in ((mean, assert_consistent), (mean + 0.1 * mean**0.5, assert_detected)):
        cells = np.diff(np.concatenate([[0.0], stats.poisson.cdf(edges, law_mean), [1.0]]))
        judge(g_test(seen, cells), f"mean {mean}")


def test_no_law_rests_on_the_discrete_draws_of_numpy() -> None:
    """The package never calls a numpy method that uses numpy's binomial or Poisson sampling."""
    asked = re.compile(
        r"(?:rng|generator\(\))\.(?:binomial|poisson|multinomial|hypergeometric|multivariate_hypergeometric|"
        r"negative_binomial|geometric|logseries|zipf|dirichlet|gamma|standard_gamma|beta)\("
    )
    files = list(Path(sparsehist.__file__).parent.rglob("*.py"))
    assert [file.name for file in files if asked.search(file.read_text())] == []
    assert len(files) > 100
    assert asked.search("rng.binomial(3, 0.5)")
