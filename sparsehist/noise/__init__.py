"""Noise families, each in its own module, and the interfaces that they implement: `DenseFamily` and `Family`."""

import math

from sparsehist.errors import DeclarationError, shown
from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.noise.exponential import Exponential
from sparsehist.noise.family import DenseFamily, Family
from sparsehist.noise.gaussian import Gaussian
from sparsehist.noise.laplace import Laplace
from sparsehist.noise.poisson import Poisson
from sparsehist.noise.randomised_response import RandomisedResponse
from sparsehist.noise.skellam import Skellam

__all__ = [
    "DenseFamily",
    "DiscreteLaplace",
    "Exponential",
    "Family",
    "Gaussian",
    "Laplace",
    "Poisson",
    "RandomisedResponse",
    "Skellam",
    "currency_of",
    "family_named",
    "name_of",
]

_NAMED: dict[str, type[Gaussian | Laplace | DiscreteLaplace | Poisson | Skellam]] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "discrete_laplace": DiscreteLaplace,
    "poisson": Poisson,
    "skellam": Skellam,
}


def family_named(name: str, max_keys: int) -> Family:
    """Return the noise family `name`, for units that change up to `max_keys` cells by at most 1 each.

    Example:
        >>> family_named("gaussian", 16).std(2)
        2.0
    """
    if name == "exponential":
        raise DeclarationError("noise='exponential' has no privacy guarantee and cannot be used for releases")
    if name not in _NAMED:
        known = ", ".join(map(repr, _NAMED))
        message = f"noise must be one of {known}, or an instance of one of these families, got {shown(name)}"
        raise DeclarationError(message)
    return Gaussian(math.sqrt(max_keys)) if name == "gaussian" else _NAMED[name](max_keys)


def name_of(family: Family) -> str | None:
    """Return the name of a noise family, or None if histograms cannot use the family."""
    return next((name for name, known in _NAMED.items() if type(family) is known), None)


def currency_of(name: str) -> str:
    """Return the currency in which costs of the family `name` add up: "rho", "epsilon" or "none"."""
    return _NAMED[name].currency if name in _NAMED else "none"
