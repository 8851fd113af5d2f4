"""Consistent cells and workloads: unbiased, nearer to the truth, with the stated errors."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.entropy import seeded
from sparsehist.errors import InputError
from sparsehist.release.consistency import Measured, agree, measured
from sparsehist.workload import Marginals, Ranges, Total, Union, strategy_named
from tests.series.in_memory import over_log
from tests.stats import assert_consistent, assert_detected, mean_test

DOMAIN = sh.Product(country=sh.Catalogue(["DE", "US", "FR"]), day=sh.Integers(4))
# All of DE is published; in US one cell is at the threshold less two deviations; in FR nearly all are empty.
TRUE = np.array([[400, 500, 600, 300], [500, 62, 300, 400], [0, 0, 700, 0]])
STD = math.sqrt(3 / 0.2)
THRESHOLD = 70.0
RUNS = 1000


@pytest.fixture(scope="module")
def released() -> tuple[sh.Release, sh.WorkloadRelease]:
    """A release of cells and one of marginals, of a log that does not matter: their metadata does."""
    log = pl.DataFrame({"user": range(900), "country": ["DE"] * 900, "day": [1] * 900})
    series = over_log(log, unit="user", key=["country", "day"], max_keys=3, domain=DOMAIN)
    marginals = series.release("m", workload=Marginals([["country"], ["day"], []]), level="0.1")
    return series.release("c", level="0.1", threshold=THRESHOLD), marginals


def noisy(released: tuple[sh.Release, sh.WorkloadRelease], rng: np.random.Generator) -> list[sh.Release]:
    """Return both releases, with fresh noise from their laws added to the true counts."""
    cells, marginals = released
    strategy = strategy_named(
        marginals.metadata["strategy"], sh.workload.Workload.parse(marginals.metadata["workload"])
    )
    keys = DOMAIN.keys(np.arange(12)).rename({"key_0": "country", "key_1": "day"})
    counts = pl.Series("noisy_count", TRUE.ravel() + np.round(rng.standard_normal(12) * STD * 1024) / 1024)
    published = keys.with_columns(counts).filter(pl.col("noisy_count") > cells.metadata["effective_threshold"])
    answers = strategy.workload.apply(TRUE.ravel().astype(float))
    answers = answers + marginals.metadata["noise_std"] * strategy.noise_answers(
        rng.standard_normal(strategy.n_noise)
    )
    frame = marginals.frame.with_columns(noisy_answer=pl.Series(answers))
    return [sh.Release(published, cells.metadata), sh.WorkloadRelease(frame, marginals.metadata)]


def errors_of(
    released: tuple[sh.Release, sh.WorkloadRelease],
    made: Callable[[sh.Release, sh.WorkloadRelease], list[pl.DataFrame]],
) -> dict[str, np.ndarray]:
    """Errors, stated errors and noise of each run, for the cells of DE and for the marginals."""
    rng, found = seeded(3), {"DE": [], "marginals": []}
    truth = {("DE", day): TRUE[0, day] for day in range(4)}
    sums = np.concatenate([TRUE.sum(axis=1), TRUE.sum(axis=0), [TRUE.sum()]])
    for _ in range(RUNS):
        cells, marginals = made(*noisy(released, rng))
        rows = cells.filter(country="DE").sort("day")
        assert [("DE", day) for day in rows["day"]] == list(truth)
        off = rows["consistent"].to_numpy() - np.array(list(truth.values()))
        found["DE"].append(np.stack([off, rows["consistent_error"].to_numpy(), rows["noisy_count"] - TRUE[0]]))
        off = marginals["consistent"].to_numpy() - sums
        noise = marginals["noisy_answer"].to_numpy() - sums
        found["marginals"].append(np.stack([off, marginals["consistent_error"].to_numpy(), noise]))
    return {what: np.array(kept) for what, kept in found.items()}


def test_what_agrees_is_unbiased_and_as_far_off_as_it_says(released):
    """Consistent values are unbiased, have the stated error, and are nearer to the truth than the noisy ones."""
    found = errors_of(released, lambda cells, marginals: cells.consistent(marginals))
    for what, kept in found.items():
        off, said, before = kept[:, 0], kept[:, 1], kept[:, 2]
        for column in range(off.shape[1]):
            scaled = off[:, column] / said[:, column]
            assert_consistent(mean_test(scaled, 0, 1), f"the mean of {what} {column}")
            assert_consistent(mean_test(scaled**2, 1, 2), f"the squared error of {what} {column}")
        assert (np.mean(off**2, axis=0) < 1.05 * np.mean(before**2, axis=0)).all()
    # Four cells and their sum, each measured: a cell loses a good part of its error, here a tenth at least.
    assert np.mean(found["DE"][:, 0] ** 2) < 0.9 * np.mean(found["DE"][:, 2] ** 2)


def test_unpublished_cells_taken_for_empty_would_bias_the_sums(released):
    """The bias of sums that count unpublished cells as zero is detected."""

    def naive(cells: sh.Release, marginals: sh.WorkloadRelease) -> list[pl.DataFrame]:
        keys = DOMAIN.keys(np.arange(12)).rename({"key_0": "country", "key_1": "day"})
        full = keys.join(cells.frame, on=["country", "day"], how="left", maintain_order="left").fill_null(0.0)
        about = marginals.metadata
        strategy = strategy_named(about["strategy"], sh.workload.Workload.parse(about["workload"]))
        own = Measured(np.eye(12), full["noisy_count"].to_numpy(), np.eye(12) * STD**2)
        both = agree([own, measured(strategy, marginals.frame["noisy_answer"].to_numpy(), about["noise_std"])])
        return [
            frame.with_columns(consistent=pl.Series(values), consistent_error=pl.Series(errors))
            for frame, (values, errors) in zip((full, marginals.frame), both, strict=True)
        ]

    off, said, _ = np.moveaxis(errors_of(released, naive)["marginals"], 1, 0)
    assert_detected(mean_test(off[:, 1] / said[:, 1], 0, 1), "the sum of US")


@pytest.mark.parametrize(
    "workload", [Ranges(6), Union(Total(6), Ranges(6, [(0, 2), (1, 5)]))], ids=["implicit", "listed"]
)
def test_it_is_the_minimum_of_the_weighted_squares(workload):
    """The result solves the normal equations with the inverse of the full covariance."""
    rng = seeded(8)
    strategy = strategy_named("identity", workload)
    one = measured(strategy, rng.normal(size=6 if not workload.explicit else 3), 2.0)
    other = Measured(np.eye(6)[[0, 2, 3]], rng.normal(size=3), np.diag([1.0, 4.0, 9.0]))
    rows, values = np.concatenate([one.rows, other.rows]), np.concatenate([one.values, other.values])
    covariance = np.zeros((len(rows), len(rows)))
    covariance[: len(one.rows), : len(one.rows)] = one.covariance
    covariance[len(one.rows) :, len(one.rows) :] = other.covariance
    weights = np.linalg.inv(covariance)
    spread = np.linalg.pinv(rows.T @ weights @ rows)
    fitted = rows @ spread @ rows.T @ weights @ values
    made = agree([one, other])
    assert np.concatenate([values for values, _ in made]) == pytest.approx(fitted, abs=1e-9)
    errors = np.sqrt(np.diag(rows @ spread @ rows.T))
    assert np.concatenate([errors for _, errors in made]) == pytest.approx(errors, abs=1e-9)


def test_what_is_refused(released):
    """Releases of another series are refused; without cells the marginals stay."""
    cells, marginals = released
    other = marginals.metadata | {"declaration": marginals.metadata["declaration"] | {"name": "other"}}
    with pytest.raises(InputError):
        cells.consistent(sh.WorkloadRelease(marginals.frame, other))
    none = sh.Release(cells.frame.clear(), cells.metadata).consistent(marginals)
    assert none[0].height == 0
    # answers agree with one another up to the step that each was rounded to
    step, answers = marginals.metadata["grid"], marginals.frame["noisy_answer"].to_list()
    assert none[1]["consistent"].to_list() == pytest.approx(answers, abs=2 * step)
