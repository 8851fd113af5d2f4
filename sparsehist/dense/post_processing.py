"""Post-processing of dense releases: fixed functions of the values, the same at every level.

A step is *lossless* if it is invertible on the grid of the values: processed releases together then reveal what the
finest processed one reveals. Otherwise it is *weakly lossless*: processed releases cost no more than the finest
level, but together they may reveal more than the finest processed release alone.

Papers: [ARNP Lemma 4.3, Thm 4.4, Def. 4.5, Cor. 4.6]; [KHP Prop. 3, Cor. 15].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sparsehist.dense.rounding import as_power_of_two, round_into
from sparsehist.errors import DeclarationError, shown
from sparsehist.noise.family import NoiseArray


@dataclass(frozen=True)
class PostProcessing:
    """One step.

    Attributes:
        name: As recorded in the metadata: "threshold(10)".
        lossless: Whether it is invertible on the grid of the values.
        apply: Function from values to new values, both of shape (n,); it does not change its argument.
    """

    name: str
    lossless: bool
    apply: Callable[[NoiseArray], NoiseArray]


def threshold(at: float) -> PostProcessing:
    """Values at or below the threshold become 0; weakly lossless.

    Example:
        >>> threshold(2).apply(np.array([2, 3])).tolist()
        [0, 3]
    """
    if not math.isfinite(at):
        raise DeclarationError(f"the threshold must be finite, got {shown(at)}")
    return PostProcessing(f"threshold({at:g})", lossless=False, apply=lambda values: np.where(values > at, values, 0))


def round_to(step: float) -> PostProcessing:
    """Round to multiples of a power of two, halves down; weakly lossless.

    Example:
        >>> round_to(0.5).apply(np.array([0.25, 0.3])).tolist()
        [0.0, 0.5]
    """
    exact = as_power_of_two(step, "the step")

    def rounded(values: NoiseArray) -> NoiseArray:
        return round_into(np.asarray(values, np.float64), exact, np.empty(values.shape)) + 0.0

    return PostProcessing(f"round_to({step:g})", lossless=False, apply=rounded)


def clip_negative() -> PostProcessing:
    """Values below 0 become 0; weakly lossless."""
    return PostProcessing("clip_negative()", lossless=False, apply=lambda values: np.maximum(values, 0))


def scale(factor: float) -> PostProcessing:
    """Multiply by a factor; lossless, as values have far fewer digits than a double.

    Raises:
        DeclarationError: If the factor is 0 or not finite.
    """
    if not (math.isfinite(factor) and factor != 0):
        raise DeclarationError(f"the factor must be finite and not 0, got {shown(factor)}")
    return PostProcessing(f"scale({factor:g})", lossless=True, apply=lambda values: factor * values)
