"""Tests of attacks that infer counts from the floating-point rounding of workload answers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist import entropy
from sparsehist.errors import DeclarationError, LevelError
from sparsehist.histogram import round_to_grid
from sparsehist.noise import Gaussian
from sparsehist.release.workload_round import cell_grid, family_for, noisy_answers
from sparsehist.workload import Cells, Matrix, strategy_named

MANY = 1.0 + entropy.seeded(2).random(100_000)


def _of_two_cells(count: int, other: int) -> sh.Series:
    counts = sh.Counts(pl.DataFrame({"key": [0, 1], "count": [count, other]}), largest=1)
    return sh.create(sh.open(":memory:", seed=5), counts, name="s", key="key", max_keys=1, domain=sh.Integers(2))


def weighed_noisy_cells(matrix: np.ndarray, release: sh.Release) -> int:
    """Return how many possible noisy counts of the first cell are consistent with all released answers."""
    answers, metadata = release.frame["noisy_answer"].to_numpy(), release.metadata
    grid, step = metadata["grid"], metadata["cell_grid"]
    weights = matrix[:, 0]
    low, high = ((answers - grid / 2) / weights).max(), ((answers + grid / 2) / weights).min()
    around = 8 + np.ceil(abs(high - low) / step)
    near = step * (np.rint((low + high) / 2 / step) + np.arange(-around, around + 1))
    for first in range(0, len(weights), 1000):
        part = slice(first, first + 1000)
        near = near[(round_to_grid(np.outer(weights[part], near), grid) == answers[part, np.newaxis]).all(axis=0)]
    return int(near.size)


@pytest.mark.parametrize(
    ("strategy", "weights"),
    [
        ("identity", MANY),
        pytest.param("haar", MANY, marks=pytest.mark.slow),
        pytest.param("optimised", MANY, marks=pytest.mark.slow),
        ("identity", np.array([1e20, 1.5])),
    ],
    ids=["identity", "haar", "optimised", "weights of 1e20"],
)
def test_many_answers_say_no_more_than_the_noisy_cells_they_rest_on(strategy: str, weights: np.ndarray) -> None:
    """All answers about a cell follow from one noisy count, so many answers reveal no more than this count does."""
    matrix = np.stack([weights, np.zeros_like(weights)], axis=1)
    for count in (0, 10**9):
        made = _of_two_cells(count, 3).release("w", workload=Matrix(matrix), level="0.5", strategy=strategy)
        assert weighed_noisy_cells(matrix, made) > 0


@pytest.mark.parametrize("exponent", range(-8, 41, 4))
def test_the_grid_of_cells_divides_one(exponent: int) -> None:
    """Rounding the noise and then adding the count gives the same number as rounding their sum.

    Therefore, rounding reveals nothing about the count.
    """
    strategy = strategy_named("identity", Matrix(np.array([[0.5, 1.5]])))
    step = cell_grid(strategy, 1.3 * 2.0**exponent)
    assert step is not None
    family = family_for(Gaussian(), strategy, strategy.l2(1))
    noise = family.sample(1000, 1.0, rng=entropy.seeded(6)) * 2.0**exponent
    assert np.array_equal(7 + round_to_grid(noise, step), round_to_grid(7 + noise, step))


def test_noise_too_large_for_doubles_is_refused() -> None:
    """A workload release is refused if doubles cannot hold count plus noise exactly, even if answers are small."""
    series = _of_two_cells(5, 3)
    with pytest.raises(LevelError, match="standard deviation"):
        series.release("w", workload=Matrix(np.array([[1e-9, 2.5e-9]])), level="1e-32", strategy="identity")
    assert series.store.ledger(full=True)["releases"].max() == 0


@pytest.mark.parametrize("name", ["identity", "haar", "optimised", "optimised(share=30)"])
def test_answers_depend_on_noisy_measurements_alone(name: str) -> None:
    """Different counts with equal noisy measurements give equal answers, bit for bit."""
    weights = 1.0 + entropy.seeded(3).random(30_000)
    strategy = strategy_named(name, Matrix(np.stack([weights, weights, 3 * weights], axis=1)))
    family = family_for(Gaussian(), strategy, strategy.l2(2))
    step = cell_grid(strategy, family.std("0.5"))
    noise = round_to_grid(family.sample(3, "0.5", rng=entropy.seeded(4)), step)
    numbers = np.array([[10**9, 7, 123_456_789], [999_999_998, 6, 123_456_790]])
    moved = noise + (numbers[0] - numbers[1])
    one, other = (
        noisy_answers(
            family, strategy, state, Cells((3,), (np.arange(3),), counts),
            grid=2.0**-10, lots=entropy.seeded(5), by_cell=step,
        )
        for state, counts in zip((noise, moved), numbers, strict=True)
    )  # fmt: skip
    assert (one == other).all()


def test_answers_that_share_no_grid_are_refused() -> None:
    """A strategy that adds noise to each answer is refused if the weights differ too much for one rounding grid."""
    counts = sh.Counts(pl.DataFrame({"a": [0], "b": [1], "count": [7]}), largest=1)
    domain = sh.Product(a=sh.Integers(2), b=sh.Integers(3))
    series = sh.create(sh.open(":memory:", seed=1), counts, name="s", key=["a", "b"], max_keys=1, domain=domain)
    wide = sh.workload.Kronecker(Matrix(np.diag([1e20, 1.5])), sh.workload.Total())
    with pytest.raises(DeclarationError, match="differ too much to round both"):
        series.release("w", workload=wide, level="0.5", strategy="kronecker(identity, direct)")
