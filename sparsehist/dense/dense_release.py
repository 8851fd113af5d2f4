"""One published release of a dense vector."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

from sparsehist.dense.post_processing import PostProcessing
from sparsehist.noise.family import DenseFamily, NoiseArray
from sparsehist.privacy.levels import level_text

LOSSLESS = "together with any coarser releases: what the finest release says and nothing else"
WEAKLY_LOSSLESS = (
    "together with any other releases: a function of the unprocessed ones, so at the finest level's cost"
)


@dataclass(frozen=True, eq=False, repr=False)
class DenseRelease:
    """Values of every entry at one level; everything in it is public.

    Attributes:
        values: Truth plus noise, shape (n,), read-only: float64 on the grid of the metadata for real families, int64
            for integer families.
        family: The noise, with the sensitivity that was used.
        level: Exact.
        metadata: level, noise, sensitivity, std, grid, truth_step, rounding_charge, guarantee, cap, size,
            post_processing (names, in order), lossless (what several releases say together) and lineage (the noise
            paths that it descends from, each with the level at which it left that path).
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
            >>> import numpy as np
            >>> from sparsehist.dense import clip_negative
            >>> from sparsehist.noise import Gaussian
            >>> plain = dense_release(np.array([-1.0, 2.0]), Gaussian(), Fraction(1), grid=1.0, truth_step=1.0)
            >>> plain.process(clip_negative()).values.tolist()
            [0.0, 2.0]
        """
        lossless = step.lossless and self.metadata["lossless"] == LOSSLESS
        changed = {
            "post_processing": (*self.metadata["post_processing"], step.name),
            "lossless": LOSSLESS if lossless else WEAKLY_LOSSLESS,
        }
        return DenseRelease(step.apply(self.values), self.family, self.level, {**self.metadata, **changed})


_Release = TypeVar("_Release", bound=DenseRelease)


def dense_release(
    values: NoiseArray,
    family: DenseFamily,
    level: Fraction,
    *,
    grid: float,
    truth_step: float,
    rounding_charge: float = 0.0,
    cap: Fraction | None = None,
    lineage: tuple[tuple[str, str], ...] = (),
    kind: type[_Release] = DenseRelease,  # type: ignore[assignment]
) -> _Release:
    """Make a release from its values and their public parameters; the values become read-only."""
    metadata = {
        "level": level_text(level),
        "noise": type(family).__name__,
        "sensitivity": getattr(family, "sensitivity", None),
        "std": family.std(level),
        "grid": grid,
        "truth_step": truth_step,
        "rounding_charge": rounding_charge,
        "guarantee": family.statement(level),
        "cap": None if cap is None else level_text(cap),
        "size": int(values.size),
        "post_processing": (),
        "lossless": LOSSLESS,
        "lineage": lineage,
    }
    return kind(values, family, level, metadata)
