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
