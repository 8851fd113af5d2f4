"""Estimates of how many people have each value: from RAPPOR reports, and from releases of randomised response."""

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
# Filters contain 0 and 1, so only pivots of dependent columns (rounding errors) are below this.
_LEAST_PIVOT = 1e-6


class Decoded(NamedTuple):
    """Estimated number of people by candidate, as columns: `pl.DataFrame(decoded._asdict())` is a frame.

    Attributes:
        candidate: As given.
        estimate: In people; may be negative.
        std: Standard deviation of the estimate, in people.
    """

    candidate: AnyArray
    estimate: FloatArray
    std: FloatArray


def decode(reports: ArrayLike, setting: Rappor, candidates: Sequence[str | bytes]) -> Decoded:
    """Estimate how many people have each candidate value.

    If the filters of the candidates are linearly independent, weighted least squares gives unbiased estimates with
    known variances, provided that everybody has one of the candidates. Otherwise the bits of a candidate are compared
    with all other bits: unbiased over the choice of the hash functions, with a standard deviation estimated from the
    other bits, which includes collisions.

    Args:
        reports: At one setting; shape (n, bits), or (n, r, bits) for r reports of each person; 0 or 1.
        setting: The setting they were drawn with.
        candidates: Distinct values to look for.

    Raises:
        DataError: If the reports have another shape or other values than 0 and 1.
        InputError: If there are no candidates, or one is given twice.
    """
    names = list(candidates)
    if not names or len(set(names)) < len(names):
        raise InputError("candidates must be different values, at least one")
    given = np.asarray(reports)
    if given.ndim not in (2, 3) or given.shape[-1] != setting.bits or 0 in given.shape:
        raise DataError(f"reports have shape (people, bits) or (people, reports, bits), with {setting.bits} bits")
    people, each = given.shape[0], 1 if given.ndim == 2 else given.shape[1]
    counts = _bit_counts(given.reshape(-1, setting.bits), setting, each, people)
    each_filter = read_each("candidates", names, setting.filter, "text or bytes")
    filters = np.stack(each_filter, axis=1).astype(np.float64)
    variances = setting.variances(np.clip(counts, 0, people), people, each)
    estimate, std = _least_squares(filters, counts, variances) or _compared(filters, counts)
    return Decoded(np.array(names, dtype=object), estimate, std)


def _bit_counts(rows: NDArray[np.generic], setting: Rappor, each: int, people: int) -> FloatArray:
    """Return unbiased estimates of how many people have each bit set; shape (bits,)."""
    shown = np.zeros(setting.bits)
    for begin in range(0, len(rows), _BLOCK):
        block = rows[begin : begin + _BLOCK]
        if block.dtype != np.bool_ and not bool(((block == 0) | (block == 1)).all()):
            raise DataError("reports may hold 0 and 1 only")
        shown += np.count_nonzero(block, axis=0)
    kept, beta, gamma = float(setting.keep), float(setting.one_if_set), float(setting.one_if_not)
    at_rest = gamma + (beta - gamma) * (1 - kept) / 2
    return (shown / each - people * at_rest) / (kept * (beta - gamma))


def _least_squares(
    filters: FloatArray, counts: FloatArray, variances: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """Solve weighted least squares; return None if the filters are linearly dependent."""
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
    """Return the mean count of a candidate's bits minus that of all other bits, and its standard deviation."""
    own = filters.sum(axis=0)
    others = len(counts) - own
    if bool((others < 2).any()):
        raise InputError("a candidate sets all bits but one: decoding needs longer filters")
    total, squares = counts.sum(), (counts**2).sum()
    inside, squares_inside = filters.T @ counts, filters.T @ counts**2
    mean_outside = (total - inside) / others
    spread = np.maximum((squares - squares_inside) / others - mean_outside**2, 0.0) * others / (others - 1)
    return inside / own - mean_outside, np.sqrt(spread * (1 / own + 1 / others))


class Frequencies(NamedTuple):
    """Estimated number of people by answer, as columns of shape (k,): `pl.DataFrame(table._asdict())` is a frame.

    Attributes:
        category: 0 … k-1.
        estimate: In people; unbiased, so it may be negative.
        std: Standard deviation of the estimate, in people.
    """

    category: IntArray
    estimate: FloatArray
    std: FloatArray


def frequencies(release: DenseRelease) -> Frequencies:
    """Estimate how many people gave each answer; standard deviations take the estimates for the true numbers.

    With kappa = `family.kept(level)`, c the number of entries that show a category and n the number of answers,
    (c - n (1 - kappa) / k) / kappa is unbiased. Use the finest of several levels; the others add nothing.

    Raises:
        InputError: If the release is not one of `RandomisedResponse`, or was post-processed.

    Example:
        >>> import sparsehist as sh
        >>> answers = sh.MultipleRelease(sh.noise.RandomisedResponse(categories=3), [0, 2, 2, 1] * 1000)
        >>> frequencies(answers.release(1)).category.tolist()
        [0, 1, 2]

    Source: Warner 1965, for k answers.
    """
    family = release.family
    if not isinstance(family, RandomisedResponse):
        raise InputError(f"frequencies are estimated from randomised response, this is {type(family).__name__} noise")
    if release.metadata["post_processing"]:
        raise InputError("a post-processed release has no frequencies; take the plain one")
    k, n, kept = family.categories, release.values.size, family.kept(release.level)
    shown = np.bincount(release.values, minlength=k)
    estimate = (shown - n * (1 - kept) / k) / kept
    same, other, counts = kept + (1 - kept) / k, (1 - kept) / k, np.clip(estimate, 0, n)
    variance = (counts * same * (1 - same) + (n - counts) * other * (1 - other)) / kept**2
    return Frequencies(np.arange(k), np.asarray(estimate, np.float64), np.sqrt(variance))
