"""Noise drawn in blocks and handed out one by one: a single exact draw costs as much as a hundred."""

from __future__ import annotations

from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.privacy.levels import Level
from sparsehist.typing import Generator, secret

_BLOCK = 256


@secret
class NoiseSupply:
    """Discrete Laplace noise of one level, each value handed out once. Secret, and worthless once copied.

    Args:
        family: The noise.
        level: Its level.
    """

    __slots__ = ("_family", "_left", "_level")

    def __init__(self, family: DiscreteLaplace, level: Level) -> None:
        self._family, self._level = family, level
        self._left: list[int] = []

    @property
    def left(self) -> int:
        """How many values are ready."""
        return len(self._left)

    def refilled(self, *, rng: Generator) -> NoiseSupply:
        """Draw the next block."""
        self._left = self._family.sample(_BLOCK, self._level, rng=rng).tolist()
        return self

    def take(self) -> int:
        """The next value; there has to be one."""
        return self._left.pop()
