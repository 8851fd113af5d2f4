"""One published release of a dense vector."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sparsehist.dense.post_processing import PostProcessing
from sparsehist.noise.family import DenseFamily, NoiseArray

LOSSLESS = "any releases together reveal only what the finest of them reveals"
WEAKLY_LOSSLESS = "any releases together are a function of unprocessed ones and cost no more than the finest level"


@dataclass(frozen=True, eq=False, repr=False)
class DenseRelease:
    """The values of every entry at one level; all of it is public.

    Attributes:
        values: Truth plus noise, shape (n,), read-only: float64 on the grid of the metadata for real families, int64
            for integer families.
        family: The noise, with the sensitivity that was used.
        level: Exact.
        metadata: level, noise, sensitivity, std, grid, truth_step, rounding_charge, guarantee, cap, size,
            post_processing (names, in order), lossless (what several releases reveal together) and lineage (the
            noise paths it descends from, each with the level at which it left that path).
    """

    values: NoiseArray
    family: DenseFamily
    level: Fraction
    metadata: dict[str, Any]

    def __post_init__(self) -> None:
        self.values.flags.writeable = False

    def __repr__(self) -> str:
        """Public parameters, without values."""
        shown = {key: self.metadata.get(key) for key in ("level", "noise", "std", "grid", "post_processing")}
        return f"DenseRelease(size={self.values.size}, {shown})"

    def __len__(self) -> int:
        """Number of entries."""
        return int(self.values.size)

    def process(self, step: PostProcessing) -> DenseRelease:
        """Apply a step of post-processing and record it in the metadata.

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
