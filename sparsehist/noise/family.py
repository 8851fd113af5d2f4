"""Interfaces of noise families: `DenseFamily` for dense vectors, and `Family` for sparse histograms as well.

Noise at a coarse level is distributed as noise at a fine level plus an independent increment (the convolution
preorder). So noise at a new level depends only on noise at the two neighbouring levels, and all releases together
reveal no more than the finest one. A larger level is finer: it has less noise and less privacy. All fields of a
family are public parameters, but arguments of its methods may be secret.

Papers: [ARNP Def. 1.1, Lemma F.2, Claim F.3, Lemma F.4, Lemma F.5, Claim F.7].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from sparsehist.errors import DeclarationError, LevelError, LevelOrderError, shown
from sparsehist.privacy.levels import Level, as_level, compared, quotient
from sparsehist.typing import AnyArray, ArrayLike, FloatArray, Generator, float_entries, noise_array, whole_number

NoiseArray = AnyArray  # an array of noise: float64 for real-valued families, int64 for integer families
Norm = Literal["l1", "l2"]  # the norm that measures how much one unit can change a vector
Three: TypeAlias = tuple[Fraction, Fraction, Fraction]  # three levels, from coarse to fine


class DenseFamily(ABC):
    """A noise family for dense vectors.

    Attributes:
        integer: Whether noise is int64; otherwise it is float64.
        monotone: Whether `Family.carry` preserves the order of values. Sparse histograms need this.
        linear: Whether sums of multiples of independent noise paths are paths of the same family (true for Gaussian).
        scaled: Whether the distributions at all levels differ only in scale.
        norm: Norm of the sensitivity, "l1" or "l2"; None for families that cannot be used for workloads.
        currency: Currency in which levels are composed: "rho" (zCDP), "epsilon" (pure DP), or "none".
    """

    integer: ClassVar[bool] = False
    monotone: ClassVar[bool] = False
    linear: ClassVar[bool] = False
    scaled: ClassVar[bool] = False
    norm: ClassVar[Norm | None] = None
    currency: ClassVar[str] = "none"

    @property
    def modulus(self) -> int | None:
        """The modulus k if noise is added modulo k, otherwise None."""
        return None

    def mean(self, level: Level) -> float:  # noqa: ARG002 - of most families it is 0 at all levels
        """Return the mean of the noise, in counts."""
        return 0.0

    @abstractmethod
    def std(self, level: Level) -> float:
        """Return the standard deviation of the noise, in counts."""

    @abstractmethod
    def statement(self, level: Level) -> str:
        """Return the privacy guarantee of one release at this level, in words."""

    def sample(self, size: int, level: Level, *, rng: Generator) -> NoiseArray:
        """Draw fresh noise, in counts; shape (size,)."""
        return self._sampled(whole_number("size", size), level, rng=rng)

    def coarsen(self, fine: NoiseArray, fine_level: Level, level: Level, *, rng: Generator) -> NoiseArray:
        """Draw noise at a coarser `level`, given the noise at `fine_level`; for details see `between`."""
        target, known = as_level(level), as_level(fine_level)
        if not compared(target, known) < 0:
            raise LevelOrderError(f"coarsen needs level < fine_level, got {shown(level)} and {shown(fine_level)}")
        return self._coarsened(noise_array("fine", fine), known, target, rng=rng)

    def refine(self, coarse: NoiseArray, coarse_level: Level, level: Level, *, rng: Generator) -> NoiseArray:
        """Draw noise at a finer `level`, given the noise at `coarse_level`; for details see `between`."""
        target, known = as_level(level), as_level(coarse_level)
        if not compared(target, known) > 0:
            raise LevelOrderError(f"refine needs level > coarse_level, got {shown(level)} and {shown(coarse_level)}")
        return self._refined(noise_array("coarse", coarse), known, target, rng=rng)

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
        """Draw noise at a level between two others, given the noise at both; true counts are not needed.

        Args:
            coarse: Existing noise at `coarse_level`, in counts; shape (n,). Secret.
            coarse_level: Level of `coarse`; below `level`.
            fine: Existing noise at `fine_level`, in counts; shape (n,). Secret.
            fine_level: Level of `fine`; above `level`.
            level: Level of the result.
            rng: Randomness; from `sparsehist.entropy` outside tests.

        Returns:
            Noise (not noisy counts), in counts; shape (n,).

        Raises:
            LevelOrderError: Unless coarse_level < level < fine_level.
        """
        left, target, right = as_level(coarse_level), as_level(level), as_level(fine_level)
        if not compared(left, target) < 0 < compared(right, target):
            given = f"{shown(coarse_level)}, {shown(level)} and {shown(fine_level)}"
            raise LevelOrderError(f"between needs coarse_level < level < fine_level, got {given}")
        known = noise_array("coarse", coarse), noise_array("fine", fine)
        if known[0].shape != known[1].shape:
            raise DeclarationError("coarse and fine must have the same shape")
        return self._bridge(*known, (left, target, right), rng=rng)

    # The public methods check the order of levels and convert levels to fractions before they call the methods below.

    @abstractmethod
    def _sampled(self, size: int, level: Level, *, rng: Generator) -> NoiseArray: ...

    @abstractmethod
    def _coarsened(self, fine: NoiseArray, known: Fraction, target: Fraction, *, rng: Generator) -> NoiseArray: ...

    @abstractmethod
    def _refined(self, coarse: NoiseArray, known: Fraction, target: Fraction, *, rng: Generator) -> NoiseArray:
        """Draw finer noise given `coarse`. In a `Family`, it may have shape (rows, n); rows share random numbers."""

    @abstractmethod
    def _bridge(self, coarse: NoiseArray, fine: NoiseArray, levels: Three, *, rng: Generator) -> NoiseArray: ...


class Family(DenseFamily):
    """A noise family for sparse histograms: coarse noise is fine noise plus an independent increment."""

    monotone: ClassVar[bool] = True

    def carry(self, values: NoiseArray, start: Level, end: Level, *, rng: Generator) -> NoiseArray:
        """Coarsen or refine noise of shape (rows, n) from level `start` to `end`. The rows share random numbers.

        If the family is monotone, then values[i, k] >= values[j, k] implies result[i, k] >= result[j, k].
        """
        known, target, values = as_level(start), as_level(end), noise_array("values", values)
        if not (order := compared(target, known)):
            return values
        if order < 0:
            return values + self._increment(values.shape[-1], known, target, rng=rng)
        return self._refined(values, known, target, rng=rng)

    def tail(self, threshold: ArrayLike, level: Level) -> FloatArray:
        """Return P[Z > threshold]; `threshold` is in counts and may have any shape."""
        return np.asarray(np.exp(self.log_tail(threshold, level)))

    @abstractmethod
    def log_tail(self, threshold: ArrayLike, level: Level) -> FloatArray:
        """Return ln P[Z > threshold], accurate in both tails."""

    @abstractmethod
    def log_cdf(self, threshold: ArrayLike, level: Level) -> FloatArray:
        """Return ln P[Z <= threshold], accurate in both tails."""

    @abstractmethod
    def inverse_log_tail(self, log_probability: ArrayLike, level: Level) -> NoiseArray:
        """Return the smallest x, in counts, with ln P[Z > x] <= `log_probability`, which is at most 0."""

    def sample_tail(self, size: int, threshold: ArrayLike, level: Level, *, rng: Generator) -> NoiseArray:
        """Draw noise above `threshold`, a scalar or an array with one threshold per draw; shape (size,)."""
        log_uniform = np.negative(rng.standard_exponential(whole_number("size", size)))
        bounds = float_entries("threshold", threshold, size)
        values = self.inverse_log_tail(self.log_tail(bounds, level) + log_uniform, level)
        # If rounding has made a value equal to its threshold, take the smallest possible value above the threshold.
        least = just_above(bounds, integer=self.integer)
        return np.asarray(np.maximum(values, least.astype(values.dtype, copy=False)))

    def _coarsened(self, fine: NoiseArray, known: Fraction, target: Fraction, *, rng: Generator) -> NoiseArray:
        noise = self._increment(len(fine), known, target, rng=rng)
        noise += fine
        return noise

    @abstractmethod
    def _increment(self, size: int, fine: Fraction, coarse: Fraction, *, rng: Generator) -> NoiseArray:
        """Draw the difference between coarse and fine noise, which is independent of fine noise; shape (size,)."""


class JumpFamily(Family):
    """Base class of real-valued noise whose increments are sometimes 0, and otherwise distributed as coarse noise."""

    power: ClassVar[int]  # the exponent in P[increment is 0] = (coarse level / fine level)**power

    def _increment(self, size: int, fine: Fraction, coarse: Fraction, *, rng: Generator) -> FloatArray:
        increment: FloatArray = self.sample(size, coarse, rng=rng)
        increment[rng.random(size) < quotient(coarse, fine) ** self.power] = 0.0
        return increment

    def _bridge(self, coarse: FloatArray, fine: FloatArray, levels: Three, *, rng: Generator) -> FloatArray:
        """Draw noise at the middle of three levels. Copy `fine` with probability `stays`, and where coarse == fine.

        Otherwise, add to `fine` what `_refined` draws at the middle level if the coarse noise is coarse - fine.
        """
        left, target, right = (level**self.power for level in levels)
        result = np.array(fine, np.float64)
        stays = float((target - left) / (right - left))
        moving = np.flatnonzero((rng.random(result.size) >= stays) & (coarse != fine))
        gap = coarse[moving] - result[moving]
        step = self._refined(gap, levels[0], levels[1], rng=rng)
        # Where the result is coarse noise, copy it, because rounding errors may change fine + (coarse - fine).
        result[moving] = np.where(step == gap, coarse[moving], result[moving] + step)
        return result


def just_above(margins: FloatArray, *, integer: bool) -> FloatArray:
    """Return the smallest noise above each margin: the next integer or, for real-valued noise, the next double."""
    return np.floor(margins) + 1 if integer else np.nextafter(margins, np.inf)


def checked_sensitivity(value: Level) -> None:
    """Raise DeclarationError unless the sensitivity is positive and finite."""
    try:
        as_level(value)
    except LevelError:
        raise DeclarationError(f"sensitivity must be positive and finite, got {shown(value)}") from None
