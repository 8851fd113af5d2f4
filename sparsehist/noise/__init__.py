"""Families of noise, one a file, and the protocol they share. Core: numpy and scipy only, no I/O."""

import math
from collections.abc import Callable

from sparsehist.errors import DeclarationError
from sparsehist.noise.check import check_family
from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.noise.exponential import Exponential
from sparsehist.noise.family import Family
from sparsehist.noise.gaussian import Gaussian
from sparsehist.noise.laplace import Laplace
from sparsehist.noise.poisson import Poisson
from sparsehist.noise.skellam import Skellam
from sparsehist.privacy.composition import NOT_ADDITIVE, PURE, ZCDP

__all__ = [
    "DiscreteLaplace",
    "Exponential",
    "Family",
    "Gaussian",
    "Laplace",
    "Poisson",
    "Skellam",
    "check_family",
    "currency_of",
    "family_named",
]

# A unit changes max_keys cells by at most 1 each: by max_keys in L1 and by its root in L2.
_FOR_HISTOGRAMS: dict[str, tuple[Callable[[int], Family], str]] = {
    "gaussian": (lambda max_keys: Gaussian(sensitivity=math.sqrt(max_keys)), ZCDP),
    "laplace": (lambda max_keys: Laplace(sensitivity=float(max_keys)), PURE),
    "discrete_laplace": (lambda max_keys: DiscreteLaplace(sensitivity=max_keys), PURE),
    "poisson": (lambda max_keys: Poisson(sensitivity=max_keys), NOT_ADDITIVE),
    "skellam": (lambda max_keys: Skellam(sensitivity=max_keys), NOT_ADDITIVE),
}


def family_named(name: str, max_keys: int) -> Family:
    """The family of a histogram to which a unit adds at most 1 in each of `max_keys` cells.

    Raises:
        DeclarationError: If there is no such family, or it has no guarantee to give.

    Example:
        >>> family_named("gaussian", 16).std(2)
        2.0
    """
    if name == "exponential":
        message = (
            "noise='exponential' is a building block without any privacy guarantee; nothing is released under it"
        )
        raise DeclarationError(message)
    if name not in _FOR_HISTOGRAMS:
        known = ", ".join(map(repr, _FOR_HISTOGRAMS))
        message = f"noise must be one of {known}, or a family of your own as 'module:qualname', got {name!r}"
        raise DeclarationError(message)
    return _FOR_HISTOGRAMS[name][0](max_keys)


def currency_of(name: str) -> str:
    """The currency that levels of a family are in, for adding up: "rho", "epsilon", or "none"."""
    return _FOR_HISTOGRAMS[name][1] if name in _FOR_HISTOGRAMS else NOT_ADDITIVE
