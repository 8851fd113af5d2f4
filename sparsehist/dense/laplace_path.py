"""The noise of the Laplace mechanism at all levels of an interval at once, stored by its jumps.

From fine to coarse the noise has independent increments: jumps come at rate 2/level, and each is a Laplace draw of
scale sensitivity/level. From coarse to fine it is Markov: from x it jumps at rate 1/level + |x|/sensitivity to y with
density proportional to exp(-level (|y| + |x - y|)/sensitivity).

Source: [KHP section 3.4]; the jumps are derived from their eq. (22): the probability of no jump from x between levels
a < b is (a/b) exp(-(b - a)|x|/sensitivity).

Papers: [ARNP Figure 1]; [KHP Thm 1, section 3.4].
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from sparsehist.dense.laplace_jumps import Jumps, jumps_to_coarser, jumps_to_finer, laplace_draws
from sparsehist.dense.state_bytes import pack, unpack
from sparsehist.errors import DeclarationError, LevelOrderError, shown
from sparsehist.privacy.levels import Level, as_level, level_float, level_text
from sparsehist.typing import FloatArray, Generator, IntArray

_KIND = "LaplacePath"


class LaplacePath:
    """Paths of n independent coordinates over an interval of levels. Secret; no field is printed.

    Made by `sample_laplace_path` or `LaplacePath.from_bytes`. A path is constant between jumps, so its value is
    exact at every level of the interval.
    """

    __slots__ = ("_coarsest", "_finest", "_finest_values", "_jumps", "_sensitivity")

    def __init__(
        self, sensitivity: float, coarsest: Fraction, finest: Fraction, finest_values: FloatArray, jumps: Jumps
    ) -> None:
        """Jumps are sorted by coordinate, then from fine to coarse."""
        self._sensitivity, self._coarsest, self._finest = sensitivity, coarsest, finest
        self._finest_values, self._jumps = finest_values, jumps

    def __len__(self) -> int:
        """Number of coordinates."""
        return int(self._finest_values.size)

    def __repr__(self) -> str:
        """Public parameters only."""
        interval = f"{level_text(self._coarsest)} to {level_text(self._finest)}"
        return f"LaplacePath({len(self)} coordinates, levels {interval}, sensitivity {self._sensitivity:g})"

    @property
    def interval(self) -> tuple[Fraction, Fraction]:
        """Coarsest and finest level."""
        return self._coarsest, self._finest

    def jumps(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Coordinate, level and size of every jump, sorted by coordinate, then from fine to coarse; shape (m,) each.

        The noise at a level is the noise at the finest level plus all jumps at that level or finer.
        """
        before = np.concatenate([[0.0], self._jumps.values[:-1]])
        first = np.diff(self._jumps.coordinate, prepend=-1) != 0
        before[first] = self._finest_values[self._jumps.coordinate[first]]
        return self._jumps.coordinate.copy(), self._jumps.levels.copy(), self._jumps.values - before

    def evaluate(self, level: Level) -> FloatArray:
        """Return the noise at a level, in counts; shape (n,). LevelOrderError outside the interval."""
        target = as_level(level)
        if not self._coarsest <= target <= self._finest:
            raise LevelOrderError(
                f"level {level_text(target)} is outside the sampled interval from {level_text(self._coarsest)} to "
                f"{level_text(self._finest)}; extend the path first"
            )
        if target == self._finest:
            return self._finest_values.copy()
        past = self._jumps.levels >= level_float(target)
        done = np.bincount(self._jumps.coordinate[past], minlength=len(self))
        last = self._starts() + done - 1
        noise = self._finest_values.copy()
        moved = done > 0
        noise[moved] = self._jumps.values[last[moved]]
        return noise

    def extend(self, level: Level, *, rng: Generator) -> LaplacePath:
        """Draw the same path further, up to `level`; LevelOrderError if the level is in the interval."""
        target = as_level(level)
        if target < self._coarsest:
            here = self.evaluate(self._coarsest)
            new = jumps_to_coarser(here, self._sensitivity, target, self._coarsest, rng=rng)
            return self._joined(target, self._finest, self._finest_values, new)
        if target > self._finest:
            finest_values, new = jumps_to_finer(self._finest_values, self._sensitivity, self._finest, target, rng=rng)
            return self._joined(self._coarsest, target, finest_values, new)
        raise LevelOrderError(f"level {level_text(target)} is inside the interval already; evaluate the path there")

    def to_bytes(self) -> bytes:
        """Write the path; `from_bytes` reads it. Secret."""
        header = {"sensitivity": self._sensitivity, "interval": [str(self._coarsest), str(self._finest)]}
        return pack(_KIND, header, [self._finest_values, *self._jumps])

    @staticmethod
    def from_bytes(content: bytes) -> LaplacePath:
        """Read what `to_bytes` wrote; InputError or StoreDamagedError if these are other bytes."""
        header, (finest_values, *jumps) = unpack(_KIND, content)
        coarsest, finest = map(Fraction, header["interval"])
        return LaplacePath(header["sensitivity"], coarsest, finest, finest_values, Jumps(*jumps))

    def _starts(self) -> IntArray:
        return np.searchsorted(self._jumps.coordinate, np.arange(len(self)))

    def _joined(self, coarsest: Fraction, finest: Fraction, finest_values: FloatArray, new: Jumps) -> LaplacePath:
        both = Jumps(*(np.concatenate(pair) for pair in zip(self._jumps, new, strict=True)))
        ordered = both.take(np.lexsort((-both.levels, both.coordinate)))
        return LaplacePath(self._sensitivity, coarsest, finest, finest_values, ordered)


def sample_laplace_path(
    size: int, coarsest: Level, finest: Level, *, sensitivity: float = 1.0, rng: Generator
) -> LaplacePath:
    """Sample the noise of n coordinates at all levels of an interval.

    Args:
        size: Number of coordinates; at least 1.
        coarsest: epsilon at the private end.
        finest: epsilon at the other end; above `coarsest`.
        sensitivity: L1 sensitivity of the vector, in counts.
        rng: Randomness; from `sparsehist.entropy` outside tests.

    Returns:
        The paths; on average 2 ln(finest/coarsest) jumps a coordinate. Draws are doubles of 53 bits.

    Raises:
        DeclarationError: If size or sensitivity are not positive, or the levels not in order.

    Example:
        >>> from sparsehist import entropy
        >>> path = sample_laplace_path(3, "0.1", 10, rng=entropy.seeded(1))
        >>> path
        LaplacePath(3 coordinates, levels 0.1 to 10, sensitivity 1)
        >>> path.evaluate("0.5").shape
        (3,)
    """
    if size < 1:
        raise DeclarationError(f"size must be at least 1, got {shown(size)}")
    if not (math.isfinite(sensitivity) and sensitivity > 0):
        raise DeclarationError(f"sensitivity must be positive and finite, got {shown(sensitivity)}")
    low, high = _interval(coarsest, finest)
    start = laplace_draws(size, rng=rng) * (sensitivity / level_float(high))
    jumps = jumps_to_coarser(start, sensitivity, low, high, rng=rng)
    return LaplacePath(float(sensitivity), low, high, start, jumps)


def _interval(coarsest: Level, finest: Level) -> tuple[Fraction, Fraction]:
    low, high = as_level(coarsest), as_level(finest)
    if not low < high:
        raise LevelOrderError(f"coarsest must be below finest, got {shown(coarsest)} and {shown(finest)}")
    return low, high
