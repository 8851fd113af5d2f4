"""What a family of noise has to say about itself.

A family D(level) is usable when D(coarse) is D(fine) convolved with a bridge (Andersson, Retschmeier, Nelson
and Pagh, Definition 1.1): then a release at any new level needs only the noise at its two neighbours, and all
releases together reveal no more than the finest. A larger level is finer: less noise, less privacy.

Papers: [ARNP Def. 1.1].
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np

from sparsehist.errors import DeclarationError, LevelError, LevelOrderError
from sparsehist.privacy.levels import Level, as_level, compared
from sparsehist.typing import AnyArray, ArrayLike, FloatArray, Generator

NoiseArray = AnyArray
"""float64 for real families, int64 for integer families."""
Norm = Literal["l1", "l2"]
"""In which norm a family measures by how much one unit changes a vector."""

Three: TypeAlias = tuple[Fraction, Fraction, Fraction]
"""Levels, coarse to fine."""


@runtime_checkable
class DenseFamily(Protocol):
    """What noise needs for a vector we can hold. Frozen: its fields are public parameters, calls may carry secrets.

    A family that adds its noise modulo a number says so by a property `modulus`; see `modulus_of`. What is said of
    arguments, results and errors here holds for every family; its own methods say what is particular to them.
    """

    @property
    def integer(self) -> bool:
        """Whether the noise is integer (int64) rather than real (float64)."""

    @property
    def monotone(self) -> bool:
        """Whether `carry` never reverses an order; lazy drawing of cells needs it."""

    def sample(self, size: int, level: Level, *, rng: Generator) -> NoiseArray:
        """Draw fresh noise.

        Args:
            size: Number of draws.
            level: Positive.
            rng: Randomness; from `sparsehist.entropy` outside tests.

        Returns:
            Noise, in counts; shape (size,).
        """

    def coarsen(self, fine: NoiseArray, fine_level: Level, level: Level, *, rng: Generator) -> NoiseArray:
        """Draw the noise of a coarser release, given that of a finer one; never looks at the truth.

        Args:
            fine: Noise at `fine_level`, in counts; shape (n,). Secret.
            fine_level: Level of `fine`.
            level: Level wanted; below `fine_level`.
            rng: Randomness.

        Returns:
            Noise, in counts; shape (n,).

        Raises:
            LevelOrderError: If `level` is not below `fine_level`.
        """

    def refine(self, coarse: NoiseArray, coarse_level: Level, level: Level, *, rng: Generator) -> NoiseArray:
        """Draw the noise of a finer release, given that of a coarser one.

        Args:
            coarse: Noise already spent at `coarse_level`, in counts; shape (n,). Secret.
            coarse_level: Level of `coarse`.
            level: Level wanted; above `coarse_level`.
            rng: Randomness.

        Returns:
            Noise (not noisy counts), in counts; shape (n,).

        Raises:
            LevelOrderError: If `level` is not above `coarse_level`.
        """

    def between(
        self,
        coarse: NoiseArray,
        coarse_level: Level,
        fine: NoiseArray,
        fine_level: Level,
        level: Level,
        *,
        rng: Generator,
    ) -> NoiseArray:
        """Draw the noise of a release between two given ones; never looks at the truth.

        Args:
            coarse: Noise at `coarse_level`, in counts; shape (n,). Secret.
            coarse_level: Level of `coarse`; below `level`.
            fine: Noise at `fine_level`, in counts; shape (n,). Secret.
            fine_level: Level of `fine`; above `level`.
            level: Level wanted.
            rng: Randomness.

        Returns:
            Noise, in counts; shape (n,).

        Raises:
            LevelOrderError: Unless coarse_level < level < fine_level.
        """

    def std(self, level: Level) -> float:
        """Standard deviation, in counts."""

    def statement(self, level: Level) -> str:
        """The privacy guarantee of one release at this level, in words."""


# What a family may say about itself besides; what it does not say, it cannot do.


def is_linear(family: Family) -> bool:
    """Whether linear images of its paths step as they do (Brownian motion), so that an image may be kept instead."""
    return bool(getattr(family, "linear", False))


def is_scaled(family: Family) -> bool:
    """Whether its law at any level is one law times the standard deviation there."""
    return bool(getattr(family, "scaled", False))


def sensitivity_norm(family: Family) -> Norm | None:
    """The norm of its sensitivity, for any vector; None for laws that are for histograms only."""
    norm: Norm | None = getattr(family, "norm", None)
    return norm


def currency(family: Family | type[Family]) -> str:
    """What its levels are, for adding up: "rho" (zCDP), "epsilon" (pure DP), or "none"."""
    return str(getattr(family, "currency", "none"))


@runtime_checkable
class Family(DenseFamily, Protocol):
    """What noise needs so that cells can be drawn lazily, too: tails, and steps that keep orders."""

    def carry(self, values: NoiseArray, start: Level, end: Level, *, rng: Generator) -> NoiseArray:
        """Coarsen or refine several rows with the same randomness in each column.

        Args:
            values: Noise at `start`, in counts; shape (rows, n). Secret.
            start: Level of `values`.
            end: Level wanted; coarser or finer.
            rng: Randomness.

        Returns:
            Noise at `end`; shape (rows, n). Of a monotone family values[i] >= values[j] implies the same of the
            result.
        """

    def tail(self, threshold: ArrayLike, level: Level) -> FloatArray:
        """P[Z > threshold]; `threshold` in counts, any shape."""

    def log_tail(self, threshold: ArrayLike, level: Level) -> FloatArray:
        """ln P[Z > threshold]; accurate in both tails."""

    def log_cdf(self, threshold: ArrayLike, level: Level) -> FloatArray:
        """ln P[Z <= threshold]; accurate in both tails."""

    def inverse_log_tail(self, log_probability: ArrayLike, level: Level) -> NoiseArray:
        """The value, in counts, whose log tail is `log_probability`, at most 0."""

    def sample_tail(self, size: int, threshold: ArrayLike, level: Level, *, rng: Generator) -> NoiseArray:
        """Draw Z given Z > threshold.

        Args:
            size: Number of draws.
            threshold: In counts; scalar or shape (size,).
            level: Positive.
            rng: Randomness.

        Returns:
            Noise, in counts, every entry above its threshold; shape (size,).
        """


class Bridged(Family):
    """What families share whose coarse noise is fine noise plus an independent bridge, drawn by each in its way."""

    integer: ClassVar[bool] = False
    monotone: ClassVar[bool] = True

    def coarsen(self, fine: NoiseArray, fine_level: Level, level: Level, *, rng: Generator) -> NoiseArray:
        target, known = coarser(level, fine_level)
        noise = self._bridge(len(fine), known, target, rng=rng)
        noise += fine
        return noise

    def refine(self, coarse: NoiseArray, coarse_level: Level, level: Level, *, rng: Generator) -> NoiseArray:
        target, known = finer(level, coarse_level)
        return self._refined(coarse, known, target, rng=rng)

    def between(
        self,
        coarse: NoiseArray,
        coarse_level: Level,
        fine: NoiseArray,
        fine_level: Level,
        level: Level,
        *,
        rng: Generator,
    ) -> NoiseArray:
        return self._inserted(coarse, fine, inside(coarse_level, level, fine_level), rng=rng)

    def carry(self, values: NoiseArray, start: Level, end: Level, *, rng: Generator) -> NoiseArray:
        known, target = as_level(start), as_level(end)
        if not (order := compared(target, known)):
            return values
        if order < 0:
            return values + self._bridge(values.shape[-1], known, target, rng=rng)
        return self._refined_in_order(values, known, target, rng=rng)

    def tail(self, threshold: ArrayLike, level: Level) -> FloatArray:
        return np.asarray(np.exp(self.log_tail(threshold, level)))

    def sample_tail(self, size: int, threshold: ArrayLike, level: Level, *, rng: Generator) -> NoiseArray:
        log_uniform = np.negative(rng.standard_exponential(size))
        values = self.inverse_log_tail(self.log_tail(threshold, level) + log_uniform, level)
        # Rounding may land on the threshold itself; the least value above it is within that rounding.
        least = just_above(np.asarray(threshold, np.float64), integer=self.integer)
        return np.asarray(np.maximum(values, least.astype(values.dtype, copy=False)))

    def _bridge(self, size: int, fine: Fraction, coarse: Fraction, *, rng: Generator) -> NoiseArray:
        """What coarse noise has on top of fine noise; shape (size,)."""
        raise NotImplementedError

    def _refined(self, coarse: NoiseArray, known: Fraction, target: Fraction, *, rng: Generator) -> NoiseArray:
        """Noise at a finer level, given that at a coarser one."""
        raise NotImplementedError

    def _inserted(self, coarse: NoiseArray, fine: NoiseArray, levels: Three, *, rng: Generator) -> NoiseArray:
        """Noise at the middle one of three ascending levels, given that at the others."""
        raise NotImplementedError

    def _refined_in_order(
        self, values: NoiseArray, known: Fraction, target: Fraction, *, rng: Generator
    ) -> NoiseArray:
        """Noise at a finer level in several rows, shape (rows, n), with the same randomness in each column."""
        return self._refined(values, known, target, rng=rng)


def just_above(margins: FloatArray, *, integer: bool) -> FloatArray:
    """The least noise above each margin."""
    return np.floor(margins) + 1 if integer else np.nextafter(margins, np.inf)


def checked_sensitivity(value: Level) -> None:
    """Refuse a sensitivity, exact, that is not positive and finite."""
    try:
        as_level(value)
    except LevelError:
        raise DeclarationError(f"sensitivity must be positive and finite, got {value!r}") from None


def modulus_of(family: DenseFamily) -> int | None:
    """The number modulo which noise is added; None where it is added to numbers of any size."""
    modulus = getattr(family, "modulus", None)
    return None if modulus is None else int(modulus)


def noise_mean(family: Family, level: Level) -> float:
    """Mean of the noise, in counts: 0 unless the family says otherwise by a method `mean`."""
    mean = getattr(family, "mean", None)
    return 0.0 if mean is None else float(mean(level))


# Which way a step goes: levels read exactly, and refused where they stand in the wrong order.


def coarser(level: Level, fine_level: Level) -> tuple[Fraction, Fraction]:
    """Read the level wanted and the finer one known; LevelOrderError unless it is below."""
    target, known = as_level(level), as_level(fine_level)
    if not compared(target, known) < 0:
        raise LevelOrderError(f"coarsen needs level < fine_level, got {level!r} and {fine_level!r}")
    return target, known


def finer(level: Level, coarse_level: Level) -> tuple[Fraction, Fraction]:
    """Read the level wanted and the coarser one known; LevelOrderError unless it is above."""
    target, known = as_level(level), as_level(coarse_level)
    if not compared(target, known) > 0:
        raise LevelOrderError(f"refine needs level > coarse_level, got {level!r} and {coarse_level!r}")
    return target, known


def inside(coarse_level: Level, level: Level, fine_level: Level) -> tuple[Fraction, Fraction, Fraction]:
    """Read the level wanted between its neighbours; LevelOrderError unless it lies between."""
    left, target, right = as_level(coarse_level), as_level(level), as_level(fine_level)
    if not compared(left, target) < 0 < compared(right, target):
        raise LevelOrderError(
            f"between needs coarse_level < level < fine_level, got {coarse_level!r}, {level!r} and {fine_level!r}"
        )
    return left, target, right
