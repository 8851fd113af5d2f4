"""Families of noise, one a file, and the protocol they share. Core: numpy and scipy only, no I/O."""

import math

from sparsehist.errors import DeclarationError
from sparsehist.noise.family import Family
from sparsehist.noise.gaussian import Gaussian

__all__ = ["Family", "Gaussian", "family_named"]


def family_named(name: str, max_keys: int) -> Family:
    """The family of a histogram to which a unit adds at most 1 in each of `max_keys` cells.

    Raises:
        DeclarationError: If there is no family of that name.

    Example:
        >>> family_named("gaussian", 16).std(2)
        2.0
    """
    if name != "gaussian":
        message = f"noise must be 'gaussian', the only family of this version, got {name!r}"
        raise DeclarationError(message)
    return Gaussian(sensitivity=math.sqrt(max_keys))
