"""How many gave each answer, from a release of randomised response."""

from __future__ import annotations

import math

import numpy as np

from sparsehist.dense.dense_release import DenseRelease
from sparsehist.errors import InputError
from sparsehist.local.estimates import Frequencies
from sparsehist.noise.randomised_response import RandomisedResponse
from sparsehist.privacy.levels import Level
from sparsehist.typing import FloatArray


def frequencies(release: DenseRelease) -> Frequencies:
    """Estimate how many people gave each answer.

    With kappa the probability that an answer is kept for sure, c the number of times a category shows and n the
    number of answers, (c - n (1 - kappa) / k) / kappa is unbiased. Of several levels only the finest counts: the
    others add nothing to it.

    Args:
        release: Of `RandomisedResponse`, unprocessed.

    Returns:
        Categories, estimates and their standard deviations, at the estimates.

    Raises:
        InputError: If it is a release of other noise, or post-processed.

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
    """Standard deviation of the estimate of a category that `count` of `people` gave; public parameters only.

    Example:
        >>> round(frequency_std(RandomisedResponse(categories=5), 1, 10_000, 2_000), 3)
        151.194
    """
    return math.sqrt(float(_variances(np.array([count]), people, family.categories, family.kept(level))[0]))


def _variances(counts: FloatArray, people: int, k: int, kept: float) -> FloatArray:
    same, other = kept + (1 - kept) / k, (1 - kept) / k
    return np.asarray((counts * same * (1 - same) + (people - counts) * other * (1 - other)) / kept**2)
