"""Statistical tests that share one significance level over the whole test suite.

`SUITE_LEVEL` is the probability that a complete run with fresh seeds raises a false alarm although nothing is wrong.
This level is divided evenly over `P_VALUES` p-values. Every p-value goes to `assert_consistent`, which counts it;
`conftest.py` adds up the counts of all workers and fails the run if there were more than declared. Negative controls
go to `assert_detected` and must be rejected at the same share of the level.

P-values must be accurate in the far tail, so the G statistic replaces Pearson's chi-square: for a Poisson(10) cell
with 30 observations, the G test gives 4e-7 and the chi-square test 3e-10, where the exact p-value is 5e-7.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special, stats

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

SUITE_LEVEL = 1e-6
P_VALUES = 1000
SHARE = SUITE_LEVEL / P_VALUES
MINIMUM_EXPECTED = 10.0

_asked = 0


def asked() -> int:
    """Return the number of p-values that this process has checked so far."""
    return _asked


def assert_consistent(p_value: float, what: str = "the sample") -> None:
    """Fail if a p-value is NaN or below its share of the suite's error probability; the message contains `what`."""
    global _asked  # noqa: PLW0603 - the count belongs to the process, as the level belongs to the suite
    _asked += 1
    if not p_value >= SHARE:
        raise AssertionError(f"{what} does not follow the expected distribution: p-value {p_value:.3g} < {SHARE:.3g}")


def assert_detected(p_value: float, what: str = "the wrong distribution") -> None:
    """Fail unless the p-value of a negative control is so small that `assert_consistent` would fail."""
    if not p_value < SHARE:
        raise AssertionError(f"{what} was not detected by the statistical test: p-value {p_value:.3g} >= {SHARE:.3g}")


