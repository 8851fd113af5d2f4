"""Which way a step goes: levels read exactly, and refused where they stand in the wrong order."""

from __future__ import annotations

from fractions import Fraction

from sparsehist.errors import LevelOrderError
from sparsehist.privacy.levels import Level, as_level


def coarser(level: Level, fine_level: Level) -> tuple[Fraction, Fraction]:
    """Read the level wanted and the finer one known; LevelOrderError unless it is below."""
    target, known = as_level(level), as_level(fine_level)
    if not target < known:
        raise LevelOrderError(f"coarsen needs level < fine_level, got {level!r} and {fine_level!r}")
    return target, known


def finer(level: Level, coarse_level: Level) -> tuple[Fraction, Fraction]:
    """Read the level wanted and the coarser one known; LevelOrderError unless it is above."""
    target, known = as_level(level), as_level(coarse_level)
    if not target > known:
        raise LevelOrderError(f"refine needs level > coarse_level, got {level!r} and {coarse_level!r}")
    return target, known


def inside(coarse_level: Level, level: Level, fine_level: Level) -> tuple[Fraction, Fraction, Fraction]:
    """Read the level wanted between its neighbours; LevelOrderError unless it lies between."""
    left, target, right = as_level(coarse_level), as_level(level), as_level(fine_level)
    if not left < target < right:
        raise LevelOrderError(
            f"between needs coarse_level < level < fine_level, got {coarse_level!r}, {level!r} and {fine_level!r}"
        )
    return left, target, right
