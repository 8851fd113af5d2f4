"""Estimate how many people have each value, from RAPPOR reports or from releases of randomised response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sparsehist.dense.dense_release import DenseRelease
from sparsehist.errors import DataError, InputError, read_each
from sparsehist.local.rappor import Rappor
from sparsehist.noise.randomised_response import RandomisedResponse
from sparsehist.typing import AnyArray, ArrayLike, FloatArray, IntArray, NDArray

_BLOCK = 1 << 17
# Filters count as linearly dependent if a Cholesky pivot of their Gram matrix is below this share of the largest one.
_LEAST_PIVOT = 1e-6


class Decoded(NamedTuple):
    """Estimated number of people with each candidate value. For a DataFrame, use `pl.DataFrame(decoded._asdict())`.

    Attributes:
        candidate: The candidate values, in the given order.
        estimate: Estimated number of people; may be negative.
        std: Standard deviation of the estimate, in people.
    """

    candidate: AnyArray
    estimate: FloatArray
    std: FloatArray


def decode(reports: ArrayLike, setting: Rappor, candidates: Sequence[str | bytes]) -> Decoded:
    """Estimate how many people have each candidate value.

    The count of a bit is the estimated number of people whose Bloom filter sets this bit. If the Bloom filters of the
    candidates are linearly independent, weighted least squares turns the counts of all bits into estimates. These are
    unbiased and have known variances, provided that the value of each person is one of the candidates. If the filters
    are dependent, the estimate is the mean count of the bits that a candidate's filter sets, minus the mean count of
    all other bits. It is unbiased on average over random hash functions. Its standard deviation is estimated from
    the counts of these other bits, and includes the effect of values that set the same bits.

    Args:
        reports: Reports at one setting, 0 or 1; shape (n, bits), or (n, r, bits) for r reports of each person.
        setting: The setting with which the reports were drawn.
        candidates: Distinct values to look for.

    Raises:
        DataError: If the reports have another shape or other values than 0 and 1.
        InputError: If there are no candidates, or a candidate is given twice.
    """
    names = list(candidates)
    if not names or len(set(names)) < len(names):
        raise InputError("candidates must contain at least one value, and no value twice")
    given = np.asarray(reports)
    if given.ndim not in (2, 3) or given.shape[-1] != setting.bits or 0 in given.shape:
        raise DataError(f"reports need shape (people, bits) or (people, reports, bits), with {setting.bits} bits")
    people, each = given.shape[0], 1 if given.ndim == 2 else given.shape[1]
    counts = _bit_counts(given.reshape(-1, setting.bits), setting, each, people)
    each_filter = read_each("candidates", names, setting.filter, "a string or bytes")
    filters = np.stack(each_filter, axis=1).astype(np.float64)
    variances = setting.variances(np.clip(counts, 0, people), people, each)
    estimate, std = _least_squares(filters, counts, variances) or _compared(filters, counts)
    return Decoded(np.array(names, dtype=object), estimate, std)


def _bit_counts(rows: NDArray[np.generic], setting: Rappor, each: int, people: int) -> FloatArray:
    shown = np.zeros(setting.bits)
    for begin in range(0, len(rows), _BLOCK):
        block = rows[begin : begin + _BLOCK]
        if block.dtype != np.bool_ and not bool(((block == 0) | (block == 1)).all()):
            raise DataError("reports must contain only 0 and 1")
        shown += np.count_nonzero(block, axis=0)
    kept, beta, gamma = float(setting.keep), float(setting.one_if_set), float(setting.one_if_not)
    at_rest = gamma + (beta - gamma) * (1 - kept) / 2
    return (shown / each - people * at_rest) / (kept * (beta - gamma))


def _least_squares(
    filters: FloatArray, counts: FloatArray, variances: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """Return least-squares estimates and their standard deviations, or None if filters are linearly dependent."""
    if filters.shape[1] > filters.shape[0]:
        return None
    from scipy import linalg

    weights = 1 / np.maximum(variances, 1e-12)
    try:
        root = linalg.cholesky((filters.T * weights) @ filters, lower=True)
    except linalg.LinAlgError:
        return None
    if root.diagonal().min() < _LEAST_PIVOT * root.diagonal().max():
        return None
    covariance = linalg.cho_solve((root, True), np.eye(filters.shape[1]))
    return covariance @ (filters.T @ (counts * weights)), np.sqrt(covariance.diagonal())


def _compared(filters: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return estimates (the mean count of a candidate's bits minus that of all others) and standard deviations."""
    own = filters.sum(axis=0)
    others = len(counts) - own
    if bool((others < 2).any()):
        raise InputError("use longer filters: decoding needs at least two zero bits in the filter of each candidate")
    total, squares = counts.sum(), (counts**2).sum()
    inside, squares_inside = filters.T @ counts, filters.T @ counts**2
    mean_outside = (total - inside) / others
    spread = np.maximum((squares - squares_inside) / others - mean_outside**2, 0.0) * others / (others - 1)
    return inside / own - mean_outside, np.sqrt(spread * (1 / own + 1 / others))


class Frequencies(NamedTuple):
    """Estimated number of people with each of k answers. For a DataFrame, use `pl.DataFrame(table._asdict())`.

    Attributes:
        category: The possible answers, from 0 to k - 1; shape (k,).
        estimate: Estimated number of people. It is unbiased, so it may be negative.
        std: Standard deviation of the estimate, in people.
    """

    category: IntArray
    estimate: FloatArray
    std: FloatArray


def frequencies(release: DenseRelease) -> Frequencies:
    """Estimate how many people truly have each of k answers, and the standard deviations of these estimates.

    If an answer occurs c times among n published answers, its estimate is (c - n (1 - kappa) / k) / kappa, where
    kappa is `family.kept(level)`. Pass the release at the finest level: other levels contain no more information.

    Raises:
        InputError: If the release does not use `RandomisedResponse`, or was post-processed.

    Example:
        >>> import sparsehist as sh
        >>> answers = sh.MultipleRelease(sh.noise.RandomisedResponse(categories=3), [0, 2, 2, 1] * 1000)
        >>> frequencies(answers.release(1)).category.tolist()
        [0, 1, 2]

    Source: Warner 1965, for k answers.
    """
    family = release.family
    if not isinstance(family, RandomisedResponse):
        raise InputError(f"frequencies can be estimated from randomised response only, not {type(family).__name__}")
    if release.metadata["post_processing"]:
        raise InputError("frequencies need the original release, not a post-processed one")
    k, n, kept = family.categories, release.values.size, family.kept(release.level)
    shown = np.bincount(release.values, minlength=k)
    estimate = (shown - n * (1 - kept) / k) / kept
    same, other, counts = kept + (1 - kept) / k, (1 - kept) / k, np.clip(estimate, 0, n)
    variance = (counts * same * (1 - same) + (n - counts) * other * (1 - other)) / kept**2
    return Frequencies(np.arange(k), np.asarray(estimate, np.float64), np.sqrt(variance))
