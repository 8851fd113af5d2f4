"""Estimates of how many people gave each answer, from a release of randomised response."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sparsehist.dense.dense_release import DenseRelease
from sparsehist.errors import InputError
from sparsehist.noise.randomised_response import RandomisedResponse
from sparsehist.privacy.levels import Level
from sparsehist.typing import FloatArray, IntArray


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
    """Estimate how many people gave each answer, with standard deviations as if the estimates were the true numbers.

    With kappa = `family.kept(level)`, c the number of entries that show a category and n the number of answers,
    (c - n (1 - kappa) / k) / kappa is unbiased. Of several levels use the finest; the others add nothing to it.

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
    variance = _variances(np.clip(estimate, 0, n), n, k, kept)
    return Frequencies(np.arange(k), np.asarray(estimate, np.float64), np.sqrt(variance))


def frequency_std(family: RandomisedResponse, level: Level, people: int, count: float) -> float:
    """Compute the standard deviation of the estimate of a category that `count` of `people` gave.

    Example:
        >>> round(frequency_std(RandomisedResponse(categories=5), 1, 10_000, 2_000), 3)
        151.194
    """
    return math.sqrt(float(_variances(np.array([count]), people, family.categories, family.kept(level))[0]))


def _variances(counts: FloatArray, people: int, k: int, kept: float) -> FloatArray:
    same, other = kept + (1 - kept) / k, (1 - kept) / k
    return np.asarray((counts * same * (1 - same) + (people - counts) * other * (1 - other)) / kept**2)