def g_test(observed: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the p-value of a G-test of observed counts, shape (m,), against cell probabilities that sum to 1.

    Neighbouring cells are pooled until each has an expected count of at least `MINIMUM_EXPECTED`. The p-value is 0 if
    an outcome of probability 0 was observed. Williams' correction is applied.
    """
    counts, expected = _pooled_to_expectation(observed, probabilities)
    if expected.size == 0:
        return 0.0
    statistic = 2.0 * float(special.xlogy(counts, counts / expected).sum())
    freedom = expected.size - 1
    williams = 1.0 + float(np.sum(expected.sum() / expected) - 1.0) / (6.0 * expected.sum() * freedom)
    return float(special.chdtrc(freedom, max(statistic, 0.0) / williams))


def ks_test(sample: ArrayLike, cdf: Callable[[NDArray[np.float64]], ArrayLike]) -> float:
    """Return the two-sided Kolmogorov-Smirnov p-value of a sample, given a continuous distribution function."""
    ordered = np.sort(np.asarray(sample, dtype=np.float64))
    values = np.asarray(cdf(ordered), dtype=np.float64)
    ranks = np.arange(ordered.size + 1) / ordered.size
    distance = max(float(np.max(ranks[1:] - values)), float(np.max(values - ranks[:-1])))
    return float(stats.kstwo.sf(distance, ordered.size))


def binomial_test(successes: int, trials: int, probability: float) -> float:
    """Return the two-sided p-value of a number of successes: twice the smaller tail of the binomial distribution.

    Above 2**53 trials, the Poisson distribution replaces the binomial distribution.
    """
    if trials > 2**53:
        return poisson_test(successes, float(trials) * probability)
    at_most = special.betaincc(successes + 1, trials - successes, probability) if successes < trials else 1.0
    at_least = special.betainc(successes, trials - successes + 1, probability) if successes > 0 else 1.0
    return min(1.0, 2.0 * float(min(at_most, at_least)))


def poisson_test(events: int, mean: float) -> float:
    """Return the two-sided p-value of a number of events: twice the smaller tail of the Poisson distribution."""
    at_most = special.gammaincc(events + 1, mean)
    at_least = special.gammainc(events, mean) if events > 0 else 1.0
    return min(1.0, 2.0 * float(min(at_most, at_least)))


def mean_test(sample: ArrayLike, mean: float, variance: float) -> float:
    """Return the p-value of the mean of a sample whose variance is known, by the normal approximation."""
    values = np.asarray(sample, dtype=np.float64)
    deviation = float(values.mean() - mean) * math.sqrt(values.size / variance)
    return float(2.0 * special.ndtr(-abs(deviation)))


def uniform_cube_test(uniforms: ArrayLike, cells_per_axis: int = 4) -> float:
    """Return a p-value for the hypothesis that vectors, given in shape (n, k), are uniform on the unit cube.

    A G-test compares the number of vectors in each of the cells_per_axis**k cells of a grid with the expected
    number. Vectors with a different known distribution can be tested after the Rosenblatt transform, which makes
    them uniform.
    """
    values = np.asarray(uniforms, dtype=np.float64)
    digits = np.minimum((values * cells_per_axis).astype(np.int64), cells_per_axis - 1)
    cells = cells_per_axis ** values.shape[1]
    index = digits @ (cells_per_axis ** np.arange(values.shape[1]))
    return g_test(np.bincount(index, minlength=cells), np.full(cells, 1.0 / cells))


def gaussian_vector_test(sample: ArrayLike, covariance: ArrayLike) -> float:
    """Return a p-value for the hypothesis that vectors, shape (n, k), are normal with mean 0 and this covariance.

    The vectors are whitened. A G-test compares them with independent normal numbers, and a Kolmogorov-Smirnov test
    compares their squared lengths with the chi-square distribution. The result is twice the smaller p-value.
    """
    values = np.asarray(sample, dtype=np.float64)
    white = np.linalg.solve(np.linalg.cholesky(np.asarray(covariance, dtype=np.float64)), values.T).T
    cells_per_axis = max(2, min(8, int((len(values) / 50) ** (1 / values.shape[1]))))
    spread = uniform_cube_test(special.ndtr(white), cells_per_axis)
    length = ks_test(np.sum(white**2, axis=1), lambda squared: special.chdtr(values.shape[1], squared))
    return min(1.0, 2.0 * min(spread, length))


def two_sample_counts(first: ArrayLike, second: ArrayLike) -> float:
    """Return the p-value of a G-test for the hypothesis that two lists of cell counts have the same distribution."""
    table = np.stack([np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)])
    totals = table.sum(axis=0)
    fewer = float(min(table.sum(axis=1)) / table.sum())
    pooled = np.add.reduceat(table, _starts(totals * fewer), axis=1)
    if pooled.shape[1] < 2:
        raise ValueError("too few observations: pooling neighbouring cells left a single cell")
    expected = pooled.sum(axis=1, keepdims=True) * pooled.sum(axis=0) / pooled.sum()
    statistic = 2.0 * float(special.xlogy(pooled, pooled / expected).sum())
    rows, columns = pooled.sum(axis=1), pooled.sum(axis=0)
    inflation = float(np.sum(pooled.sum() / rows) - 1.0) * float(np.sum(pooled.sum() / columns) - 1.0)
    williams = 1.0 + inflation / (6.0 * pooled.sum() * (pooled.shape[1] - 1))
    return float(special.chdtrc(pooled.shape[1] - 1, max(statistic, 0.0) / williams))


def two_sample_outcomes(first: ArrayLike, second: ArrayLike) -> float:
    """Return a p-value for the hypothesis that two samples of integer vectors have the same distribution.

    The samples have shapes (n, k) and (m, k). Outcomes are sorted by their frequency in both samples together, so
    that rare outcomes are pooled with each other.
    """
    one, two = _as_rows(first), _as_rows(second)
    index = _numbered(np.concatenate([one, two]))
    cells = int(index.max()) + 1
    table = [np.bincount(part, minlength=cells) for part in (index[: len(one)], index[len(one) :])]
    order = np.argsort(-(table[0] + table[1]), kind="stable")
    return two_sample_counts(table[0][order], table[1][order])


def two_sample_vectors(first: ArrayLike, second: ArrayLike, *, directions: int = 16) -> float:
    """Return a p-value for the hypothesis that two samples of real vectors have the same distribution.

    The samples have shapes (n, k) and (m, k). A joint distribution is determined by its projections (Cramér and
    Wold), so a two-sample Kolmogorov-Smirnov test compares the samples along each coordinate and, after whitening,
    along some fixed random directions. `two_sample_outcomes` compares them over the cells of a grid. The result is
    the smallest p-value times the number of tests.
    """
    one, two = _as_rows(first), _as_rows(second)
    both = np.concatenate([one, two]).astype(np.float64)
    width = both.shape[1]
    centred = both - both.mean(axis=0)
    # A singular value near 0 belongs to a coordinate that is a linear function of other coordinates.
    _, scales, axes = np.linalg.svd(centred / math.sqrt(len(both)), full_matrices=False)
    white = (centred @ axes.T) / np.where(scales > 1e-12 * scales[0], scales, 1.0)
    looks = [both]
    if width > 1:
        aims = np.random.default_rng(0).standard_normal((width, directions))
        looks.append(white @ (aims / np.linalg.norm(aims, axis=0)))
    p_values = [_two_sample_ks(look[: len(one)], look[len(one) :]) for look in np.concatenate(looks, axis=1).T]
    cells_per_axis = max(2, min(8, int((len(both) / 100) ** (1 / width))))
    edges = np.quantile(white, np.arange(1, cells_per_axis) / cells_per_axis, axis=0)
    digits = np.stack([np.searchsorted(edges[:, j], white[:, j], side="right") for j in range(width)], axis=1)
    p_values.append(two_sample_outcomes(digits[: len(one)], digits[len(one) :]))
    return min(1.0, len(p_values) * min(p_values))


def _as_rows(sample: ArrayLike) -> NDArray[np.generic]:
    rows = np.asarray(sample)
    return rows[:, np.newaxis] if rows.ndim == 1 else rows


def _numbered(rows: NDArray[np.generic]) -> NDArray[np.int64]:
    """Return the index of each row among the sorted distinct rows; this is faster than np.unique with axis=0."""
    index = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        whole = np.unique(column, return_inverse=True)[1] if column.dtype.kind == "f" else column.astype(np.int64)
        digits = whole - whole.min()
        if (int(index.max()) + 1) * (int(digits.max()) + 1) > 2**62:
            index, digits = (np.unique(each, return_inverse=True)[1] for each in (index, digits))
        index = index * (int(digits.max()) + 1) + digits
    return np.unique(index, return_inverse=True)[1]


def _two_sample_ks(first: NDArray[np.generic], second: NDArray[np.generic]) -> float:
    """Return the asymptotic p-value of a two-sample Kolmogorov-Smirnov test; it is too large if values are tied."""
    first, second = np.sort(first), np.sort(second)
    both = np.concatenate([first, second])
    gaps = np.searchsorted(first, both, side="right") / first.size
    gaps -= np.searchsorted(second, both, side="right") / second.size
    harmonic = first.size * second.size / (first.size + second.size)
    return float(special.kolmogorov(math.sqrt(harmonic) * float(np.max(np.abs(gaps)))))


def _starts(expected: NDArray[np.float64]) -> NDArray[np.int64]:
    """Pool neighbouring cells to expected counts of at least `MINIMUM_EXPECTED`; return each pool's first index."""
    cumulated = np.cumsum(expected)
    starts, reached = [0], 0.0
    while True:
        end = int(np.searchsorted(cumulated, reached + MINIMUM_EXPECTED)) + 1
        if end >= expected.size or cumulated[-1] - cumulated[end - 1] < MINIMUM_EXPECTED:
            return np.asarray(starts, dtype=np.int64)
        starts.append(end)
        reached = float(cumulated[end - 1])


def _pooled_to_expectation(
    observed: ArrayLike, probabilities: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return observed and expected counts of pooled cells, both empty if an outcome of probability 0 was observed."""
    counts = np.asarray(observed, dtype=np.float64)
    chances = np.asarray(probabilities, dtype=np.float64)
    if counts.shape != chances.shape or counts.ndim != 1:
        raise ValueError(f"counts and probabilities must have one shape (m,), got {counts.shape} and {chances.shape}")
    if not math.isclose(math.fsum(chances), 1.0, abs_tol=1e-9):
        raise ValueError(f"the probabilities must include all tails and add up to 1, got {math.fsum(chances)!r}")
    if np.any((chances <= 0.0) & (counts > 0.0)):
        return np.empty(0), np.empty(0)
    expected = chances * counts.sum()
    starts = _starts(expected)
    if starts.size < 2:
        raise ValueError("too few observations: pooling neighbouring cells left a single cell")
    return np.add.reduceat(counts, starts), np.add.reduceat(expected, starts)
