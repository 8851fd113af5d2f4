"""Published releases of a dense vector, and post-processing steps for them.

A step is *lossless* if the values before it can be computed from the values after it. If all steps are lossless,
several processed releases together reveal only what the finest of them reveals. Other steps are *weakly lossless*:
several processed releases together may reveal more than the finest of them, but they cost no more than its level.

Papers: [ARNP Lemma 4.3, Thm 4.4, Def. 4.5, Cor. 4.6]; [KHP Prop. 3, Cor. 15].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sparsehist.errors import DeclarationError, shown
from sparsehist.noise.family import DenseFamily, NoiseArray

LOSSLESS = "any releases together reveal only what the finest of them reveals"
WEAKLY_LOSSLESS = "any releases together are a function of unprocessed ones and cost no more than the finest level"


@dataclass(frozen=True)
class PostProcessing:
    """A step of post-processing: its name in metadata, whether it is lossless, and the function applied to values."""

    name: str
    lossless: bool
    apply: Callable[[NoiseArray], NoiseArray]


@dataclass(frozen=True, eq=False, repr=False)
class DenseRelease:
    """A release of all entries of a vector at one level. All fields are public.

    Attributes:
        values: Noisy values after post-processing, read-only; shape (n,). They are int64, or float64 for real noise.
        family: The noise family, with its sensitivity.
        level: The exact level.
        metadata: level, noise, sensitivity, std, grid (step of published values), truth_step (step of true values),
            rounding_charge (increase of the sensitivity by rounding), guarantee, cap, size, post_processing (names of
            steps, in order), lossless (a text that says what releases reveal together) and lineage (the noise paths
            from the original vector to this release, each with the level of the release on it).
    """

    values: NoiseArray
    family: DenseFamily
    level: Fraction
    metadata: dict[str, Any]

    def __post_init__(self) -> None:
        self.values.flags.writeable = False

    def __repr__(self) -> str:
        shown = {key: self.metadata.get(key) for key in ("level", "noise", "std", "grid", "post_processing")}
        return f"DenseRelease(size={self.values.size}, {shown})"

    def process(self, step: PostProcessing) -> DenseRelease:
        """Apply a step of post-processing to this release. The metadata of the result records the step.

        Example:
            >>> from sparsehist.dense import MultipleRelease, clip_negative
            >>> from sparsehist.noise import Gaussian
            >>> plain = MultipleRelease(Gaussian(), [-100, 100]).release(1)
            >>> (plain.process(clip_negative()).values > 0).tolist()
            [False, True]
        """
        lossless = step.lossless and self.metadata["lossless"] == LOSSLESS
        changed = {
            "post_processing": (*self.metadata["post_processing"], step.name),
            "lossless": LOSSLESS if lossless else WEAKLY_LOSSLESS,
        }
        return DenseRelease(step.apply(self.values), self.family, self.level, {**self.metadata, **changed})


def threshold(at: float) -> PostProcessing:
    """Return a post-processing step that sets values at or below `at` to 0. It is not lossless."""
    if not math.isfinite(at):
        raise DeclarationError(f"the threshold must be finite, got {shown(at)}")
    return PostProcessing(f"threshold({at:g})", lossless=False, apply=lambda values: np.where(values > at, values, 0))


def clip_negative() -> PostProcessing:
    """Return a post-processing step that sets negative values to 0. It is not lossless."""
    return PostProcessing("clip_negative()", lossless=False, apply=lambda values: np.maximum(values, 0))


def scale(factor: float) -> PostProcessing:
    """Return a post-processing step that multiplies all values by a finite, nonzero factor."""
    if not (math.isfinite(factor) and factor != 0):
        raise DeclarationError(f"the factor must be finite and not 0, got {shown(factor)}")
    return PostProcessing(f"scale({factor:g})", lossless=True, apply=lambda values: factor * values)
