"""A family of noise as a user would bring it."""

from __future__ import annotations

import math
from typing import Self

from sparsehist.noise import Gaussian


class Brought(Gaussian):
    """The Gaussian family under another name."""

    @classmethod
    def for_histogram(cls, max_keys: int) -> Self:
        """Noise for histograms to which a unit adds at most 1 in each of max_keys cells."""
        return cls(sensitivity=math.sqrt(max_keys))


class Backwards(Brought):
    """One whose steps do not keep orders."""

    monotone = False  # type: ignore[misc]


class Homeless:
    """One that does not know what histograms need."""


class Half(Brought):
    """One that makes something else, which lacks most laws."""

    @classmethod
    def for_histogram(cls, max_keys: int) -> object:  # type: ignore[override]
        return Homeless()


class Stubborn(Brought):
    """One that takes units of one key only."""

    @classmethod
    def for_histogram(cls, max_keys: int) -> Self:
        if max_keys > 1:
            message = "one key only"
            raise ValueError(message)
        return cls()
